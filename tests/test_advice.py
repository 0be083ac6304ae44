"""The best model of a run, and what a run says: once, with what to do, and only where it is so."""

import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import fgmp


def said(method, fed, rounds=3, **options):
    """The advice of a run, and the run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fgmp.simulate(method, fed, rounds, rng=0, **options)
    assert all(issubclass(w.category, fgmp.AdviceWarning) for w in caught)
    assert all(w.filename == __file__ for w in caught)  # it points at the call, not into the module
    return [str(w.message) for w in caught], result


def regression(sizes, n_features=12, seed=0):
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((size, n_features)) for size in sizes]
    return fgmp.Federation.from_arrays(As, [A[:, 0] + rng.standard_normal(len(A)) for A in As])


def labelled(sizes=(40, 40, 40), noise=0.0, seed=0, n_features=6):
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((size, n_features)) for size in sizes]
    ys = [np.where(A[:, 0] - A[:, 1] + noise * rng.standard_normal(len(A)) > 0, 1, -1) for A in As]
    return fgmp.Federation.from_arrays(As, ys, "logistic")


ALWAYS = fgmp.FedGradMP(2, selection=fgmp.PerOutput(always=0))
FIRST_ORDER = {"learning_rate": 0.05, "local_iterations": 3}


@pytest.mark.parametrize(
    "method, sizes, words",
    [
        (fgmp.FedGradMP(3), (30, 8, 5), r"9 coefficients .*, and 2 of 3 clients have no more than 9.*SharedSupportGra"),
        (ALWAYS, (7, 40), "7 coefficients .* 1 of 2 clients has"),  # as many as columns
        (ALWAYS, (8, 40), None),
        (fgmp.FedGradMP(10), (11, 40), "12 coefficients .* 1 of 2 clients has"),  # 3 tau is 30, and there are 12
        (fgmp.FedGradMP(3, solver=fgmp.GradientDescent(steps=1)), (30, 8, 5), None),
        (fgmp.SharedSupportGradMP(3), (30, 8, 5), None),
        (fgmp.FedGradMP(1, batch_size=10), (30, 8, 20), "batch_size is 10, and 1 of 3 clients has fewer .* smallest 8"),
        (fgmp.FedAvg(batch_size=10, **FIRST_ORDER), (30, 8, 20), "batch_size is 10, and 1 of 3 clients has fewer"),
        (fgmp.FedAvg(batch_size=8, **FIRST_ORDER), (30, 8, 20), None),
    ],
)
def test_sites_with_too_few_rows_for_what_they_solve_are_counted(method, sizes, words):
    spoken, result = said(method, regression(sizes))
    assert len(spoken) == (words is not None) and np.isfinite(result.x).all()
    assert words is None or re.search(words, spoken[0])


def test_a_run_that_ends_above_its_start_says_so():
    fed = regression((30, 30))
    (word,), result = said(fgmp.FedAvg(learning_rate=2.0), fed, 6)
    objective = result.history["objective"]
    assert f"ends at {objective[-1]:.3g}, above the {objective[0]:.3g} of the start" in word
    assert f"it was {objective.min():.3g} in round {objective.argmin()}" in word and "result.best" in word
    assert said(fgmp.FedAvg(learning_rate=0.1), fed, 6)[0] == []


@pytest.mark.parametrize(
    "method, noise, rounds, says",
    [
        (fgmp.FedGradMP(2), 0.0, 10, ["a radius bounds them"]),
        (fgmp.FedGradMP(2, radius=3.0), 0.0, 10, []),
        (fgmp.FedGradMP(2), 1.0, 10, []),
    ],
)
def test_rows_that_the_model_separates(method, noise, rounds, says):
    assert [text[-20:] for text in said(method, labelled(noise=noise), rounds)[0]] == says


def test_polish_comes_back_from_a_model_that_ran_away_or_says_that_it_did_not_converge():
    """From an objective far above that of zero, on a support that has a minimiser."""
    fed = labelled(noise=1.0)
    _, result = said(fgmp.FedAvg(learning_rate=4000.0), fed)
    assert result.history["objective"][-1] > 100 * result.history["objective"][0]
    closed = fgmp.polish(result, fed)
    A, y = (np.concatenate([getattr(c, part) for c in fed.clients]) for part in ("features", "targets"))
    reference = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(A, y)
    assert closed.history["objective"][-1] == pytest.approx(fed.objective(reference.coef_[0]), rel=1e-6)
    assert closed.best.round == closed.history["round"][-1] and closed.best.value == closed.history["objective"][-1]
    np.testing.assert_array_equal(closed.best.x, closed.x)
    with pytest.warns(ConvergenceWarning, match=r"polish ended with NewtonOnSupport\(steps=2, ridge=0.0\) before"):
        fgmp.polish(result, fed, solver=fgmp.NewtonOnSupport(steps=2))
    result = fgmp.simulate(fgmp.FedGradMP(2), fed, 1, rng=0)
    for quiet in (fgmp.NewtonOnSupport(steps=5), fgmp.NewtonOnSupport(steps=5, ridge=0.1)):
        fgmp.polish(result, fed, solver=quiet)
    fed = regression((30, 30))
    fgmp.polish(fgmp.simulate(fgmp.FedGradMP(2), fed, 1, rng=0), fed)  # exact at once
