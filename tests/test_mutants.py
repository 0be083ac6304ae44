"""What the code must do though nothing else would notice: each of these survived the suite when it was broken."""

from itertools import pairwise

import numpy as np
import pytest

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.local.solvers import minimise_on
from fgmp.models import SparseModel
from fgmp.running.randomness import draw_cohort


def one_client(features, targets, loss="squared"):
    return fgmp.Federation.from_arrays([features], [targets], loss).clients[0]


def minimise(client, solver, start=None, seed=0):
    """What a solver makes of all coefficients of a client."""
    shape = client.model_shape
    start = np.zeros(shape) if start is None else start
    everything = np.arange(start.size)
    model = SparseModel(everything, start.reshape(-1), shape)
    found = minimise_on(everything, client, StandardBasis(), solver, model, np.random.default_rng(seed))
    return found.dense()


@pytest.fixture(scope="module")
def fed():
    return fgmp.make_sparse_regression(12, 30, 60, 4, noise_variance=1e-2, rng=0)


@pytest.fixture(scope="module")
def result(fed):
    return fgmp.simulate(fgmp.FedGradMP(sparsity=4), fed, 2, rng=0)


def test_polish_goes_into_its_ball(fed, result):
    free = fgmp.polish(result, fed)
    radius = 0.5 * float(np.linalg.norm(free.x))
    inside = fgmp.polish(result, fed, radius=radius)
    np.testing.assert_allclose(inside.x, free.x / 2, rtol=1e-12)
    np.testing.assert_allclose(inside.coefficients, inside.x)
    assert inside.history["objective"][-1] == pytest.approx(fed.objective(free.x / 2))
    np.testing.assert_array_equal(fgmp.polish(result, fed, radius=4 * radius).x, free.x)


def test_polish_solves_within_its_ball_where_the_loss_has_no_minimiser():
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((5, 6)) for _ in range(3)]
    separable = fgmp.Federation.from_arrays(As, [np.sign(A[:, 1]) for A in As], "logistic")
    start = fgmp.simulate(fgmp.FedAvg(learning_rate=0.1), separable, 1, rng=0)
    steps = fgmp.PooledNewton(steps=30)
    inside = fgmp.polish(start, separable, solver=steps, radius=3.0)
    assert np.linalg.norm(inside.x) == pytest.approx(3.0)
    assert separable.objective(inside.x) < separable.objective(start.x)
    with pytest.raises(ValueError, match="separated without error"):
        fgmp.polish(start, separable, solver=steps)


@pytest.mark.parametrize("seed", [0, 3, 11])
def test_polish_asks_the_cohort_of_its_seed(fed, result, seed):
    closed = fgmp.polish(result, fed, cohort_size=3, rng=seed)
    clients = [fed.clients[i] for i in draw_cohort(seed, 1, fed.n_clients, 3)]
    A = np.vstack([client.features for client in clients])[:, result.support]
    expected = np.linalg.lstsq(A, np.concatenate([client.targets for client in clients]), rcond=None)[0]
    np.testing.assert_allclose(closed.x[result.support], expected, rtol=1e-7)


def test_polish_hands_its_seed_to_the_solver(fed, result):
    """One row of one step: the gradient of that row, and with another seed that of another one."""
    steps = fgmp.LocalSteps(fgmp.SGD(steps=1, batch_size=1, learning_rate=0.1))
    ends = [fgmp.polish(result, fed, solver=steps, rng=seed).x for seed in (0, 0, 1)]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert np.abs(ends[0] - ends[2]).max() > 1e-4


def test_the_support_that_is_sent_holds_no_entry_that_nobody_sent():
    """Three clients send one entry each, in the first round: at most three atoms go out again, not 2 tau = 10."""
    rng = np.random.default_rng(0)
    As, ys = [rng.standard_normal((8, 20)) for _ in range(3)], [rng.standard_normal(8) for _ in range(3)]
    merged = {int(np.abs(A.T @ y).argmax()) for A, y in zip(As, ys, strict=True)}
    federation = fgmp.Federation.from_arrays(As, ys)
    history = fgmp.simulate(fgmp.SharedSupportGradMP(5, fgmp.LargestEntries(1)), federation, 1, rng=0).history
    assert history["bytes_down"][-1] == 3 * (4 + 8) * len(merged)
    normal_equations = len(merged) * (len(merged) + 1) // 2 + len(merged)
    assert history["bytes_up"][-1] == 3 * (4 + 8 + 8 * normal_equations)


