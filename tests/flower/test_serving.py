"""The two apps as Flower has them: a server's main function, a client's replies, and what is said without Flower."""

import sys

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from here import Here, loader

import fgmp
from fgmp.flower import client_app, on_engine, server_app, simulate_on_engine

FED = fgmp.make_sparse_regression(4, 40, 30, 3, rng=0)
METHOD = fgmp.FedGradMP(3, batch_size=10)


def test_the_apps_run_a_method_and_hand_over_the_result(tmp_path):
    results = []
    client = client_app(loader(FED), tmp_path)
    server = server_app(
        METHOD,
        FED.loss,
        3,
        4,
        finished=lambda result, context: results.append((result, context.run_id)),
        over={"deadline": 5.0},
        cohort_size=2,
        rng=7,
    )
    server(Here([client] * 4), Context(5, 0, {}, RecordDict(), {}))
    ((result, run),) = results
    np.testing.assert_array_equal(result.x, fgmp.simulate(METHOD, FED, 3, 2, rng=7).x)
    assert run == 5


def test_without_flower_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    calls = [
        lambda: client_app(loader(FED)),
        lambda: server_app(METHOD, FED.loss, 3, 4, finished=print),
        lambda: on_engine(print, None, 2),
        lambda: simulate_on_engine(METHOD, FED, 3),
    ]
    for call in calls:
        with pytest.raises(ImportError, match=r'pip install "fgmp\[flower\]"'):
            call()


def test_rows_that_are_sparse_are_refused_on_the_engine():
    from scipy import sparse

    rows = [sparse.csr_array(client.features) for client in FED.clients]
    federation = fgmp.Federation.from_arrays(rows, [client.targets for client in FED.clients])
    with pytest.raises(ValueError, match="features that are not dense arrays"):
        simulate_on_engine(METHOD, federation, 3)
