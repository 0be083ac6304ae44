"""Warnings of runs and fits: each once, with what helps, and only if it is true."""

import re
import threading
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cases import one_feature_regression, signs_of_a_difference
from interruptions import interrupted_at
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import fgmp
from fgmp._support.warnings import suppress_advice, warn_user
from fgmp.losses import GLMLoss


def advice_of(method, fed, rounds=3, **options):
    """Return the warnings of a run, and its result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fgmp.simulate(method, fed, rounds, rng=0, **options)
    assert all(issubclass(w.category, fgmp.AdviceWarning) for w in caught)
    assert all(w.filename == __file__ for w in caught)  # it points at the call, not into the module
    return [str(w.message) for w in caught], result


INTERCEPT = fgmp.FedGradMP(2, selection=fgmp.PerOutput(always_include=0))
FIRST_ORDER = {"learning_rate": 0.05, "local_iterations": 3}


@pytest.mark.parametrize(
    "method, sizes, words",
    [
        (
            fgmp.FedGradMP(3),
            (30, 8, 5),
            r"9 coefficients .*, and 2 of 3 clients have no more than 9.*SharedSupportGra",
        ),
        (INTERCEPT, (7, 40), "7 coefficients .* 1 of 2 clients has"),  # as many as columns
        (INTERCEPT, (8, 40), None),
        # 3 tau is 30, and there are 12 coefficients.
        (fgmp.FedGradMP(10), (11, 40), "12 coefficients .* 1 of 2 clients has"),
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
def test_clients_with_too_few_rows_are_counted(method, sizes, words, backend):
    """A warning compares their rows with the coefficients or the batch size."""
    warned, result = advice_of(method, one_feature_regression(sizes))
    assert len(warned) == (words is not None)
    assert np.isfinite(result.x).all()
    assert words is None or re.search(words, warned[0])


def test_run_that_ends_above_its_start_warns(backend):
    """The warning has the numbers of the history, and names `result.best`."""
    fed = one_feature_regression((30, 30))
    (message,), result = advice_of(fgmp.FedAvg(learning_rate=2.0), fed, 6)
    objective = result.history["objective"]
    assert f"ends at {objective[-1]:.3g}, above the {objective[0]:.3g} of the start" in message
    assert f"it was {objective.min():.3g} in round {objective.argmin()}" in message
    assert "result.best" in message
    assert advice_of(fgmp.FedAvg(learning_rate=0.1), fed, 6)[0] == []


@pytest.mark.parametrize(
    "method, noise, rounds, says",
    [
        (fgmp.FedGradMP(2), 0.0, 10, ["a radius bounds them"]),
        (fgmp.FedGradMP(2, radius=3.0), 0.0, 10, []),
        (fgmp.SharedSupportGradMP(2, solver=fgmp.NewtonOnSupport(3, ridge=1e-4)), 0.0, 6, []),
        (fgmp.FedMid(learning_rate=100.0, l1_weight=0.0), 0.0, 10, ["a radius bounds them"]),
        (fgmp.FedMid(learning_rate=100.0, l1_weight=1e-4), 0.0, 10, []),
        (fgmp.FedGradMP(2), 1.0, 10, []),
    ],
)
def test_separated_rows_without_radius_warn(method, noise, rounds, says, backend):
    """A radius, a ridge or a penalty bounds coefficients; rows that touch need none."""
    assert [
        text[-20:] for text in advice_of(method, signs_of_a_difference(noise=noise), rounds)[0]
    ] == says


@pytest.fixture(scope="module")
def diverged():
    """A federation of two classes, and a run of it that ended far above its start."""
    federation = signs_of_a_difference(noise=1.0)
    with pytest.warns(fgmp.AdviceWarning):
        result = fgmp.simulate(fgmp.FedAvg(learning_rate=4000.0), federation, 3, rng=0)
    assert result.history["objective"][-1] > 100 * result.history["objective"][0]
    return federation, result


def test_polish_of_a_diverged_run_ends_at_the_minimiser(diverged):
    """On a support with a minimiser it is that of scikit-learn, and the best on record."""
    federation, result = diverged
    polished = fgmp.polish(result, federation)
    A = np.concatenate([client.features for client in federation.clients])
    y = np.concatenate([client.targets for client in federation.clients])
    logistic = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=10_000)
    expected = federation.objective(logistic.fit(A, y).coef_[0])
    assert polished.history["objective"][-1] == pytest.approx(expected, rel=1e-6)
    assert polished.best.round == polished.history["round"][-1]
    assert polished.best.value == polished.history["objective"][-1]
    np.testing.assert_array_equal(polished.best.x, polished.x)


def test_polish_that_does_not_converge_warns(diverged):
    """Two Newton steps from far away are too few."""
    federation, result = diverged
    words = r"polish ended with NewtonOnSupport\(steps=2, ridge=0.0\) before"
    with pytest.warns(ConvergenceWarning, match=words):
        fgmp.polish(result, federation, solver=fgmp.NewtonOnSupport(steps=2))


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_polish_that_converges_is_silent(ridge, backend):
    """Five Newton steps from near the minimiser are enough."""
    federation = signs_of_a_difference(noise=1.0)
    result = fgmp.simulate(fgmp.FedGradMP(2), federation, 1, rng=0)
    fgmp.polish(result, federation, solver=fgmp.NewtonOnSupport(steps=5, ridge=ridge))


def test_polish_of_squares_is_silent(backend):
    """One step is exact for the squared loss."""
    federation = one_feature_regression((30, 30))
    fgmp.polish(fgmp.simulate(fgmp.FedGradMP(2), federation, 1, rng=0), federation)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    "method", [fgmp.FedGradMP(2), fgmp.FedAvg(learning_rate=0.1)], ids=lambda m: type(m).__name__
)
def test_run_without_any_update_warns(method):
    """It counts what was rejected; a run without rounds, or with some updates, is silent."""
    federation = one_feature_regression((30, 30))
    nobody = fgmp.Faulty(federation, fgmp.DropOut())
    (message,), result = advice_of(method, nobody, 3)
    name = type(method).__name__
    assert message.startswith(f"no update arrived in 3 rounds of {name}: the model is the one of")
    assert message.endswith("; rejected updates: 6 missing")
    assert not result.x.any()

    assert advice_of(method, nobody, 0)[0] == []
    some = fgmp.Faulty(federation, fgmp.DropOut(clients=[0]))
    assert advice_of(method, some, 3)[0] == []


@pytest.mark.usefixtures("backend")
def test_run_with_diverging_updates_alone_warns_of_the_learning_rate():
    """If all updates are rejected as not finite, a smaller step helps."""
    method = fgmp.FedAvg(learning_rate=1e300, local_iterations=3)
    (message,), _ = advice_of(method, one_feature_regression((30, 30)), 2)
    assert "rejected updates: 4 not_finite. What helps: smaller" in message


def test_run_with_malformed_updates_alone_says_what_was_expected(backend):
    """A method of one's own that computes in another precision finds out which is expected."""

    class Narrow(fgmp.FedAvg):
        def client_update(self, client, w, rng):
            return super().client_update(client, w, rng).astype(np.float32)

    (message,), _ = advice_of(Narrow(learning_rate=0.1), one_feature_regression((30, 30)), 2)
    words = "rejected updates: 4 malformed. Each has to be an array of float64 with shape ("
    assert words in message


