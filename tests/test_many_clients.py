"""Federations of many small clients: no copy of their data, and a round that visits its cohort alone."""

import tracemalloc

import numpy as np
import pytest

import fgmp
from fgmp.federation import Client, Federation
from fgmp.rounds import Mean, Step, Streams, iterate
from fgmp.shapes import Shape

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


def blocks(n_clients, m=20, n=200):
    """The rows of each client as one array, and their targets."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n_clients, m, n)), rng.standard_normal((n_clients, m))


@pytest.mark.parametrize("method", [fgmp.FedGradMP(3), fgmp.SharedSupportGradMP(3), fgmp.FedAvg(learning_rate=0.1)])
def test_a_round_visits_its_cohort_and_the_books_those_that_are_named(method, monkeypatch):
    monkeypatch.setenv("FGMP_READABLE", "1")  # a compiled twin reads the table
    federation, visited = Federation.from_arrays(*blocks(60, 6, 10)), set()
    gradient, predictions = Client.gradient, Client.predictions
    monkeypatch.setattr(Client, "gradient", lambda self, *given: visited.add(self.key) or gradient(self, *given))
    monkeypatch.setattr(Client, "predictions", lambda self, x: visited.add(self.key) or predictions(self, x))
    fgmp.simulate(method, federation, 1, 4, rng=0, history=fgmp.History(objective_on=[5, 50]))
    drawn = set(visited) - {5, 50}
    assert 2 <= len(drawn) <= 4


def test_polishing_goes_on_with_the_clients_of_the_objective():
    federation = fgmp.make_sparse_regression(12, 30, 40, 3, heterogeneity=0.5, noise_variance=0.01, rng=0)
    result = fgmp.simulate(fgmp.FedGradMP(3), federation, 2, 4, rng=0, history=fgmp.History(objective_on=[2, 7]))
    polished = fgmp.polish(result, federation)
    some = np.mean([federation.clients[i].objective(polished.x) for i in (2, 7)])
    np.testing.assert_allclose(polished.history["objective"][-1], some)
    np.testing.assert_array_equal(polished.objective_on, [2, 7])


def alike(found, expected):
    """Whether two federations have the same clients, stored alike."""
    assert [client.key for client in found.clients] == [client.key for client in expected.clients]
    np.testing.assert_array_equal(found.weights, expected.weights)
    assert (found.labels, found.loss) == (expected.labels, expected.loss)
    for one, other in zip(found.clients, expected.clients, strict=True):
        for a, b in ((one.features, other.features), (one.targets, other.targets)):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", fgmp.SquaredLoss(averaged=False)])
@pytest.mark.parametrize("shape", [(7, 5, 4), (3, 50, 200), (2, 1, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
def test_one_array_of_all_rows_makes_the_clients_that_a_list_makes(loss, shape, dtype):
    rng = np.random.default_rng(0)
    X, kinds = (9 * rng.standard_normal(shape)).astype(dtype), np.arange(shape[0] * shape[1]).reshape(shape[:2])
    y = {"logistic": kinds % 2, "softmax": kinds % 3}.get(loss, rng.standard_normal(shape[:2]))
    expected = Federation.from_arrays(list(X), list(y), loss)
    for block in (X, np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 0, -1)), -1, 0)):
        alike(Federation.from_arrays(block, y, loss), expected)
        alike(Federation.from_arrays(block, y.tolist(), loss), expected)


def test_one_array_of_all_rows_is_not_copied():
    X, ys = blocks(1000)
    fgmp.simulate(fgmp.FedGradMP(3), Federation.from_arrays(X[:2], ys[:2]), 1, rng=0)  # compiled loops are loaded once
    tracemalloc.start()
    federation = Federation.from_arrays(X, ys)
    fgmp.simulate(fgmp.FedGradMP(3), federation, 2, 10, rng=0, history=fgmp.History(objective_on=10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * X.nbytes
    assert all(np.shares_memory(client.features, X) for client in federation.clients)


def spoiled(array, place, value):
    changed = np.array(array, dtype=float)
    changed[place] = value
    return changed


X, Y = np.ones((4, 3, 2)), np.ones((4, 3))
WRONG = {
    "no number": (spoiled(X, (2, 1, 0), np.nan), Y, "squared"),
    "infinite": (X, spoiled(Y, (3, 0), np.inf), "squared"),
    "no label": (X, spoiled(Y, (2, 2), 0.5), "softmax"),
    "three labels": (X, np.arange(12.0).reshape(4, 3) % 3, "logistic"),
    "targets short": (X, Y[:, :2], "squared"),
    "clients short": (X, Y[:3], "squared"),
    "targets deep": (X, Y[:, :, None], "squared"),
    "masked": (np.ma.array(X, mask=X > 0), Y, "squared"),
    "no rows": (X[:, :0], Y[:, :0], "squared"),
    "no clients": (X[:0], Y[:0], "squared"),
    "complex": (X + 1j, Y, "squared"),
    "no loss": (X, Y, "cubed"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_client_is_said_as_of_a_list(name):
    As, ys, loss = WRONG[name]
    with pytest.raises(ValueError, match=".") as expected:
        Federation.from_arrays(list(As), list(ys), loss)
    with pytest.raises(ValueError, match=".") as found:
        Federation.from_arrays(As, ys, loss)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("rows", [[2, True], [2, 2.0], [2, 0], [2, "3"]])
def test_rows_are_whole_and_positive(rows):
    with pytest.raises(ValueError, match="rows is .*; expected an integer of at least 1"):
        Shape(3, fgmp.SquaredLoss(), rows)
    assert Shape(3, fgmp.SquaredLoss(), np.array([2, 1])).rows == (2, 1)
    with pytest.raises(ValueError, match="keys is -1; expected an integer of at least 0"):
        Shape(3, fgmp.SquaredLoss(), [1, 1], [-1, 2])


def test_a_round_allocates_nothing_for_those_who_take_no_part():
    n_clients = 40_000
    federation, method = Federation.from_arrays(np.ones((n_clients, 1, 2)), np.ones((n_clients, 1))), fgmp.FedGradMP(1)
    channel = federation.serving(method)
    rounds = iterate(method, channel, Step(0, method.start(channel.shape)), Streams(0), 10, Mean())
    for _ in range(3):  # the first time more is made, once
        tracemalloc.start()
        next(rounds)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < n_clients
