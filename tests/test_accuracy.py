"""The accuracy delta of Algorithm 2: a solver that stops is as near to the minimiser as it says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.solvers import minimise_on
from fgmp.sparse_model import SparseModel


def client_of(A, y, loss):
    """Return the only client of a federation."""
    return fgmp.Federation.from_arrays([A], [y], loss).clients[0]


def distance_to_minimiser(client, solver):
    """Return how far a solver, started at zero, ends from the minimiser that SciPy finds."""
    shape = client.model_shape
    n_coefficients = int(np.prod(shape))
    everything = np.arange(n_coefficients)
    start = SparseModel.zero(shape)
    rng = np.random.default_rng(0)
    found = minimise_on(everything, client, StandardBasis(), solver, start, rng).dense()

    expected = minimize(
        lambda x: client.objective(x.reshape(shape)),
        np.zeros(n_coefficients),
        jac=lambda x: client.gradient(x.reshape(shape)).reshape(-1),
        method="BFGS",
        options={"gtol": 1e-11},
    ).x.reshape(shape)
    if len(shape) == 2:
        # A number added to all outputs of a feature changes nothing: all minimisers are compared.
        found = found - found.mean(axis=1, keepdims=True)
        expected = expected - expected.mean(axis=1, keepdims=True)
    return np.linalg.norm(found - expected)


def test_accuracy_with_curvature_that_rises_towards_the_minimiser_is_kept():
    """The Hessian where the solver stops promises too much: curvature falls on the way."""
    client = client_of([[1.0], [0.01]], [1, -1], fgmp.LogisticLoss())
    solver = fgmp.GradientDescent(accuracy=0.48)

    assert distance_to_minimiser(client, solver) <= 0.48


@pytest.mark.parametrize("kind", [fgmp.GradientDescent, fgmp.Newton])
@given(seed=st.integers(0, 10_000), accuracy=st.floats(1e-3, 2.0), margin=st.floats(0.5, 2.0))
@settings(max_examples=40, deadline=None)
def test_accuracy_of_the_logistic_loss_is_kept(kind, seed, accuracy, margin):
    """Labels are noisy enough that no client separates its rows."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((25, 2)) * rng.uniform(0.2, 3)
    labels = np.where(rng.random(25) < 0.35, -1, 1) * np.sign(A[:, 0])
    client = client_of(A, labels, fgmp.LogisticLoss(margin))

    assert distance_to_minimiser(client, kind(accuracy=accuracy)) <= accuracy * (1 + 1e-6)


@given(seed=st.integers(0, 10_000), accuracy=st.floats(1e-2, 2.0))
@settings(max_examples=25, deadline=None)
def test_accuracy_of_the_softmax_loss_is_kept(seed, accuracy):
    """Labels are drawn at random, so no client separates its rows."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((40, 2))
    client = client_of(A, rng.integers(0, 3, 40), fgmp.SoftmaxLoss(3))

    assert distance_to_minimiser(client, fgmp.Newton(accuracy=accuracy)) <= accuracy * (1 + 1e-6)
