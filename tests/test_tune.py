"""The grid search: same budget, honest divergence, and the candidate that a plain loop would choose."""

import os
import subprocess
import sys

import numpy as np
import pytest

import fgmp


@pytest.fixture(scope="module")
def feds():
    return [fgmp.make_sparse_regression(4, 20, 15, 3, 0.2, noise_variance=0.01, rng=s) for s in range(3)]


def make(learning_rate, local_iterations=2):
    return fgmp.FedIterHT(sparsity=3, learning_rate=learning_rate, local_iterations=local_iterations)


GRID = {"learning_rate": [0.001, 0.05, 100.0], "local_iterations": [1, 3]}


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_the_best_is_the_one_a_plain_loop_finds(feds):
    tuning = fgmp.tune(make, GRID, feds, rounds=15)
    assert len(tuning.trials) == 6 and tuning.column == "relative_error"
    scores = {}
    for rate in GRID["learning_rate"]:
        for k in GRID["local_iterations"]:
            ends = [fgmp.simulate(make(rate, k), fed, 15, rng=0).history["relative_error"][-1] for fed in feds]
            scores[rate, k] = np.median(ends)
    expected = min((s, key) for key, s in scores.items() if key[0] < 100)
    assert tuning.best.score == expected[0]
    assert tuple(tuning.best.parameters[name] for name in ("learning_rate", "local_iterations")) == expected[1]
    for trial in tuning.trials:
        assert trial.diverged == (trial.parameters["learning_rate"] == 100)
        assert len(trial.histories) == 3
        if not trial.diverged:
            assert all(history["round"][-1] == 15 for history in trial.histories)
        else:
            assert trial.score == np.inf


def test_workers_change_nothing(feds):
    one, two = (fgmp.tune(make, GRID, feds[0], rounds=5, workers=w) for w in (1, 2))
    assert [t.score for t in one.trials] == [t.score for t in two.trials]
    assert [t.parameters for t in one.trials] == [t.parameters for t in two.trials]


ALONE = """
import fgmp
federation = fgmp.make_sparse_regression(3, 20, 60, 3, rng=0)
make = lambda learning_rate: fgmp.FedAvg(learning_rate=learning_rate)
print(fgmp.tune(make, {"learning_rate": [0.01, 0.1]}, federation, 2, workers=2).best.parameters)
"""


def test_where_joblib_starts_no_processes_this_one_does_all():
    found = subprocess.run(
        [sys.executable, "-c", ALONE],
        env=os.environ | {"JOBLIB_MULTIPROCESSING": "0"},
        capture_output=True,
        text=True,
    )
    assert (found.stdout, found.returncode) == ("{'learning_rate': 0.1}\n", 0), found.stderr


def test_without_truth_the_objective_judges(feds):
    unknown = fgmp.Federation.of(feds[0].clients, feds[0].weights)
    tuning = fgmp.tune(make, GRID, unknown, rounds=5)
    assert tuning.column == "objective"
    assert tuning.best.score == tuning.best.histories[0]["objective"][-1]


def test_a_grid_in_which_all_diverge_has_no_best(feds):
    tuning = fgmp.tune(make, {"learning_rate": [50.0, 1e3]}, feds, rounds=30)
    assert tuning.best is None
    assert all(trial.diverged for trial in tuning.trials)


def test_a_step_so_long_that_nobody_answers_is_divergence(feds):
    tuning = fgmp.tune(make, {"learning_rate": [0.05, 1e200]}, feds, rounds=5)
    assert [trial.diverged for trial in tuning.trials] == [False, True]
    assert tuning.best.parameters == {"learning_rate": 0.05}


def test_callbacks_reach_the_runs(feds):
    tuning = fgmp.tune(make, {"learning_rate": [0.05]}, feds[0], rounds=50, watch=fgmp.stop_at(0.9))
    assert tuning.best.histories[0]["round"][-1] < 50


def test_values_of_a_grid_keep_their_types(feds):
    seen = []

    def remember(**parameters):
        seen.append(parameters)
        return make(0.05)

    fgmp.tune(remember, {"how": ["omp", 3, (1, 2)], "rate": np.array([0.5])}, feds[0], rounds=1)
    assert [parameters["how"] for parameters in seen] == ["omp", 3, (1, 2)]
    assert [type(parameters["rate"]) for parameters in seen] == [float] * 3
    with pytest.raises(ValueError, match=r"grid\['how'\] is 'omp'; expected a sequence"):
        fgmp.tune(remember, {"how": "omp"}, feds[0], rounds=1)


@pytest.mark.parametrize("seed", [None, np.random.default_rng(0)], ids=["none", "generator"])
def test_all_candidates_have_the_same_seed(feds, seed):
    tuning = fgmp.tune(lambda twin: make(0.05), {"twin": [1, 2]}, feds[0], 5, cohort_size=2, rng=seed)
    first, second = (trial.histories[0]["relative_error"] for trial in tuning.trials)
    np.testing.assert_array_equal(first, second)