@pytest.mark.parametrize(
    "values, patience, improvement, stalled",
    [
        ([1.0, 0.9995], 1, 1e-3, True),
        ([1.0, 0.9995], 1, 1e-4, False),
        ([1.0, 0.995], 1, 1e-3, False),
        ([1.0, 0.75], 1, 0.5, True),
        ([1.0, 0.75], 1, 0.2, False),
        ([1.0, 1.0], 1, 0.0, True),
        ([1.0, 0.5, 0.4999, 0.4998], 2, 1e-3, True),
        ([1.0, 0.5, 0.4999, 0.4998], 2, 1e-5, False),
        ([1.0, 0.5, 0.4999, 0.4998], 3, 1e-3, False),
        ([1.0], 1, 1e-3, False),
    ],
)
def test_a_run_is_stalled_where_the_improvement_is_less_than_asked_for(values, patience, improvement, stalled):
    stop = fgmp.stop_when_stalled(patience, improvement=improvement)
    assert stop({"objective": np.array(values)}) is stalled
    default = fgmp.stop_when_stalled(patience)
    if improvement == 1e-3:
        assert default({"objective": np.array(values)}) is stalled


@pytest.mark.parametrize("loss, m, batch_size", [("squared", 1, 1), ("squared", 3, 1), ("squared", 3, 2)])
def test_an_epoch_of_svrg_by_hand(loss, m, batch_size):
    """With equal rows each inner step has rate 1/(4 a^2) and the gradient a^2 (z - z*): the error falls to 3/4 of it.

    An epoch has twice as many steps as there are minibatches.
    """
    a, solution = 3.0, 2.0
    client = one_client(np.full((m, 1), a), np.full(m, a * solution), loss)
    for epochs in (1, 2):
        steps = epochs * 2 * -(-m // batch_size)
        found = minimise(client, fgmp.SVRG(steps=epochs, batch_size=batch_size))
        np.testing.assert_allclose(found, solution * (1 - 0.75**steps), rtol=1e-12)


def test_svrg_takes_the_rate_of_the_steepest_row():
    """Rows 1 and 2 with targets zero: rate 1/16; the steps contract by 15/16 and 12/16, whichever are drawn."""
    client = one_client(np.array([[1.0], [2.0]]), np.zeros(2))
    for seed in range(5):
        z, full = (
            1.0,
            2.5,
        )  # at the anchor 1 the gradient is (1 + 4) / 2, and an inner step z - (a^2 (z - 1) + 2.5) / 16
        rng = np.random.default_rng(seed)
        for _ in range(4):
            z -= ((1.0, 4.0)[int(rng.integers(2, size=1)[0])] * (z - 1) + full) / 16
        found = minimise(client, fgmp.SVRG(steps=1), np.ones(1), seed)
        np.testing.assert_allclose(found, z, rtol=1e-12)


@pytest.mark.parametrize("loss, smoothness", [("squared", 1.0), ("logistic", 0.25), ("softmax", 0.5)])
def test_the_step_of_sgd_without_a_rate_is_one_over_the_largest_curvature(loss, smoothness):
    """From zero one step is the gradient times the rate; power iterations find the eigenvalue to a few per cent."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((30, 4)) * [1, 2, 3, 4]
        targets = {"squared": rng.standard_normal(30), "logistic": np.sign(A[:, 0]), "softmax": rng.integers(0, 3, 30)}
        client = one_client(A, targets[loss], loss)
        step, gradient = minimise(client, fgmp.SGD(steps=1)), client.gradient(np.zeros(client.model_shape))
        rate = np.linalg.norm(step) / np.linalg.norm(gradient)
        np.testing.assert_allclose(step, -rate * gradient, rtol=1e-9, atol=1e-12)
        curvature = smoothness * np.linalg.eigvalsh(A.T @ A / 30)[-1]
        assert 0.95 * curvature <= 1 / rate <= 1.06 * curvature


@pytest.mark.parametrize("loss, smoothness", [("squared", 1.0), ("softmax", 0.5)])
def test_the_rate_of_sgd_for_one_feature(loss, smoothness):
    """One feature has one curvature, and power iterations find it at once: the rate is that over 1.05."""
    a = np.array([1.0, -2.0, 3.0])
    client = one_client(a[:, None], {"squared": a, "softmax": np.array([0, 1, 1])}[loss], loss)
    step, gradient = minimise(client, fgmp.SGD(steps=1)), client.gradient(np.zeros(client.model_shape))
    np.testing.assert_allclose(step, -gradient / (1.05 * smoothness * 14 / 3), rtol=1e-6)


def polak_ribiere(client, iterates):
    """The direction of each step and whether it was a restart, from the gradients alone."""
    direction = before = None
    for z in iterates:
        gradient = client.gradient(z)
        if direction is None:
            direction, restart = -gradient, False
        else:
            beta = max(0.0, gradient @ (gradient - before) / (before @ before))
            direction = -gradient + beta * direction
            restart = bool(gradient @ direction >= 0)  # not a direction of descent
            direction = -gradient if restart else direction
        before = gradient
        yield direction, restart


def test_conjugate_gradients_start_again_where_their_direction_ascends():
    restarts = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        client = one_client(rng.standard_normal((8, 3)), rng.choice([-1.0, 1.0], 8), "logistic")
        start = rng.standard_normal(3)
        iterates = [start, *(minimise(client, fgmp.ConjugateGradient(steps=k), start) for k in range(1, 7))]
        for (z, moved), (direction, restart) in zip(pairwise(iterates), polak_ribiere(client, iterates), strict=False):
            if np.linalg.norm(direction) < 1e-7:
                break
            restarts += restart
            step = moved - z
            assert step @ direction >= (1 - 1e-6) * np.linalg.norm(step) * np.linalg.norm(direction) > 0
    assert restarts >= 5


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_the_exact_solver_ends_where_the_gradient_does(loss):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3))
    labels = {"logistic": rng.choice([-1, 1], 60), "softmax": rng.integers(0, 3, 60)}
    client = one_client(A, labels[loss], loss)
    ends = [minimise(client, fgmp.Exact(), rng.standard_normal(client.model_shape)) for _ in range(2)]
    for end in ends:
        assert np.abs(client.gradient(end)).max() < 1e-7
    values = [client.objective(end) for end in ends]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize("kind", [fgmp.GradientDescent, fgmp.ConjugateGradient, fgmp.Newton, fgmp.SVRG])
def test_a_start_within_the_accuracy_is_the_end(kind):
    """Orthonormal columns: curvature 1/m in all directions, so that the distance is m times the gradient."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((9, 4)))[0]
    solution, client = np.ones(4), one_client(Q, Q @ np.ones(4))
    near, far = solution + [0.0, 0.09, 0.0, 0.0], solution + [0.0, 0.11, 0.0, 0.0]
    np.testing.assert_array_equal(minimise(client, kind(accuracy=0.1), near), near)
    found = minimise(client, kind(accuracy=0.1), far)
    assert np.linalg.norm(found - solution) <= 0.1 and not np.array_equal(found, far)


def classes(n_features=12, n_classes=3, n_clients=2):
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((15, n_features)) for _ in range(n_clients)]
    return fgmp.Federation.from_arrays(As, [rng.integers(0, n_classes, 15) for _ in As], fgmp.SoftmaxLoss(n_classes))


