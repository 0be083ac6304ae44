"""Federations: what they are made of, and what rounds allocate.

Objectives and predictions are compared in the combinatorial tests, gradients in test_baselines and
test_losses, the pooled client in test_shared_support and test_sparse_features.
"""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.linalg import LinearOperator

import fgmp
from fgmp.aggregation import Mean
from fgmp.data import Federation
from fgmp.method import Streams
from fgmp.recording import Progress, Run
from fgmp.simulation import LocalClients, run_round

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.float64, None])
def test_streamed_features_give_the_run_of_stored_ones(dtype):
    """Of any real type, in a dictionary; the standard basis needs stored rows."""
    A = np.random.default_rng(0).integers(-3, 4, (20, 6))
    atoms = fgmp.Dictionary(np.eye(6) + 0.1)
    rows = LinearOperator(A.shape, A.dot, matmat=A.dot, rmatmat=A.T.dot, dtype=dtype)
    rows.dtype = dtype and np.dtype(dtype)
    y = A @ [0.5, 0, 0, -2, 0, 0]
    streamed, stored = (
        fgmp.simulate(
            fgmp.FedGradMP(2, dictionary=atoms), Federation.from_arrays([each], [y]), 3, rng=0
        )
        for each in (rows, A)
    )
    assert streamed.x.dtype == np.float64
    np.testing.assert_allclose(streamed.x, stored.x, atol=1e-12)
    with pytest.raises(ValueError, match="streamed, not stored"):
        fgmp.simulate(fgmp.FedGradMP(2), Federation.from_arrays([rows], [y]), 1)


@pytest.mark.parametrize(
    "loss", ["squared", "logistic", "softmax", fgmp.SquaredLoss(averaged=False)]
)
@pytest.mark.parametrize("shape", [(7, 5, 4), (3, 50, 200), (2, 1, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
def test_one_array_of_rows_makes_the_clients_of_a_list(loss, shape, dtype):
    """In any layout, and as lists; what was given is left as it was."""
    rng = np.random.default_rng(0)
    X = (9 * rng.standard_normal(shape)).astype(dtype)
    kinds = np.arange(shape[0] * shape[1]).reshape(shape[:2])
    y = {"logistic": kinds % 2, "softmax": kinds % 3}.get(loss, rng.standard_normal(shape[:2]))
    expected = Federation.from_arrays(list(X), list(y), loss)
    before = X.copy()
    turned = np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 0, -1)), -1, 0)
    for given in (
        X,
        turned,
        [np.asfortranarray(A) for A in X],
        X.tolist() if dtype == np.float64 else X,
    ):
        for targets in (y, y.tolist()):
            found = Federation.from_arrays(given, targets, loss)
            np.testing.assert_array_equal(found.weights, expected.weights)
            assert (found.labels, found.loss, found.dtype) == (
                expected.labels,
                expected.loss,
                expected.dtype,
            )
            for one, other in zip(found.clients, expected.clients, strict=True):
                assert one.client_id == other.client_id
                assert one.targets.dtype == other.targets.dtype
                np.testing.assert_array_equal(one.features, other.features)
                np.testing.assert_array_equal(one.targets, other.targets)
    np.testing.assert_array_equal(X, before)


@pytest.mark.usefixtures("backend")
def test_one_array_of_rows_is_not_copied():
    """Neither the federation nor a run with cohorts copies the rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 20, 200))
    ys = rng.standard_normal((1000, 20))
    # Compiled kernels are loaded once, before memory is traced.
    fgmp.simulate(fgmp.FedGradMP(3), Federation.from_arrays(X[:2], ys[:2]), 1, rng=0)
    tracemalloc.start()
    federation = Federation.from_arrays(X, ys)
    fgmp.simulate(
        fgmp.FedGradMP(3), federation, 2, 10, rng=0, history=fgmp.History(objective_on=10)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * X.nbytes
    assert all(np.shares_memory(client.features, X) for client in federation.clients)


@pytest.mark.usefixtures("backend")
def test_round_allocates_nothing_for_other_clients():
    """A cohort of ten among 40,000 clients needs less than a byte for each of them."""
    n_clients = 40_000
    federation = Federation.from_arrays(np.ones((n_clients, 1, 2)), np.ones((n_clients, 1)))
    method = fgmp.FedGradMP(1)
    transport = LocalClients(federation).for_method(method)
    progress = Progress(0, method.start(transport.info))
    run = Run(method, transport, Streams(0), Mean(), 10, 3, fgmp.History(), progress)
    for _ in range(3):  # the first time more is made, once
        tracemalloc.start()
        run.progress = run_round(run)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < n_clients


def test_subset_keeps_names_labels_and_ids():
    """However the indices are given."""
    table = pd.DataFrame(
        {"a": range(12), "b": [1.0, 0, 2] * 4, "sick": ["no", "yes"] * 6, "at": list("xyzw") * 3}
    )
    federation = Federation.from_frame(table, site="at", target="sick", loss="logistic")
    for indices in (
        [3, 1],
        slice(1, None, 2),
        np.array([False, True, False, True]),
        range(1, 4, 2),
        [-1, 1],
    ):
        subset = federation.subset(indices)
        assert subset.client_names == (federation.client_names[1], federation.client_names[3])
        assert subset.feature_names == federation.feature_names == ("a", "b")
        assert subset.labels == federation.labels == ("no", "yes")
        assert subset.client_ids.tolist() == [
            1,
            3,
        ]
        np.testing.assert_array_equal(subset.clients[1].features, federation.clients[3].features)
    assert federation.subset(2).client_names == (federation.client_names[2],)


@pytest.mark.parametrize(
    "indices", [[], slice(0, 0), [False] * 4, [4], [-5], [0, 0], [1, -3], [True], 1.5, "x", [[1]]]
)
def test_subset_of_invalid_indices_is_refused(indices):
    """A subset has at least one client, and each at most once."""
    federation = Federation.from_arrays(np.ones((4, 2, 3)), np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"^indices is .*; expected"):
        federation.subset(indices)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", ["squared", fgmp.SquaredLoss(averaged=False)])
@pytest.mark.parametrize("as_given", [np.asarray, list])
def test_targets_beyond_the_precision_of_the_features_are_refused(loss, as_given):
    """Targets beyond float32 need features in float64."""
    As = np.ones((2, 3, 2), np.float32)
    ys = np.array([[1.0, 2, 3], [1, -4e38, 2]])
    words = r"^ys\[1\] holds numbers beyond float32, .*; expected As in float64"
    with pytest.raises(ValueError, match=words):
        Federation.from_arrays(as_given(As), ys, loss)
    assert Federation.from_arrays(As.astype(float), ys, loss).targets[4] == -4e38


def test_largest_targets_of_float32_are_kept():
    """Targets that float32 holds get the precision of the features."""
    As = np.ones((2, 3, 2), np.float32)
    assert Federation.from_arrays(As, np.full((2, 3), 3.4e38)).targets.dtype == np.float32


def test_targets_of_a_table_beyond_the_precision_of_its_features_are_refused():
    """The check is that of arrays."""
    table = pd.DataFrame({"at": [0, 0, 1], "a": np.ones(3, np.float32), "y": [1, 2, 1e300]})
    with pytest.raises(ValueError, match=r"^ys\[1\] holds"):
        Federation.from_frame(table, site="at", target="y")
