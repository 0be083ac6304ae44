"""The best model of a run, and what a run says: once, with what to do, and only where it is so."""

import re
import threading
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cases import one_feature_regression, signs_of_a_difference
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


ALWAYS = fgmp.FedGradMP(2, selection=fgmp.PerOutput(always_include=0))
FIRST_ORDER = {"learning_rate": 0.05, "local_iterations": 3}


@pytest.mark.parametrize(
    "method, sizes, words",
    [
        (
            fgmp.FedGradMP(3),
            (30, 8, 5),
            r"9 coefficients .*, and 2 of 3 clients have no more than 9.*SharedSupportGra",
        ),
        (ALWAYS, (7, 40), "7 coefficients .* 1 of 2 clients has"),  # as many as columns
        (ALWAYS, (8, 40), None),
        (
            fgmp.FedGradMP(10),
            (11, 40),
            "12 coefficients .* 1 of 2 clients has",
        ),  # 3 tau is 30, and there are 12
        (fgmp.FedGradMP(3, solver=fgmp.GradientDescent(steps=1)), (30, 8, 5), None),
        (fgmp.SharedSupportGradMP(3), (30, 8, 5), None),
        (
            fgmp.FedGradMP(1, batch_size=10),
            (30, 8, 20),
            "batch_size is 10, and 1 of 3 clients has fewer .* smallest 8",
        ),
        (
            fgmp.FedAvg(batch_size=10, **FIRST_ORDER),
            (30, 8, 20),
            "batch_size is 10, and 1 of 3 clients has fewer",
        ),
        (fgmp.FedAvg(batch_size=8, **FIRST_ORDER), (30, 8, 20), None),
    ],
)
def test_sites_with_too_few_rows_for_what_they_solve_are_counted(method, sizes, words):
    spoken, result = said(method, one_feature_regression(sizes))
    assert len(spoken) == (words is not None)
    assert np.isfinite(result.x).all()
    assert words is None or re.search(words, spoken[0])


def test_a_run_that_ends_above_its_start_says_so():
    fed = one_feature_regression((30, 30))
    (word,), result = said(fgmp.FedAvg(learning_rate=2.0), fed, 6)
    objective = result.history["objective"]
    assert f"ends at {objective[-1]:.3g}, above the {objective[0]:.3g} of the start" in word
    assert f"it was {objective.min():.3g} in round {objective.argmin()}" in word
    assert "result.best" in word
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
    assert [
        text[-20:] for text in said(method, signs_of_a_difference(noise=noise), rounds)[0]
    ] == says


def test_polish_comes_back_from_a_model_that_ran_away_or_says_that_it_did_not_converge():
    """From an objective far above that of zero, on a support that has a minimiser."""
    fed = signs_of_a_difference(noise=1.0)
    _, result = said(fgmp.FedAvg(learning_rate=4000.0), fed)
    assert result.history["objective"][-1] > 100 * result.history["objective"][0]
    closed = fgmp.polish(result, fed)
    A = np.concatenate([c.features for c in fed.clients])
    y = np.concatenate([c.targets for c in fed.clients])
    reference = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(
        A, y
    )
    assert closed.history["objective"][-1] == pytest.approx(
        fed.objective(reference.coef_[0]), rel=1e-6
    )
    assert closed.best.round == closed.history["round"][-1]
    assert closed.best.value == closed.history["objective"][-1]
    np.testing.assert_array_equal(closed.best.x, closed.x)
    with pytest.warns(
        ConvergenceWarning, match=r"polish ended with NewtonOnSupport\(steps=2, ridge=0.0\) before"
    ):
        fgmp.polish(result, fed, solver=fgmp.NewtonOnSupport(steps=2))
    result = fgmp.simulate(fgmp.FedGradMP(2), fed, 1, rng=0)
    for quiet in (fgmp.NewtonOnSupport(steps=5), fgmp.NewtonOnSupport(steps=5, ridge=0.1)):
        fgmp.polish(result, fed, solver=quiet)
    fed = one_feature_regression((30, 30))
    fgmp.polish(fgmp.simulate(fgmp.FedGradMP(2), fed, 1, rng=0), fed)  # exact at once


@pytest.mark.usefixtures("backend")
def test_a_run_in_which_no_update_arrived_says_so():
    fed = one_feature_regression((30, 30))
    nobody = fgmp.Faulty(fed, fgmp.DropOut())
    for method in (fgmp.FedGradMP(2), fgmp.FedAvg(learning_rate=0.1)):
        (word,), result = said(method, nobody, 3)
        name = type(method).__name__
        assert word.startswith(
            f"no update arrived in 3 rounds of {name}: the model is the one of the start"
        )
        assert word.endswith("; rejected updates: 6 missing")
        assert not result.x.any()
        assert said(method, nobody, 0)[0] == []
        assert said(method, fgmp.Faulty(fed, fgmp.DropOut(clients=[0])), 3)[0] == []
    (word,), _ = said(fgmp.FedAvg(learning_rate=1e300, local_iterations=3), fed, 2)
    assert "rejected updates: 4 not_finite. What helps: smaller" in word