@pytest.mark.parametrize("selection, outputs", [(fgmp.Overall(), 1), (fgmp.PerOutput(), 3), (fgmp.PerAtom(), 3)])
def test_a_shared_support_counts_each_output_or_atom_or_all(selection, outputs):
    """From zero the clients send 2 tau entries (of each output), the server 2 tau with their values, then tau."""
    tau, steps = 2, fgmp.LocalSteps(fgmp.SGD(steps=1, learning_rate=0.1))
    method = fgmp.SharedSupportGradMP(tau, fgmp.LargestEntries(2 * tau), steps, selection=selection)
    result = fgmp.simulate(method, classes(), 1, rng=0)
    merged = 2 * tau * outputs
    assert result.history["bytes_up"][-1] == 2 * (12 * merged + 8 * merged)
    assert result.history["bytes_down"][-1] == 2 * 12 * merged
    assert len(result.support) == tau * outputs
    cut = fgmp.SharedSupportGradMP(tau, fgmp.LargestEntries(1), steps, selection=selection)
    assert fgmp.simulate(cut, classes(n_clients=1), 1, rng=0).history["bytes_up"][-1] == (12 + 8) * outputs


def test_a_shared_support_of_all_outputs_may_be_larger_than_the_features():
    steps = fgmp.LocalSteps(fgmp.SGD(steps=1, learning_rate=0.1))
    large = {"sparsity": 20, "solver": steps}
    overall = fgmp.SharedSupportGradMP(**large, selection=fgmp.Overall())
    assert len(fgmp.simulate(overall, classes(), 1, rng=0).support) == 20
    with pytest.raises(ValueError, match="sparsity is 20; expected an integer from 1 to 12"):
        fgmp.simulate(fgmp.SharedSupportGradMP(**large), classes(), 1, rng=0)


def test_all_exchanges_of_a_round_take_place(fed):
    """A start and so many steps of conjugate gradients, after the first exchange: vectors on the merged support."""
    steps = 12  # the merged support has 8 atoms in round 1
    printed = {"identify": fgmp.LargestEntries(8), "pruning": "largest"}
    inner = fgmp.SharedSupportGradMP(4, solver=fgmp.PooledConjugateGradient(steps=steps), **printed)
    result = fgmp.simulate(inner, fed, 1, rng=0)
    exact = fgmp.simulate(fgmp.SharedSupportGradMP(4, **printed), fed, 1, rng=0)
    np.testing.assert_allclose(result.x, exact.x, rtol=1e-6, atol=1e-9)
    assert result.history["bytes_up"][-1] == fed.n_clients * (8 * 12 + (1 + steps) * 8 * 8)
