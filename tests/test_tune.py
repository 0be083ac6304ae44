"""The grid search: equal budgets, divergence, and the candidate that a plain loop would choose."""

import numpy as np
import pytest

import fgmp

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture(scope="module")
def feds():
    return [
        fgmp.make_sparse_regression(4, 20, 15, 3, 0.2, noise_variance=0.01, rng=s) for s in range(3)
    ]


def make(learning_rate, local_iterations=2):
    return fgmp.FedIterHT(
        sparsity=3, learning_rate=learning_rate, local_iterations=local_iterations
    )


GRID = {"learning_rate": [0.001, 0.05, 100.0], "local_iterations": [1, 3]}


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_best_candidate_is_that_of_a_plain_loop(feds):
    """By medians over federations; a candidate that diverges ends early."""
    tuning = fgmp.tune(make, GRID, feds, rounds=15)
    assert len(tuning.trials) == 6
    assert tuning.column == "relative_error"
    scores = {}
    for rate in GRID["learning_rate"]:
        for k in GRID["local_iterations"]:
            ends = [
                fgmp.simulate(make(rate, k), fed, 15, rng=0).history["relative_error"][-1]
                for fed in feds
            ]
            scores[rate, k] = np.median(ends)
    expected = min((s, key) for key, s in scores.items() if key[0] < 100)
    assert tuning.best.score == expected[0]
    assert (
        tuple(tuning.best.parameters[name] for name in ("learning_rate", "local_iterations"))
        == expected[1]
    )
    for trial in tuning.trials:
        assert (
            trial.diverged == (trial.parameters["learning_rate"] == 100) == (trial.score == np.inf)
        )
        assert [history["round"][-1] < 15 for history in trial.histories] == 3 * [trial.diverged]


def test_number_of_workers_does_not_change_scores(feds):
    """Two processes give what one gives."""
    one = fgmp.tune(make, GRID, feds[0], rounds=5, workers=1)
    two = fgmp.tune(make, GRID, feds[0], rounds=5, workers=2)
    assert [(t.score, t.parameters) for t in one.trials] == [
        (t.score, t.parameters) for t in two.trials
    ]


def test_search_without_truth_uses_the_objective(feds):
    """And callbacks reach the runs."""
    unknown = fgmp.Federation.from_clients(feds[0].clients, feds[0].weights)
    tuning = fgmp.tune(
        make, GRID, unknown, rounds=50, callbacks=lambda run: run.progress.round == 5
    )
    assert tuning.column == "objective"
    assert tuning.best.histories[0]["round"][-1] == 5
    assert tuning.best.score == tuning.best.histories[0]["objective"][-1]


def test_search_in_which_all_diverge_has_no_best(feds):
    """Every trial says that it diverged."""
    tuning = fgmp.tune(make, {"learning_rate": [50.0, 1e3]}, feds, rounds=30)
    assert tuning.best is None
    assert all(trial.diverged for trial in tuning.trials)


def test_candidate_without_any_update_has_diverged(feds):
    """With a step so long that every update is rejected, the other candidate is the best."""
    tuning = fgmp.tune(make, {"learning_rate": [0.05, 1e200]}, feds, rounds=5)
    assert [trial.diverged for trial in tuning.trials] == [False, True]
    assert tuning.best.parameters == {"learning_rate": 0.05}


def test_candidates_have_the_same_seed(feds):
    """Also if it is drawn, or a generator."""
    for seed in (None, np.random.default_rng(0)):
        tuning = fgmp.tune(
            lambda repetition: make(0.05),
            {"repetition": np.array([1, 2])},
            feds[0],
            5,
            cohort_size=2,
            rng=seed,
        )
        assert type(tuning.trials[0].parameters["repetition"]) is int
        np.testing.assert_array_equal(
            *[trial.histories[0]["relative_error"] for trial in tuning.trials]
        )


def test_search_may_use_objective_of_other_clients(feds):
    """As a metric of the history."""
    train = feds[0].subset([0, 2])
    unseen = feds[0].subset([1, 3])
    options = dict(column="unseen", history=fgmp.History(metrics={"unseen": unseen.objective}))
    for trial in fgmp.tune(make, {"learning_rate": [0.01, 0.05]}, train, 4, **options).trials:
        result = fgmp.simulate(make(**trial.parameters), train, 4, rng=0)
        assert trial.score == pytest.approx(unseen.objective(result.x), rel=1e-12)
