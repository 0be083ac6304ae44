"""One function decides which fast loop serves a client; it ends where the printed loop ends, and can be turned off."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgmp
from fgmp.federation import Client, Federation
from fgmp.local.row_span import row_span_pays, steps_in_the_row_span
from fgmp.methods.contract import Exchange
from fgmp.methods.kernels import answer_of, kernel_for
from fgmp.models import SparseModel, decode, encode

shapes = st.tuples(st.integers(1, 12), st.integers(1, 60))
seeds = st.integers(0, 2**32 - 1)
SGD = fgmp.SGD(steps=3, batch_size=4, learning_rate=0.3)
ROTATION = fgmp.Dictionary(np.linalg.qr(np.random.default_rng(1).standard_normal((300, 300)))[0])


def client_of(shape, loss="squared", seed=0):
    rng = np.random.default_rng(seed)
    labels = {"squared": rng.standard_normal, "logistic": lambda m: rng.choice([-1.0, 1.0], m)}
    targets = labels.get(loss, lambda m: rng.integers(0, 3, m))(shape[0])
    features = rng.standard_normal(shape) * (rng.random(shape[1]) < 0.7)  # some features are blank
    chosen = fgmp.SoftmaxLoss(3) if loss == "softmax" else loss
    return Federation.from_arrays([features], [targets], chosen).clients[0]


def name_of(method, client):
    kernel = kernel_for(method.exchanges()[0], client)
    return None if kernel is None else kernel.name


@dataclass(frozen=True, kw_only=True)
class Clipped(fgmp.FedAvg):
    def step(self, w, gradient):
        return super().step(w, np.clip(gradient, -1, 1))


@dataclass(frozen=True, kw_only=True)
class AllRows(fgmp.FedAvg):
    def minibatches(self, client, rng):
        return iter([None] * self.local_iterations)


@dataclass(frozen=True, kw_only=True)
class Momentum(fgmp.FedAvg):
    def train(self, client, message, rng):
        return super().train(client, message, rng)


class Rounded(fgmp.FedGradMP):
    def into_ball(self, x):
        return x


class Watched(fgmp.FedGradMP):
    def refine(self, client, message, rng):
        return super().refine(client, message, rng)


@dataclass(frozen=True)
class Twice(fgmp.PerOutput):
    def mark(self, magnitudes, count):
        return super().mark(magnitudes, 2 * count)


STEPS = {"learning_rate": 0.01, "local_iterations": 10}


@pytest.mark.parametrize(
    ("method", "loss", "expected"),
    [
        (fgmp.FedAvg(**STEPS), "squared", "row span"),
        (fgmp.FedHT(sparsity=3, **STEPS), "logistic", "row span"),
        (fgmp.FedAvg(**STEPS), "softmax", "row span"),
        (fgmp.FedIterHT(sparsity=3, **STEPS), "squared", None),
        (fgmp.FedMid(l1_weight=0.1, **STEPS), "squared", None),
        (fgmp.FedDualAvg(l1_weight=0.1, **STEPS), "squared", None),
        (fgmp.FastFedDualAvg(l1_weight=0.1, **STEPS), "squared", None),
        (Clipped(**STEPS), "squared", None),
        (AllRows(**STEPS), "squared", None),
        (Momentum(**STEPS), "squared", None),
        (fgmp.FedGradMP(3, solver=SGD), "softmax", "sgd"),
        (fgmp.FedGradMP(3, solver=SGD, radius=1.0, dictionary=ROTATION), "softmax", "sgd"),
        (fgmp.FedGradMP(3), "squared", "least squares"),
        (fgmp.FedGradMP(3, dictionary=ROTATION, batch_size=4), "squared", "least squares"),
        (fgmp.FedGradMP(3, selection=fgmp.PerAtom()), "squared", "least squares"),
        (fgmp.FedGradMP(3, selection=fgmp.PerAtom((1,))), "squared", None),
        (fgmp.FedGradMP(3, radius=1.0), "squared", None),
        (fgmp.FedGradMP(3), "logistic", None),
        (fgmp.FedGradMP(3), "softmax", None),
        (fgmp.FedGradMP(3, solver=SGD), "squared", None),
        (fgmp.FedGradMP(3, solver=SGD), "logistic", None),
        (fgmp.FedGradMP(3, solver=fgmp.SGD(steps=3)), "softmax", None),
        (fgmp.FedGradMP(3, solver=fgmp.GradientDescent(3)), "softmax", None),
        (fgmp.FedGradMP(3, solver=SGD, selection=fgmp.Overall()), "softmax", None),
        (fgmp.FedGradMP(3, solver=SGD, selection=fgmp.PerAtom()), "softmax", None),
        (fgmp.FedGradMP(3, solver=SGD, selection=fgmp.PerOutput(always=(0,))), "softmax", None),
        (fgmp.FedGradMP(3, solver=SGD, selection=Twice()), "softmax", None),
        (fgmp.FedGradMP(3, solver=SGD, dictionary=fgmp.gaussian_dictionary(300, 40, rng=0)), "softmax", None),
        (Rounded(3, solver=SGD), "softmax", None),
        (Watched(3, solver=SGD), "softmax", None),
        (fgmp.SharedSupportGradMP(3), "squared", None),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_which_kernel_serves(method, loss, expected):
    assert name_of(method, client_of((8, 300), loss)) == expected


def test_a_function_that_is_no_method_has_no_kernel():
    exchange = Exchange(lambda state: {}, lambda client, message, rng: {}, lambda state, replies: state)
    assert kernel_for(exchange, client_of((8, 300))) is None


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["squared", "logistic", "softmax"]), shapes, seeds)
def test_the_row_span_ends_where_the_printed_steps_do(loss, shape, seed):
    client, rng = client_of(shape, loss, seed), np.random.default_rng(seed)
    w = rng.standard_normal(client.model_shape)
    batches = [None, *(rng.permutation(shape[0])[: rng.integers(1, shape[0] + 1)] for _ in range(4))]
    expected, before = w, w.copy()
    for rows in batches:
        expected = expected - 0.1 * client.gradient(expected, rows)
    np.testing.assert_allclose(steps_in_the_row_span(client, w, 0.1, batches), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(w, before)


def assert_both_refine_alike(method, client, seed):
    """Two rounds of one client, by the kernel and as printed."""
    message = SparseModel.zero(client.model_shape).message()
    for _ in range(2):
        slow = method.refine(client, message, np.random.default_rng(seed))
        fast = kernel_for(method.exchanges()[0], client).answer(client, message, np.random.default_rng(seed))
        np.testing.assert_array_equal(fast["support"], slow["support"])
        np.testing.assert_allclose(fast["values"], slow["values"], rtol=1e-6, atol=1e-9)
        message = slow


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(1, 12), st.sampled_from([None, 0.3]), seeds)
def test_the_sgd_kernel_ends_where_the_printed_refinement_does(shape, sparsity, radius, seed):
    client, batch = client_of(shape, "softmax", seed), 1 + seed % shape[0]
    solver = fgmp.SGD(steps=3, batch_size=batch, learning_rate=0.3)
    options = {"local_iterations": 4, "batch_size": batch, "radius": radius, "solver": solver}
    method = fgmp.FedGradMP(min(sparsity, shape[1]), **options)
    assert_both_refine_alike(method, client, seed)


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(1, 12), seeds)
def test_the_least_squares_kernel_ends_where_the_printed_refinement_does(shape, sparsity, seed):
    client, batch = client_of(shape, "squared", seed), 1 + seed % shape[0]
    method = fgmp.FedGradMP(min(sparsity, shape[1]), local_iterations=4, batch_size=batch)
    assert_both_refine_alike(method, client, seed)


def test_a_divergence_shows_in_the_kernel_too():
    client, method = client_of((8, 40), "softmax"), fgmp.FedGradMP(3, solver=fgmp.SGD(3, None, 1e308), radius=None)
    message = encode(1e300 * np.ones(client.model_shape))
    with np.errstate(all="ignore"):
        found = kernel_for(method.exchanges()[0], client).answer(
            client, SparseModel.of(message["dense"]).message(), None
        )
    assert not np.isfinite(found["values"]).all()


RUNS = [
    (fgmp.FedAvg(learning_rate=0.01, local_iterations=5, batch_size=4), "squared"),
    (fgmp.FedHT(learning_rate=0.01, local_iterations=5, batch_size=4, sparsity=3), "squared"),
    (fgmp.FedGradMP(2, solver=SGD, batch_size=4), "softmax"),
]


@pytest.mark.parametrize(("method", "loss"), RUNS, ids=["FedAvg", "FedHT", "FedGradMP"])
def test_whole_runs_agree_with_the_readable_form(method, loss, monkeypatch):
    parts = [client_of((8, 60), loss, seed) for seed in range(3)]
    federation = Federation.from_arrays([c.features for c in parts], [c.targets for c in parts], parts[0].loss)
    fast = fgmp.simulate(method, federation, 3, rng=0)
    slow = fgmp.simulate(method, federation, 3, rng=0, readable=True)
    np.testing.assert_allclose(fast.x, slow.x, rtol=1e-9, atol=1e-12)
    assert (fast.x != slow.x).any()  # the kernels add in another order
    np.testing.assert_array_equal(fgmp.simulate(method, federation, 3, rng=0, readable=True, workers=2).x, slow.x)
    monkeypatch.setenv("FGMP_READABLE", "1")
    np.testing.assert_array_equal(fgmp.simulate(method, federation, 3, rng=0).x, slow.x)
    monkeypatch.setenv("FGMP_READABLE", "0")
    np.testing.assert_array_equal(fgmp.simulate(method, federation, 3, rng=0).x, fast.x)


def test_a_whole_run_by_the_least_squares_kernel_is_that_of_the_readable_form(monkeypatch):
    """The same supports, and on a support the same solution to the last bit."""
    federation = fgmp.make_sparse_regression(5, 30, 60, 4, noise_variance=0.01, rng=0)
    method, calls = fgmp.FedGradMP(4, batch_size=10), []
    assert name_of(method, federation.clients[0]) == "least squares"
    fast = fgmp.simulate(method, federation, 6, rng=0)
    refine = fgmp.FedGradMP.refine
    with monkeypatch.context() as patch:  # counts, and is still the function that the kernel stands for
        patch.setattr(fgmp.FedGradMP, "refine", lambda *arguments: calls.append(1) or refine(*arguments))
        fgmp.simulate(method, federation, 6, rng=0)
        assert not calls
        slow = fgmp.simulate(method, federation, 6, rng=0, readable=True)
    assert len(calls) == 30
    np.testing.assert_array_equal(fast.x, slow.x)
    for column in set(fast.history) - {"seconds"}:
        np.testing.assert_array_equal(fast.history[column], slow.history[column])


def test_the_readable_form_is_the_methods_own():
    method, client = RUNS[0][0], client_of((8, 60))
    (exchange,) = method.exchanges()
    assert answer_of(exchange, client) != exchange.answer
    assert answer_of(exchange, client, readable=True) == exchange.answer == method.train


@pytest.mark.parametrize(
    ("shape", "outputs", "steps", "size", "pays"),
    [
        ((100, 784), 10, 40, 50, True),  # digits: 40 steps save more than the products cost
        ((100, 1000), 1, 3, 50, True),  # kept products are paid back by the fourteenth visit
        ((100, 1000), 1, 1, 50, False),  # one step saves nothing
        ((500, 5000), 1, 3, None, False),  # products that no run pays back
        ((40, 64), 10, 40, 20, True),  # not kept, and paid back within the visit
        ((60, 20), 1, 3, 10, False),  # more rows than features
    ],
)
def test_the_row_span_is_taken_where_it_is_less_work(shape, outputs, steps, size, pays, monkeypatch):
    """Multiplications by hand: plain 2 K b n C, in the span K m^2 C + 2 m n C, the products m^2 n / 2."""
    monkeypatch.setenv("FGMP_NUMBA", "0")
    rng = np.random.default_rng(0)
    targets = rng.standard_normal(shape[0]) if outputs == 1 else rng.integers(0, outputs, shape[0])
    loss = "squared" if outputs == 1 else fgmp.SoftmaxLoss(outputs)
    federation = Federation.from_arrays([rng.standard_normal(shape)], [targets], loss)
    (client,) = federation.clients
    assert row_span_pays(client, steps, size) == pays
    calls, gradient = [], Client.gradient

    def counted(self, *arguments):
        calls.append(1)
        return gradient(self, *arguments)

    monkeypatch.setattr(Client, "gradient", counted)
    fgmp.simulate(fgmp.FedAvg(learning_rate=1e-3, local_iterations=steps, batch_size=size), federation, 1, rng=0)
    assert (not calls) == pays
    assert ("_kept_row_products" in client.__dict__) == (pays and 4 * shape[0] <= shape[1])


def test_kept_products_take_at_most_a_quarter_of_the_data():
    for n_samples in (5, 20, 25, 26, 60):
        client = client_of((n_samples, 100))
        assert client.row_products.shape == (n_samples, n_samples)
        kept = client.__dict__.get("_kept_row_products", np.empty(0)).nbytes
        assert kept == (client.row_products.nbytes if 4 * n_samples <= 100 else 0) <= client.features.nbytes / 4


def test_models_decode_to_what_the_row_span_starts_from():
    client, method = client_of((8, 60)), RUNS[0][0]
    w = np.linspace(-1, 1, 60)
    found = kernel_for(method.exchanges()[0], client).answer(client, encode(w), np.random.default_rng(3))
    slow = method.train(client, encode(w), np.random.default_rng(3))
    np.testing.assert_allclose(decode(found, (60,)), decode(slow, (60,)), atol=1e-13)
    assert np.abs(decode(found, (60,)) - w).max() > 1e-3
