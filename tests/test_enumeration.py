"""The sparse minimiser against every support of the objective itself, whatever the weights and the unit of the loss."""

from itertools import combinations

import numpy as np
import pytest

import fgmp
from fgmp import theory
from fgmp.datasets import make_sensing


def uneven(rng, loss="squared", weights=None):
    """Clients of 3 and 8 rows that disagree."""
    As = [rng.standard_normal((m, 6)) for m in (3, 8)]
    ys = [A @ rng.standard_normal(6) for A in As]
    return fgmp.Federation.from_arrays(As, ys, loss=loss, weights=weights)


def slope(federation, x):
    return sum(p * client.gradient(x) for p, client in zip(federation.weights, federation.clients, strict=True))


def lowest(federation, support):
    """The minimiser on a support, from gradients alone: f is quadratic, so its gradients at n + 1 points give all."""
    units = np.eye(federation.n_features)[support]
    zero = slope(federation, np.zeros(federation.n_features))
    hessian = np.array([slope(federation, unit)[support] - zero[support] for unit in units])
    x = np.zeros(federation.n_features)
    x[support] = np.linalg.solve(hessian, -zero[support])
    return x


@pytest.mark.parametrize("loss", ["squared", fgmp.SquaredLoss(averaged=False)], ids=["mean", "sum"])
@pytest.mark.parametrize("weights", [None, (0.9, 0.1), (0.05, 0.95)])
@pytest.mark.parametrize("sparsity", [1, 2, 3])
def test_no_other_support_is_better(loss, weights, sparsity):
    for seed in range(5):
        federation = uneven(np.random.default_rng(seed), loss, weights)
        found = theory.sparse_minimiser(federation, sparsity)
        rivals = [lowest(federation, list(S)) for S in combinations(range(6), sparsity)]
        best = min(rivals, key=federation.objective)
        np.testing.assert_allclose(found, best, atol=1e-9)


def test_all_features_is_least_squares():
    federation = fgmp.make_sparse_regression(3, 10, 5, 2, noise_variance=1.0, rng=0)
    A, y = np.vstack([c.features for c in federation.clients]), np.concatenate([c.targets for c in federation.clients])
    np.testing.assert_allclose(theory.sparse_minimiser(federation, 5), np.linalg.lstsq(A, y, rcond=None)[0], atol=1e-12)


def test_of_equal_columns_the_first_is_taken():
    column = np.arange(1.0, 5.0)
    federation = fgmp.Federation.from_arrays([np.column_stack([column, column, -column])], [2 * column])
    np.testing.assert_allclose(theory.sparse_minimiser(federation, 1), [2, 0, 0], atol=1e-12)


def test_bad_input():
    federation = uneven(np.random.default_rng(0))
    with pytest.raises(ValueError, match="sparsity is 7; expected an integer from 1 to 6"):
        theory.sparse_minimiser(federation, 7)
    wide = fgmp.Federation.from_arrays([np.ones((2, 110))], [np.ones(2)])
    with pytest.raises(ValueError, match="sparsity is 3, which has 215820 supports; expected at most 200000"):
        theory.sparse_minimiser(wide, 3)
    labels = fgmp.Federation.from_arrays([np.eye(2)], [[-1.0, 1.0]], loss="logistic")
    with pytest.raises(ValueError, match="expected SquaredLoss"):
        theory.sparse_minimiser(labels, 1)
    streamed = make_sensing(np.ones(4), n_clients=2, n_samples=3, rng=0)
    with pytest.raises(ValueError, match="client 0 has streamed features"):
        theory.sparse_minimiser(streamed, 1)