def test_a_run_that_began_before_a_checkpoint_has_had_its_updates(tmp_path):
    """Nobody answers after the second round; what counts is the run, not the part of it that this process did."""

    class Gone(fgmp.FedGradMP):
        rounds = 0

        def server_update(self, x, mean):
            type(self).rounds += 1
            return super().server_update(x, mean)

        def client_update(self, client, x, rng):
            return None if type(self).rounds >= 2 else super().client_update(client, x, rng)

    callbacks = fgmp.Checkpoint(tmp_path / "run")
    assert said(Gone(2), one_feature_regression((30, 30)), 2, callbacks=callbacks)[0] == []
    assert said(Gone(2), one_feature_regression((30, 30)), 4, callbacks=callbacks)[0] == []


def test_a_search_and_a_closing_exchange_without_an_update_say_so():
    fed = one_feature_regression((30, 30))
    with pytest.warns(fgmp.AdviceWarning, match="no update arrived in any of the 2 runs of tune"):
        fgmp.tune(runaway, {"learning_rate": [1e300, 1e301]}, fed, 2)
    result = fgmp.simulate(fgmp.FedGradMP(2), fed, 2, rng=0)
    with pytest.warns(
        fgmp.AdviceWarning,
        match="no update arrived in 1 round of polish: .* rejected updates: 2 not_finite",
    ):
        fgmp.polish(result, fed, aggregator=Deaf())


def runaway(learning_rate):
    """At no client three steps so long end with finite numbers."""
    return fgmp.FedAvg(learning_rate=learning_rate, local_iterations=3)


class Nothing(fgmp.PrivacyMechanism):
    """Accepts no update."""

    def collect(self, transport, call, message, cohort):
        updates = super().collect(transport, call, message, cohort)
        return updates._replace(
            accepted=np.arange(0), weights=np.zeros(0), rejected=Counter(not_finite=len(cohort))
        )


class Deaf(fgmp.Mean):
    privacy = Nothing()


def test_nobody_is_asked_for_a_warning(monkeypatch):
    """What is looked at is on record: four objectives of three rounds, and no client of the squared loss is made."""
    fed = one_feature_regression((30, 30))
    asked = []
    objectives = fgmp.Federation.objectives
    monkeypatch.setattr(
        fgmp.Federation, "objectives", lambda *given: asked.append(1) or objectives(*given)
    )
    made = []
    monkeypatch.setattr(fgmp.Federation, "client", lambda *given: made.append(1))
    (word,), _ = said(fgmp.FedAvg(learning_rate=2.0), fed, 3)
    assert "above the" in word
    assert len(asked) == 4
    assert not made
    unbounded = fgmp.FedAvg(learning_rate=0.1)
    assert said(unbounded, fed, 3)[0] == []
    assert len(asked) == 8
    assert not made


def test_what_is_rounding_after_a_warm_start_is_not_said():
    """The objective goes from 1e-30 to a few times that, on targets of size one."""
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((30, 12)) for _ in range(2)]
    x = rng.standard_normal(12)
    fed = fgmp.Federation.from_arrays(As, [A @ x for A in As])
    method = fgmp.FedAvg(learning_rate=0.1)
    assert said(method, fed, 3, state=x * (1 + 1e-16))[0] == []
    risen = said(fgmp.FedAvg(learning_rate=2.0), fed, 3, state=x + 1e-3)[0]
    assert len(risen) == 1
    assert "above the" in risen[0]


def test_advice_is_silenced_in_one_thread_and_filters_are_never_touched():
    """Threads that leave `quiet` in another order than they came; and fits and dictionaries in threads."""
    filters = list(warnings.filters)
    inside = threading.Barrier(3)
    leave = [threading.Event(), threading.Event()]

    def silent(place):
        with fgmp._support.warnings.suppress_advice():
            inside.wait(30)
            fgmp._support.warnings.warn_user("nobody hears this")
            leave[place].wait(30)

    threads = [threading.Thread(target=silent, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    inside.wait(30)
    with pytest.warns(fgmp.AdviceWarning, match="everybody hears this"):
        fgmp._support.warnings.warn_user("everybody hears this")
    for event, thread in zip(leave, threads, strict=True):
        event.set()
        thread.join(30)
    assert warnings.filters == filters
    sources = Path(fgmp.__file__).parent.rglob("*.py")
    touching = [
        path.name
        for path in sources
        if re.search(r"catch_warnings|simplefilter\(", path.read_text())
    ]
    assert touching == ["warnings.py"]  # whose docstring shows how a user does it


def test_fits_in_threads_leave_no_filter_behind():
    """Of advice, nor of what a pursuit says; scikit-learn sets some of its own, of other kinds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 5))
    groups = np.arange(120) % 3
    y = X[:, 0] + 0.1 * rng.standard_normal(120)
    frames = np.repeat(rng.standard_normal((10, 12)), 3, axis=0) + 1e-9 * rng.standard_normal(
        (30, 12)
    )

    def ours():
        return [
            entry for entry in warnings.filters if entry[2] in (fgmp.AdviceWarning, RuntimeWarning)
        ]

    def work(number):
        fgmp.FedGradMPRegressor(1 + number % 3).fit(X, y, groups)
        fgmp.ksvd(frames, 6, 2, iterations=2, rng=number)

    before = ours()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(16)))
    assert ours() == before
