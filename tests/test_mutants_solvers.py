"""The solvers where their mutants went unnoticed: against closed forms and numbers worked out here."""

import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import fgmp


def alone(features, targets, loss="squared"):
    return fgmp.Federation.from_arrays([features], [targets], loss)


def end_of(solver, features, targets, loss="squared", **options):
    """Where a solver ends from zero: FedGradMP with one client, one iteration and all atoms."""
    federation = alone(features, targets, loss)
    n_atoms = options["dictionary"].atoms.shape[1] if "dictionary" in options else federation.n_features
    method = fgmp.FedGradMP(n_atoms, local_iterations=1, solver=solver, **options)
    return fgmp.simulate(method, federation, 1, rng=0).coefficients


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_gradient_descent_goes_along_the_gradient_and_conjugate_gradients_do_not(steps):
    """Exact line search: the length of a step is g'g / g'Hg. Conjugate directions end after as many as features."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((20, 4)) * [1, 2, 3, 4], rng.standard_normal(20)
    H, c, z = A.T @ A / 20, A.T @ y / 20, np.zeros(4)
    for _ in range(steps):
        g = H @ z - c
        z = z - (g @ g) / (g @ H @ g) * g
    np.testing.assert_allclose(end_of(fgmp.GradientDescent(steps=steps), A, y), z, rtol=1e-10)
    krylov = np.stack([np.linalg.matrix_power(H, k) @ c for k in range(steps)], axis=1)
    best = krylov @ np.linalg.lstsq(A @ krylov, y, rcond=None)[0]
    np.testing.assert_allclose(end_of(fgmp.ConjugateGradient(steps=steps), A, y), best, rtol=1e-6)


@pytest.mark.parametrize("solver", [fgmp.GradientDescent(steps=1), fgmp.ConjugateGradient(steps=1), fgmp.Newton(1)])
def test_a_step_of_length_one_is_taken(solver):
    """One row (1): the curvature is 1, the gradient at zero -2, and the step ends at 2."""
    np.testing.assert_array_equal(end_of(solver, np.ones((1, 1)), np.array([2.0])), [2.0])


@pytest.mark.parametrize(
    "solver",
    [fgmp.GradientDescent(3), fgmp.ConjugateGradient(3), fgmp.Newton(3), fgmp.SVRG(1), fgmp.SGD(2), fgmp.Exact()],
    ids=lambda solver: type(solver).__name__,
)
@pytest.mark.parametrize("loss, size", [("squared", 1e-200), ("squared", 0.0), ("logistic", 0.0)])
def test_steps_that_cannot_be_measured_end_where_they_start(solver, loss, size):
    """The square of 1e-200 is 0 in float64, and features without numbers have no curvature: no step, no failure."""
    features = np.ones((2, 1)) if loss == "squared" else np.zeros((2, 1))
    targets = np.full(2, size) if loss == "squared" else np.array([1, -1])
    np.testing.assert_allclose(end_of(solver, features, targets, loss), [0.0], atol=2e-200)


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("a, m, batch_size", [(1.0, 1, 1), (1.0, 4, 1), (2.0, 3, 2), (2.0, 4, 3)])
def test_an_epoch_of_svrg_for_a_mean_and_for_a_sum(averaged, a, m, batch_size):
    """Equal rows have equal gradients, and a rate of a quarter of the inverse curvature leaves 3/4 of the error."""
    loss = fgmp.SquaredLoss(averaged=averaged)
    found = end_of(fgmp.SVRG(steps=1, batch_size=batch_size), np.full((m, 1), a), np.full(m, 5 * a), loss)
    np.testing.assert_allclose(found, 5 * (1 - 0.75 ** (2 * -(-m // batch_size))), rtol=1e-12)


def test_a_step_of_sgd_in_a_dictionary_is_one_of_its_coefficients():
    """From zero the step is rate Psi'A'y / m, whatever the inner products of the atoms."""
    rng = np.random.default_rng(0)
    A, y, atoms = rng.standard_normal((9, 5)), rng.standard_normal(9), rng.standard_normal((5, 3))
    found = end_of(fgmp.SGD(steps=1, learning_rate=0.1), A, y, dictionary=fgmp.Dictionary(atoms))
    np.testing.assert_allclose(found, 0.1 * atoms.T @ A.T @ y / 9, rtol=1e-10)


@dataclass(frozen=True)
class Watched(fgmp.LogisticLoss):
    """The logistic loss, with a list of the calls of its curvature."""

    calls: tuple[list, ...] = ([],)

    def curvature(self, predictions, targets, direction):
        self.calls[0].append(1)
        return super().curvature(predictions, targets, direction)


def test_newton_steps_end_where_nothing_is_left_to_gain():
    """Its convergence is quadratic: ten steps do, of the hundred allowed, with two curvatures each."""
    rng = np.random.default_rng(0)
    A, y, loss = rng.standard_normal((60, 3)), rng.choice([-1, 1], 60), Watched()
    end_of(fgmp.Exact(), A, y, loss)
    assert 4 <= len(loss.calls[0]) <= 20


@pytest.mark.parametrize("solver", [fgmp.Newton(steps=3), fgmp.Exact()])
def test_newtons_end_has_the_precision_of_the_data(solver):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 3)).astype(np.float32)
    federation = alone(A, rng.choice([-1, 1], 40), "logistic")
    method = fgmp.FedGradMP(3, local_iterations=1, solver=solver)
    (exchange,) = method.exchanges()
    client, message = federation.clients[0], exchange.broadcast(method.start(federation))
    assert exchange.answer(client, message, np.random.default_rng(0))["values"].dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_to_find_in_a_dictionary_is_the_empty_model(dtype):
    """Of a gradient without numbers the pursuit takes no atom; the answer has the precision of the data and counts."""
    A = np.random.default_rng(0).standard_normal((8, 6)).astype(dtype)
    federation = alone(A, np.zeros(8, dtype))
    result = fgmp.simulate(fgmp.FedGradMP(2, dictionary=fgmp.gaussian_dictionary(6, 9, rng=0)), federation, 2, rng=0)
    assert len(result.support) == 0 and result.coefficients.shape == (9,) and not result.x.any()
    np.testing.assert_array_equal(result.history["clients"][1:], [1, 1])


def test_defaults_of_the_solvers():
    assert fgmp.SGD() == fgmp.SGD(2, None, None) and fgmp.SVRG(3) == fgmp.SVRG(3, None, batch_size=1)


OR_NEWTON = ", or Newton, which needs fewer steps"


@pytest.mark.parametrize(
    "solver, advice",
    [
        (fgmp.GradientDescent, OR_NEWTON),
        (fgmp.ConjugateGradient, OR_NEWTON),
        (fgmp.SVRG, OR_NEWTON),
        (fgmp.Newton, ""),
    ],
)
def test_an_accuracy_beyond_rounding_is_missed_and_said(solver, advice, monkeypatch):
    """With three steps in place of ten thousand: the end is that of three steps, and those who asked for three know."""
    monkeypatch.setattr(sys.modules[solver.__module__], "_LIMIT", 3)
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((7, 2)) * [1, 30], rng.standard_normal(7)
    message = f"^{solver.__name__} stopped before accuracy=1e-30 was certain, on a restricted problem of 2 coordinates "
    with pytest.warns(ConvergenceWarning, match=message + f"and 7 rows; try a larger accuracy{advice}$"):
        found = end_of(solver(accuracy=1e-30), A, y)
    np.testing.assert_allclose(found, end_of(solver(steps=3), A, y), rtol=1e-12)
    np.testing.assert_array_equal(found, end_of(solver(steps=3, accuracy=1e-30), A, y))
    with pytest.raises(ValueError, match="^steps and accuracy are both None; expected at least one of them$"):
        solver()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", [fgmp.Exact(), fgmp.Newton(3), fgmp.SGD(2)])
def test_a_model_begins_and_ends_in_the_precision_of_the_data(dtype, solver):
    rng = np.random.default_rng(0)
    federation = alone(rng.standard_normal((9, 4)).astype(dtype), rng.standard_normal(9).astype(dtype))
    method = fgmp.FedGradMP(2, solver=solver)
    assert method.start(federation).values.dtype == dtype
    assert fgmp.SharedSupportGradMP(2).start(federation).model.values.dtype == dtype
    assert fgmp.FedAvg(learning_rate=0.1).start(federation).dtype == dtype
    result = fgmp.simulate(method, federation, 2, rng=0)
    assert result.x.dtype == dtype and result.history["clients"][-1] == 1


@pytest.mark.parametrize(
    "solver", [fgmp.Exact(), fgmp.Newton(1), fgmp.ConjugateGradient(3)], ids=lambda solver: type(solver).__name__
)
def test_fewer_rows_than_atoms_give_the_signal_of_minimum_norm(solver):
    """Of the signals in the span of the atoms, not the coefficients of minimum norm, which are those of another."""
    rng = np.random.default_rng(0)
    A, y, atoms = rng.standard_normal((3, 6)), rng.standard_normal(3), rng.standard_normal((6, 4)) * [1, 2, 3, 4]
    Q = np.linalg.qr(atoms)[0]
    expected = Q @ np.linalg.pinv(A @ Q) @ y
    assert np.linalg.norm(expected - atoms @ np.linalg.pinv(A @ atoms) @ y) > 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgmp.FewRowsWarning)
        found = atoms @ end_of(solver, A, y, dictionary=fgmp.Dictionary(atoms))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
