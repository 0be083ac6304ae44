"""Methods over Flower's messages, without an engine: the bits of `simulate`, and what is told, kept and counted."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from here import assert_same_run, grid_of, over

import fgmp
from fgmp.flower import OverFlower, client_app
from fgmp.flower.wire import array_record, message_of, wire_bytes

SQUARED = fgmp.make_sparse_regression(6, 50, 80, 4, rng=0)
RNG = np.random.default_rng(0)
ROWS = [RNG.standard_normal((n, 12)) for n in (30, 45, 60)]
LOGISTIC = fgmp.Federation.from_arrays(ROWS, [np.sign(A[:, 0] + 0.1) for A in ROWS], "logistic")
SOFTMAX = fgmp.Federation.from_arrays(ROWS, [A[:, :3].argmax(axis=1) for A in ROWS], "softmax")
SINGLE = fgmp.Federation.from_arrays([A.astype(np.float32) for A in ROWS], [A[:, 0].astype(np.float32) for A in ROWS])
FIRST_ORDER = {"learning_rate": 0.05, "local_iterations": 2, "batch_size": 10}
METHODS = {
    "FedGradMP": lambda loss: fgmp.FedGradMP(3, batch_size=10),
    "SharedSupportGradMP": lambda loss: fgmp.SharedSupportGradMP(
        3, solver=fgmp.NormalEquations() if loss == "squared" else fgmp.PooledNewton(2, 1e-2)
    ),
    "FedIterHT": lambda loss: fgmp.FedIterHT(sparsity=3, **FIRST_ORDER),
    "FedDualAvg": lambda loss: fgmp.FedDualAvg(l1_weight=0.01, **FIRST_ORDER),
}
PROBLEMS = {"squared": SQUARED, "logistic": LOGISTIC, "softmax": SOFTMAX, "single": SINGLE}
CASES = [(m, p, size) for m in METHODS for p in PROBLEMS for size in (None, 2)]
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


@pytest.mark.parametrize(("name", "problem", "cohort_size"), CASES)
def test_the_same_bits_as_simulate(name, problem, cohort_size):
    federation, method = PROBLEMS[problem], METHODS[name]("squared" if problem == "single" else problem)
    there = fgmp.federate(method, over(federation), 3, cohort_size, rng=5)
    assert_same_run(there, fgmp.simulate(method, federation, 3, cohort_size, rng=5, faults=[]))


@pytest.mark.parametrize("keep", [False, True])
def test_a_process_for_each_message_ends_in_the_same_bits(tmp_path, keep):
    """What a client made of its rows is in its folder, where there is one; the method is in the state of the run."""
    dictionary = fgmp.Dictionary(np.random.default_rng(1).standard_normal((80, 30)))
    method = fgmp.FedGradMP(3, batch_size=10, dictionary=dictionary)
    transport = over(SQUARED, fresh=True, keep=tmp_path / "kept" if keep else None)
    there = fgmp.federate(method, transport, 2, rng=5)
    assert_same_run(there, fgmp.simulate(method, SQUARED, 2, rng=5, faults=[]))
    told = [place for place, asked in transport.grid.asked if "method" in asked]
    assert sorted(told) == list(range(6))  # once each
    kept = sorted((tmp_path / "kept").glob("*")) if keep else []
    assert len(kept) == (6 if keep else 0)
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


def test_a_kept_file_is_what_a_client_answers_from(tmp_path):
    """Or else the test above would not notice that nothing reads it."""
    transport = over(SQUARED, fresh=True, keep=tmp_path)
    method = fgmp.FedGradMP(3)
    before = fgmp.federate(method, transport, 1, rng=5)
    for path in tmp_path.glob("*.npz"):
        with np.load(path) as file:
            changed = {"features": file["features"], "targets": file["targets"] + 1}
        np.savez(path, **changed)
    again = fgmp.federate(method, transport, 1, rng=5)
    assert not np.array_equal(before.x, again.x)


def test_a_node_that_was_started_again_is_told_again():
    transport = over(SQUARED)
    transport.grid.restarted.add(3)
    method = METHODS["FedGradMP"]("squared")
    first = fgmp.federate(method, transport, 1, rng=5)
    transport.grid.restarted |= {0, 3}
    fgmp.federate(method, transport, 0, rng=5)
    told = [place for place, asked in transport.grid.asked if "method" in asked]
    assert told.count(1) == 2 and told.count(3) >= 2
    assert first.history["clients"].tolist() == [0, 6]


def test_in_the_middle_of_a_run_too():
    transport = over(SQUARED)
    grid = transport.grid

    def restart(history):
        grid.restarted.add(2)
        return False

    there = fgmp.federate(METHODS["FedGradMP"]("squared"), transport, 3, rng=5, callback=restart)
    assert_same_run(there, fgmp.simulate(METHODS["FedGradMP"]("squared"), SQUARED, 3, rng=5, faults=[]))


def test_the_bytes_are_those_of_the_history_and_few():
    """tau = 10 of n = 1000: at least 20 times fewer bytes a model than dense FedAvg, with all names and frames."""
    federation = fgmp.make_sparse_regression(4, 60, 1000, 10, rng=0)
    sparse, dense = over(federation), over(federation)
    result = fgmp.federate(fgmp.FedGradMP(10), sparse, 4, rng=0)
    assert (sparse.traffic.arrays_up, sparse.traffic.arrays_down) == (
        result.history["bytes_up"][-1],
        result.history["bytes_down"][-1],
    )
    assert sparse.traffic.arrays_up == 4 * 4 * 10 * (4 + 8)
    other = fgmp.federate(fgmp.FedAvg(learning_rate=0.01), dense, 4, rng=0)
    assert dense.traffic.arrays_up == other.history["bytes_up"][-1] == 4 * 4 * 8000
    assert dense.traffic.arrays_up >= 20 * sparse.traffic.arrays_up
    assert dense.traffic.sent_up >= 20 * sparse.traffic.sent_up


def test_a_message_comes_back_as_it_was():
    rng = np.random.default_rng(0)
    message = {
        "support": np.array([1, 5], np.int32),
        "values": rng.standard_normal(2),
        "rows": rng.standard_normal((3, 4)),
        "columns": np.asfortranarray(rng.standard_normal((3, 4), np.float32)),
        "empty": np.empty((0, 3)),
    }
    again = message_of(array_record(message))
    assert list(again) == list(message)
    for name, array in message.items():
        np.testing.assert_array_equal(again[name], array)
        assert again[name].dtype == array.dtype and again[name].flags.writeable
        assert again[name].flags.f_contiguous == array.flags.f_contiguous or 0 in array.shape
    assert wire_bytes(RecordDict({"message": array_record(message)})) > sum(a.nbytes for a in message.values())


def test_a_client_without_a_key_gets_one():
    grid = grid_of(SQUARED)
    for place, context in enumerate(grid.contexts):
        if place in (0, 4):
            context.node_config = {"number": place}

    def load(context, settings):
        client = SQUARED.clients[context.node_id - 100]
        return client.features, client.targets

    grid.apps = [client_app(load)] * 6
    transport = OverFlower(grid, SQUARED.loss, 6)
    assert transport.shape.keys == (1, 2, 3, 5, 6, 7)
    assert transport.nodes == [101, 102, 103, 105, 100, 104]


def test_settings_reach_the_client_that_loads():
    seen = []

    def load(context, settings):
        seen.append(settings)
        client = SQUARED.clients[context.node_config["partition-id"]]
        return client.features[:, settings["columns"]], client.targets

    grid = grid_of(SQUARED)
    grid.apps = [client_app(load)] * 6
    transport = OverFlower(grid, SQUARED.loss, 6, settings={"columns": [0, 3, 5]})
    assert transport.shape.n_features == 3
    assert seen[0] == {"columns": [0, 3, 5]}


def test_too_few_clients_is_an_error_that_says_so():
    with pytest.raises(TimeoutError, match="6 clients came in 0 seconds; expected 7"):
        OverFlower(grid_of(SQUARED), SQUARED.loss, 7, wait_for=0.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"deadline": 0}, "deadline is 0"),
        ({"weights": "mine"}, "weights is 'mine'; expected one of 'rows', 'equal'"),
        ({"most_rows": 0}, "most_rows is 0"),
        ({"wait_for": -1.0}, "wait_for is -1.0"),
        ({"settings": 3}, "settings is 3"),
    ],
)
def test_what_does_not_fit_is_named(given, words):
    with pytest.raises(ValueError, match=words):
        OverFlower(grid_of(SQUARED), SQUARED.loss, 6, **given)


def test_equal_weights():
    transport = OverFlower(grid_of(LOGISTIC), LOGISTIC.loss, 3, weights="equal")
    np.testing.assert_allclose(transport.shape.weights, 1 / 3)
    np.testing.assert_array_equal(over(LOGISTIC).shape.weights, LOGISTIC.weights)


def test_an_unknown_method_is_an_answer_that_is_missing():
    """A client with an older fgmp: it names what it does not know, and the run goes on without it."""
    transport = over(SQUARED)
    honest = transport.grid.apps[1]

    def older(message, context):
        asked = message.content.config_records["fgmp"]
        if "method" in asked:
            whole = json.loads(str(asked["method"]))
            whole["is"]["fields"]["momentum"] = 0.9
            message.content["fgmp"] = ConfigRecord({**asked, "method": json.dumps(whole)})
        return honest(message, context)

    transport.grid.apps[1] = older
    result = fgmp.federate(METHODS["FedGradMP"]("squared"), transport, 2, rng=0)
    assert result.history["left_out_missing"][-1] == 2
    assert result.history["clients"].tolist() == [0, 5, 5]


def test_importing_fgmp_imports_nothing_of_flower():
    code = "import sys, fgmp, fgmp.flower; sys.exit(any(name.split('.')[0] in ('flwr', 'ray') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False).returncode == 0


def test_an_array_record_of_flowers_own_is_malformed():
    """Its arrays are in NumPy's file format; what clients send are raw numbers."""
    assert message_of(ArrayRecord([np.ones(3)])).startswith("no message")
