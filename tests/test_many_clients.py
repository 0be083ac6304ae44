"""Federations of many small clients: no copy of their data, and a round that visits its cohort alone."""

import tracemalloc

import numpy as np
import pytest

import fgmp
from fgmp.federation import Client, Federation

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


def blocks(n_clients, m=20, n=200):
    """One table, and the rows of each client as views of it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_clients * m, n))
    return X, [X[i : i + m] for i in range(0, len(X), m)], list(rng.standard_normal((n_clients, m)))


def test_the_rows_of_small_clients_are_not_copied():
    X, As, ys = blocks(1000)
    tracemalloc.start()
    federation = Federation.from_arrays(As, ys)
    fgmp.simulate(fgmp.FedGradMP(3), federation, 2, 10, rng=0, objective_on=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * X.nbytes
    assert all(np.shares_memory(client.features, X) for client in federation.clients)


@pytest.mark.parametrize("loss, order", [("squared", "F"), ("softmax", "C")])
def test_large_clients_have_the_layout_of_their_products(loss, order):
    rng = np.random.default_rng(0)
    for convert in (np.asfortranarray, np.ascontiguousarray):
        features = [convert(rng.standard_normal((50, 200))) for _ in range(2)]
        clients = Federation.from_arrays(features, [np.arange(50) % 3] * 2, loss).clients
        assert all(client.features.flags[f"{order}_CONTIGUOUS"] for client in clients)


@pytest.mark.parametrize("method", [fgmp.FedGradMP(3), fgmp.SharedSupportGradMP(3), fgmp.FedAvg(learning_rate=0.1)])
def test_a_round_visits_its_cohort_and_the_books_those_that_are_named(method, monkeypatch):
    _, As, ys = blocks(60, 6, 10)
    federation, visited = Federation.from_arrays(As, ys), set()
    columns, predictions = Client.columns, Client.predictions
    monkeypatch.setattr(Client, "columns", lambda self, s: visited.add(self.key) or columns(self, s))
    monkeypatch.setattr(Client, "predictions", lambda self, x: visited.add(self.key) or predictions(self, x))
    fgmp.simulate(method, federation, 1, 4, rng=0, objective_on=[5, 50])
    drawn = set(visited) - {5, 50}
    assert 2 <= len(drawn) <= 4


def test_polishing_goes_on_with_the_clients_of_the_objective():
    federation = fgmp.make_sparse_regression(12, 30, 40, 3, heterogeneity=0.5, noise_variance=0.01, rng=0)
    result = fgmp.simulate(fgmp.FedGradMP(3), federation, 2, 4, rng=0, objective_on=[2, 7])
    polished = fgmp.polish(result, federation)
    some = Federation(tuple(federation.clients[i] for i in (2, 7)), np.ones(2))
    np.testing.assert_allclose(polished.history["objective"][-1], some.objective(polished.x))
    np.testing.assert_array_equal(polished.objective_on, [2, 7])
