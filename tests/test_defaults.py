"""Defaults are safe: local solvers of losses, and a best model not worse than zero."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.solvers import minimise_on, solver_for
from fgmp.sparse_model import SparseModel

pytestmark = pytest.mark.usefixtures("backend")

LOSSES = ("squared", "logistic", "softmax")
KINDS = ("noisy", "separable", "one class a client", "all alike", "constant column")


@st.composite
def federations(draw, losses=LOSSES):
    """Draw few and unequal rows, odd units, clients with one label, and separable rows."""
    loss = draw(st.sampled_from(losses))
    kind = draw(st.sampled_from(KINDS))
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    n_features = draw(st.integers(2, 8))
    scale = 10.0 ** draw(st.integers(-3, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    As = []
    ys = []
    for index, size in enumerate(sizes):
        A = rng.standard_normal((size, n_features))
        if kind == "constant column":
            A[:, 0] = 1
        signal = A[:, :3] @ np.eye(min(3, n_features), 3) + (
            0 if kind == "separable" else rng.standard_normal((size, 3))
        )
        if kind in ("one class a client", "all alike"):
            signal = np.tile(
                np.eye(3)[index % 3 if kind == "one class a client" else 0] - 0.5, (size, 1)
            )
        As.append(scale * A)
        y = {
            "squared": signal[:, 0],
            "logistic": np.where(signal[:, 0] > 0, 1, -1),
            "softmax": signal.argmax(axis=1),
        }
        ys.append(y[loss])
    return fgmp.Federation.from_arrays(As, ys, fgmp.SoftmaxLoss(3) if loss == "softmax" else loss)


@limits(max_examples=200)
@given(federations(), st.data())
def test_default_run_never_ends_above_the_zero_model(fed, data):
    """Its best model is not above the zero model, and a last model that is causes a warning."""
    tau = data.draw(st.integers(1, fed.n_features))
    batch_size = data.draw(st.sampled_from([None, 1, 3]))
    batch_size = batch_size and min(batch_size, max(client.n_samples for client in fed.clients))
    method = fgmp.FedGradMP(
        tau, local_iterations=data.draw(st.integers(1, 4)), batch_size=batch_size
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fgmp.simulate(method, fed, data.draw(st.integers(0, 6)), rng=0)
    squares = sum(
        p * np.mean(c.targets**2) / 2 for p, c in zip(fed.weights, fed.clients, strict=True)
    )
    zero = {fgmp.SquaredLoss: squares, fgmp.SoftmaxLoss: np.log(3)}.get(type(fed.loss), np.log(2))
    assert fed.objective(result.best.x) <= zero * (1 + 2e-9)
    rounding = 1e-24 * zero  # of predictions, squared
    assert result.best.value == pytest.approx(fed.objective(result.best.x), rel=1e-9, abs=rounding)
    warned = [w for w in caught if "result.best keeps that model" in str(w.message)]
    assert len(warned) <= 1
    if fed.objective(result.x) > zero * (1 + 1e-5):
        assert warned
        assert "result.best" in str(warned[0].message)


@limits(max_examples=100)
@given(federations(("logistic", "softmax")), st.integers(0, 2**32 - 1))
def test_damped_step_does_not_raise_the_objective(fed, seed):
    """From any start, on any atoms, however saturated the loss is."""
    rng = np.random.default_rng(seed)
    client = fed.clients[0]
    size = int(np.prod(client.model_shape))
    merged = np.sort(rng.choice(size, rng.integers(1, size + 1), replace=False))
    start = SparseModel(
        merged, 10.0 ** rng.integers(-3, 4) * rng.standard_normal(len(merged)), client.model_shape
    )
    end = minimise_on(merged, client, StandardBasis(), solver_for(fed.loss), start, rng)
    before = client.objective(start)
    after = client.objective(end)
    assert after <= before * (1 + 1e-12)