def test_resumed_run_that_had_updates_does_not_warn(tmp_path, backend):
    """The whole run counts, not the part of it in this process, which had no update."""

    class Gone(fgmp.FedGradMP):
        rounds = 0

        def server_update(self, x, mean):
            type(self).rounds += 1
            return super().server_update(x, mean)

        def client_update(self, client, x, rng):
            return None if type(self).rounds >= 2 else super().client_update(client, x, rng)

    callbacks = fgmp.Checkpoint(tmp_path / "run")
    assert advice_of(Gone(2), one_feature_regression((30, 30)), 2, callbacks=callbacks)[0] == []
    assert advice_of(Gone(2), one_feature_regression((30, 30)), 4, callbacks=callbacks)[0] == []


def test_search_without_any_update_warns():
    """No candidate of a grid had an update."""
    federation = one_feature_regression((30, 30))
    with pytest.warns(fgmp.AdviceWarning, match="no update arrived in any of the 2 runs of tune"):
        fgmp.tune(diverging, {"learning_rate": [1e300, 1e301]}, federation, 2)


def test_refit_without_any_update_warns(backend):
    """The warning of polish counts what was rejected."""
    federation = one_feature_regression((30, 30))
    result = fgmp.simulate(fgmp.FedGradMP(2), federation, 2, rng=0)
    words = "no update arrived in 1 round of polish: .* rejected updates: 2 not_finite"
    with pytest.warns(fgmp.AdviceWarning, match=words):
        fgmp.polish(result, federation, aggregator=RejectingMean())


def diverging(learning_rate):
    """Return a method whose three long steps end with finite numbers at no client."""
    return fgmp.FedAvg(learning_rate=learning_rate, local_iterations=3)


class RejectAll(fgmp.PrivacyMechanism):
    """Accepts no update."""

    def run_and_collect(self, transport, call, message, cohort):
        updates = super().run_and_collect(transport, call, message, cohort)
        return updates._replace(
            accepted=np.arange(0), weights=np.zeros(0), rejected=Counter(not_finite=len(cohort))
        )


class RejectingMean(fgmp.Mean):
    """A mean of which every update is rejected."""

    privacy = RejectAll()