def test_a_column_that_does_not_exist_is_named(feds):
    with pytest.raises(ValueError, match="column is 'eror'; expected one of 'round', 'relative_error'"):
        fgmp.tune(make, {"learning_rate": [0.05]}, feds[0], 3, column="eror")


def test_a_column_that_starts_at_zero_is_no_divergence(feds):
    metrics = {"size": lambda x: float(np.linalg.norm(x))}
    tuning = fgmp.tune(
        make, {"learning_rate": [0.01, 0.05]}, feds[0], 3, column="size", history=fgmp.History(metrics=metrics)
    )
    assert not any(trial.diverged for trial in tuning.trials) and tuning.best.score > 0


def test_clients_held_out_judge_and_take_no_part(feds):
    fed = feds[0]
    tuning = fgmp.tune(make, {"learning_rate": [0.01, 0.05]}, fed, 4, held_out=[3, 1])
    assert tuning.column == "held_out" and tuning.held_out == ((1, 3),)
    train = fed.part([0, 2])
    for trial in tuning.trials:
        result = fgmp.simulate(make(**trial.parameters), train, 4, rng=0)
        np.testing.assert_array_equal(trial.histories[0]["objective"], result.history["objective"])
        parts = [np.mean((c.features @ result.x - c.targets) ** 2) / 2 for c in (fed.clients[1], fed.clients[3])]
        assert trial.score == pytest.approx(np.average(parts, weights=fed.weights[[1, 3]]), rel=1e-12)
    assert fgmp.tune(make, {"learning_rate": [0.05]}, fed, 2, held_out=(0,), column="objective").held_out == ((0,),)


def test_sites_held_out_are_named():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.standard_normal((30, 3)), columns=["a", "b", "y"]).assign(town=["Ulm", "Bonn"] * 15)
    fed = fgmp.Federation.from_frame(frame, site="town", target="y")
    tuning = fgmp.tune(lambda rate: fgmp.FedAvg(learning_rate=rate), {"rate": [0.1]}, fed, 1, held_out=["Ulm"])
    assert fed.site_names == ("Bonn", "Ulm") and tuning.held_out == ((1,),)
    with pytest.raises(ValueError, match="held_out is 'Kiel'"):
        fgmp.tune(lambda rate: fgmp.FedAvg(learning_rate=rate), {"rate": [0.1]}, fed, 1, held_out=["Kiel"])


@pytest.mark.parametrize(("held_out", "count"), [(1, 1), (3, 3), (0.5, 2), (0.01, 1), (0.99, 3), (np.int64(2), 2)])
def test_so_many_clients_or_a_share_are_drawn_with_the_seed(feds, held_out, count):
    grid = {"learning_rate": [0.05]}
    first, again = (fgmp.tune(make, grid, feds, 1, held_out=held_out, rng=3).held_out for _ in range(2))
    assert first == again and [len(keys) for keys in first] == [count] * 3
    drawn = {fgmp.tune(make, grid, feds[0], 0, held_out=held_out, rng=seed).held_out for seed in range(12)}
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("held_out", "message"),
    [
        (0, "held_out is 0; expected an integer from 1 to 3 .all clients but one."),
        (1.0, "held_out is 1.0; expected a share above 0 and below 1, or an integer"),
        (True, "held_out is True; expected a number of clients, a share of them, or their keys"),
        ([1, 7], "held_out names 7; expected keys of the clients, such as 0"),
        ([], "held_out holds out 0 of 4 clients; expected some of positive weight on either side"),
    ],
)
def test_bad_held_out_clients_are_named(feds, held_out, message):
    with pytest.raises(ValueError, match=message):
        fgmp.tune(make, GRID, feds, 2, held_out=held_out)
    with pytest.raises(ValueError, match="metrics has 'held_out'"):
        fgmp.tune(make, GRID, feds, 2, held_out=1, history=fgmp.History(metrics={"held_out": np.sum}))


def test_the_repr_is_short(feds):
    tuning = fgmp.tune(make, GRID, feds, rounds=5)
    rate, k = tuning.best.parameters["learning_rate"], tuning.best.parameters["local_iterations"]
    best = f"learning_rate={rate}, local_iterations={k}"
    text = f"Tuning(best {best} with relative_error {tuning.best.score:.6g}; 6 candidates, 2 diverged)"
    assert repr(tuning) == text
    assert repr(tuning.best) == f"Trial({best}: score {tuning.best.score:.6g})"
    hopeless = fgmp.tune(make, {"learning_rate": [1e3]}, feds, rounds=30)
    assert repr(hopeless) == "Tuning(no candidate is left; 1 candidates, 1 diverged)"
    assert repr(hopeless.trials[0]) == "Trial(learning_rate=1000.0: diverged)"