def test_warnings_compute_nothing_at_clients(monkeypatch):
    """They use what is recorded: four objectives of three rounds, and no client is made."""
    fed = one_feature_regression((30, 30))
    computed = []
    objectives = fgmp.LocalClients.objectives
    monkeypatch.setattr(
        fgmp.LocalClients, "objectives", lambda *given: computed.append(1) or objectives(*given)
    )
    made = []
    monkeypatch.setattr(fgmp.Federation, "client", lambda *given: made.append(1))
    (message,), _ = advice_of(fgmp.FedAvg(learning_rate=2.0), fed, 3)
    assert "above the" in message
    assert len(computed) == 4
    assert not made
    unbounded = fgmp.FedAvg(learning_rate=0.1)
    assert advice_of(unbounded, fed, 3)[0] == []
    assert len(computed) == 8
    assert not made


class SquaredHinge(fgmp.Loss):
    """A loss of labels that has a minimum where a model separates them."""

    is_binary = True

    def values(self, predictions, targets):
        return np.maximum(1 - targets * predictions, 0) ** 2 / 2

    def derivative(self, predictions, targets):
        return -targets * np.maximum(1 - targets * predictions, 0)

    def curvature(self, predictions, targets, direction):
        return direction * (targets * predictions < 1)


class Exponential(GLMLoss):
    """A loss of labels that has none."""

    is_binary = True

    def values(self, predictions, targets):
        return np.exp(-targets * predictions)

    def derivative(self, predictions, targets):
        return -targets * np.exp(-targets * predictions)

    def curvature(self, predictions, targets, direction):
        return direction * np.exp(-targets * predictions)

    def label_margins(self, predictions, targets):
        return (targets * predictions)[:, None]


@pytest.mark.parametrize(("loss", "n_messages"), [(SquaredHinge(), 0), (Exponential(), 1)])
def test_own_loss_warns_of_separated_rows_if_it_has_margins(loss, n_messages):
    """Only then do coefficients grow with every round."""
    fed = fgmp.Federation.from_arrays([[[1.0], [-1.0], [2.0]]], [[1, -1, 1]], loss)
    messages, _ = advice_of(fgmp.FedAvg(learning_rate=0.1), fed, 3)
    assert len(messages) == n_messages
    assert all("classifies all rows without error" in message for message in messages)


def test_rise_by_rounding_after_a_warm_start_does_not_warn(backend):
    """An objective of 1e-30 that grows a few times is no rise on targets of size one."""
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((30, 12)) for _ in range(2)]
    x = rng.standard_normal(12)
    fed = fgmp.Federation.from_arrays(As, [A @ x for A in As])
    method = fgmp.FedAvg(learning_rate=0.1)
    assert advice_of(method, fed, 3, state=x * (1 + 1e-16))[0] == []
    risen = advice_of(fgmp.FedAvg(learning_rate=2.0), fed, 3, state=x + 1e-3)[0]
    assert len(risen) == 1
    assert "above the" in risen[0]


def test_advice_is_suppressed_in_its_own_thread_alone():
    """Also if threads leave `suppress_advice` in another order than they entered."""
    filters = list(warnings.filters)
    inside = threading.Barrier(3)
    leave = [threading.Event(), threading.Event()]

    def silent(index):
        with fgmp._support.warnings.suppress_advice():
            inside.wait(30)
            fgmp._support.warnings.warn_user("nobody sees this")
            leave[index].wait(30)

    threads = [threading.Thread(target=silent, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    inside.wait(30)
    with pytest.warns(fgmp.AdviceWarning, match="everybody sees this"):
        fgmp._support.warnings.warn_user("everybody sees this")
    for event, thread in zip(leave, threads, strict=True):
        event.set()
        thread.join(30)
    assert warnings.filters == filters


def test_package_never_touches_filters_of_warnings():
    """They are global; only a docstring shows how a user sets them."""
    sources = Path(fgmp.__file__).parent.rglob("*.py")
    touching = [
        path.name
        for path in sources
        if re.search(r"catch_warnings|simplefilter\(", path.read_text())
    ]
    assert touching == ["warnings.py"]


def test_fits_in_threads_leave_no_filter_of_warnings():
    """scikit-learn sets filters of its own, of other categories."""
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


def test_ctrl_c_where_advice_begins_to_be_held_back_leaves_it_on():
    """At each line before its end, which is one line that nothing can guard."""

    def hold_back():
        with suppress_advice():
            pass

    with interrupted_at(None) as count:
        hold_back()
    for line in range(1, count.n_lines):
        with interrupted_at(line), pytest.raises(KeyboardInterrupt):
            hold_back()
        with pytest.warns(fgmp.AdviceWarning, match="after Ctrl-C"):
            warn_user("after Ctrl-C")
