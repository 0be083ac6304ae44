"""Compiled loops end where the printed forms do, with Numba and, as plain Python, without it; which loop serves whom.

Whole runs, and that the loop is entered, are law 2 of test_laws.py.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fgmp
from fgmp.local.compiled import (
    compiled_descent,
    compiled_pursuit,
    compiled_span,
    compiling_pays,
    span_pays,
)
from fgmp.local.loops import mark
from fgmp.methods.contract import Exchange
from fgmp.methods.kernels import answer_of, kernel_for
from fgmp.models import SparseModel
from fgmp.selection import mark_largest

ROOT = Path(fgmp.__file__).parents[1]
LARGE = (100, 700)
shapes = st.tuples(st.integers(1, 12), st.integers(1, 60))
seeds = st.integers(0, 2**32 - 1)
STEPS = {"learning_rate": 0.05, "local_iterations": 4}


def method_of(name, batch, n=60):
    tau = {"sparsity": min(5, n)}
    return {
        "FedAvg": fgmp.FedAvg(batch_size=batch, **STEPS),
        "FedHT": fgmp.FedHT(batch_size=batch, **tau, **STEPS),
        "FedIterHT": fgmp.FedIterHT(batch_size=batch, **tau, **STEPS),
        "FedMid": fgmp.FedMid(l1_weight=0.3, batch_size=batch, **STEPS),
        "FedDualAvg": fgmp.FedDualAvg(l1_weight=0.3, batch_size=batch, **STEPS),
    }[name]


NAMES = ("FedAvg", "FedHT", "FedIterHT", "FedMid", "FedDualAvg")


def client_of(shape, loss="squared", seed=0):
    rng = np.random.default_rng(seed)
    labels = {"squared": rng.standard_normal, "logistic": lambda m: rng.choice([-1.0, 1.0], m)}
    targets = labels.get(loss, lambda m: rng.integers(0, 3, m))(shape[0])
    features = rng.standard_normal(shape) * (rng.random(shape[1]) < 0.7)  # some features are blank
    chosen = fgmp.SoftmaxLoss(3) if loss == "softmax" else loss
    return fgmp.Federation.from_arrays([features], [targets], chosen).clients[0]


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


def printed(client, x, batches, tau):
    """The model after one local iteration for each minibatch, by the pseudo-code."""
    for rows in batches:
        one = fgmp.FedGradMP(tau, 1, None if rows is None else len(rows))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(client), "minibatches", lambda self, rng, size, count, rows=rows: iter([rows]))
            x = SparseModel.from_message(one.refine(client, x.message(), None), x.shape)
    return x


@pytest.fixture
def numba(monkeypatch):
    monkeypatch.delenv("FGMP_NUMBA", raising=False)
    return pytest.importorskip("numba")


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-4, 4) | st.just(np.nan) | st.just(-np.inf), min_size=1, max_size=40), st.data())
def test_the_largest_are_those_of_the_selection(values, data):
    vector = np.array(values, float)
    numbers = np.count_nonzero(~np.isnan(vector))
    count = data.draw(st.integers(1, max(numbers, 1)))
    found = np.zeros(len(vector), bool)
    mark(vector, count, found)
    expected = mark_largest(np.where(np.isnan(vector), -1, np.abs(vector))[None], min(count, numbers))[0]
    np.testing.assert_array_equal(found, expected & ~np.isnan(vector))


@pytest.mark.parametrize(("shape", "tau"), [((150, 200), 40), ((8, 200), 5), ((20, 12), 12)])
def test_many_merged_columns_are_solved_for_too(shape, tau):
    client, rng = client_of(shape, "squared", 3), np.random.default_rng(3)
    start, batches = SparseModel.zero((shape[1],), np.dtype(float)), [None, rng.permutation(shape[0])[:7], None]
    found, expected = (f(client, start, batches, tau) for f in (compiled_pursuit, printed))
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(1, 12), seeds)
def test_the_compiled_pursuit_ends_where_the_other_does(shape, sparsity, seed):
    client, rng = client_of(shape, "squared", seed), np.random.default_rng(seed)
    tau = min(sparsity, shape[1])
    batches = [None, *(rng.permutation(shape[0])[: rng.integers(1, shape[0] + 1)] for _ in range(4))]
    model = SparseModel(np.arange(tau), rng.standard_normal(tau), (shape[1],))
    for rows in batches:
        found, model = (f(client, model, [rows], tau) for f in (compiled_pursuit, printed))
        np.testing.assert_allclose(found.dense(), model.dense(), rtol=1e-6, atol=1e-9)
        if np.abs(model.values).min(initial=1) > 1e-9:  # smaller ones are rounding, and then chance who has a place
            np.testing.assert_array_equal(found.support, model.support)
        residual = client.targets - client.predictions(model)
        if np.linalg.norm(residual) < 1e-8 * np.linalg.norm(client.targets):
            break  # all rows are fitted: the gradient is rounding, and so is what is largest in it


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["squared", "logistic", fgmp.LogisticLoss(2.0), fgmp.SquaredLoss(averaged=False)])
@settings(deadline=None, max_examples=25)
@given(shape=shapes, seed=seeds, dtype=st.sampled_from([np.float32, np.float64]))
def test_compiled_steps_end_where_the_printed_ones_do(name, loss, shape, seed, dtype):
    rng = np.random.default_rng(seed)
    one = client_of(shape, "logistic" if "ogistic" in str(loss) else "squared", seed)
    features, targets = one.features.astype(dtype), one.targets.astype(dtype)
    (client,) = fgmp.Federation.from_arrays([features], [targets], loss).clients
    method = method_of(name, 1 + seed % shape[0], shape[1])
    start = rng.standard_normal(shape[1]).astype(dtype)
    message = {"dense": start} | ({"round": np.array([3], np.int32)} if name == "FedDualAvg" else {})
    expected = method.train(client, message, np.random.default_rng(seed))
    thresholds = {
        "FedIterHT": {"keep": getattr(method, "sparsity", 0)},
        "FedMid": {"after": 0.05 * 0.3},
        "FedDualAvg": {"before": method.thresholds(message) if name == "FedDualAvg" else 0},
    }.get(name, {})
    batches = method.minibatches(client, np.random.default_rng(seed))
    found = compiled_descent(client, start, batches, method.learning_rate, **thresholds)
    assert found.dtype == dtype
    expected = SparseModel.from_message(expected, start.shape).dense() if "dense" not in expected else expected["dense"]
    tolerance = 1e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * (1 + np.abs(expected).max()))


def test_a_divergence_shows_in_compiled_steps(recwarn):
    client = client_of((6, 30), "squared")
    start = np.full(30, 1e200)
    with np.errstate(all="ignore"):
        for thresholds in ({}, {"keep": 4}, {"after": 0.1}, {"before": 0.1}):
            assert not np.isfinite(compiled_descent(client, start, [None] * 4, 1e200, **thresholds)).all()
        start[3] = np.nan
        for thresholds in ({"keep": 4}, {"after": 0.1}):
            assert np.isnan(compiled_descent(client, start, [None], 0.1, **thresholds)).all()


@pytest.mark.parametrize(
    ("method", "loss", "expected"),
    [
        (fgmp.FedGradMP(3), "squared", "compiled least squares"),
        (fgmp.FedGradMP(3), "logistic", None),
        (fgmp.FedGradMP(3, radius=1.0), "squared", None),
        (fgmp.FedAvg(learning_rate=0.1), "squared", "compiled steps"),
        (fgmp.FedAvg(learning_rate=0.1, local_iterations=20), "squared", "compiled steps"),
        (AllRows(learning_rate=0.1, local_iterations=20), "softmax", None),
        (Momentum(learning_rate=0.1), "squared", None),
        (Rounded(3), "squared", None),
        (Watched(3), "squared", None),
        (fgmp.FedGradMP(3, selection=fgmp.PerAtom()), "squared", "compiled least squares"),
        (fgmp.FedGradMP(3, selection=fgmp.PerAtom((1,))), "squared", None),
        (fgmp.SharedSupportGradMP(3), "squared", None),
        (method_of("FedIterHT", 5), "squared", "compiled steps"),
        (method_of("FedMid", 5), "logistic", "compiled steps"),
        (fgmp.FedAvg(learning_rate=0.1, local_iterations=20), "softmax", "compiled row span"),
        (method_of("FedDualAvg", 5), "logistic", "compiled steps"),
        (method_of("FedMid", 5), "softmax", None),
        (fgmp.FedIterHT(sparsity=3, selection=fgmp.PerAtom(), **STEPS), "squared", "compiled steps"),
        (fgmp.FedIterHT(sparsity=3, selection=fgmp.PerAtom((1,)), **STEPS), "squared", None),
        (fgmp.FedIterHT(sparsity=3, selection=Twice(), **STEPS), "squared", None),
        (fgmp.FastFedDualAvg(l1_weight=0.1, **STEPS), "squared", None),
        (Clipped(learning_rate=0.1), "squared", None),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_which_kernel_serves_large_data(method, loss, expected, numba, monkeypatch):
    client = client_of(LARGE, loss)
    assert name_of(method, client) == expected
    monkeypatch.setenv("FGMP_NUMBA", "0")
    assert "compiled" not in str(name_of(method, client))


@settings(deadline=None, max_examples=100)
@given(st.tuples(st.integers(1, 12), st.integers(13, 40)), st.integers(2, 5), st.sampled_from([0.01, 3.0, 1e4]), seeds)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_softmax_steps_in_the_span_end_where_plain_steps_do(kind, shape, n_classes, scale, seed):
    rng = np.random.default_rng(seed)
    A, labels = rng.standard_normal(shape).astype(kind), rng.integers(0, n_classes, shape[0])
    (client,) = fgmp.Federation.from_arrays([A], [labels], fgmp.SoftmaxLoss(n_classes)).clients
    start = np.asfortranarray(scale * rng.standard_normal(client.model_shape), kind)
    size = rng.integers(1, shape[0] + 1)
    batches = [rng.permutation(shape[0])[:size] if size < shape[0] else None for _ in range(4)]
    expected, tolerance = start.copy(), (1e-11, 2e-4)[kind is np.float32]
    for rows in batches:
        expected = expected - kind(0.5) * client.gradient(expected, rows)
    found = compiled_span(client, start, 0.5, batches)
    assert found.dtype == kind
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))


def test_sizes_decide(numba):
    """Multiplications by hand: plain 2 K b n C, in the span K m^2 C + 2 m n C, the products m^2 n / 2."""
    for shape, steps, size, pays in [
        ((16, 128), 20, None, True),
        ((16, 127), 20, None, False),  # fewer than 2^11 entries
        ((100, 784), 40, 50, True),  # digits: 40 steps save more than the products cost
        ((100, 784), 1, 50, False),  # one step saves nothing
        ((600, 64), 3, 50, False),  # more rows than features
    ]:
        assert span_pays(client_of(shape, "softmax"), steps, size) == pays
    assert compiling_pays(client_of((64, 1024)))
    assert not compiling_pays(client_of((64, 1023)))


def ran(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SMALL_RUN = """
import sys, fgmp
federation = fgmp.make_sparse_regression(3, 20, 100, 4, rng=0)
fgmp.simulate(fgmp.FedGradMP(4), federation, 2, rng=0)
print("numba" in sys.modules)
"""


def test_numba_is_not_imported_before_it_serves(numba):
    assert ran(SMALL_RUN) == "False\n"


WITHOUT = """
import sys
sys.modules["numba"] = None
import numpy as np
from fgmp.local.loops import candidates
A = np.arange(12.0).reshape(3, 4)
print(candidates(A, np.array([0, 2]), np.array([1.0, -1.0]), 1, np.array([3])).tolist())
"""


def test_without_numba_the_loops_are_plain_python():
    assert ran(WITHOUT) == "[0, 3]\n"


NOWHERE = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
import numpy as np
from fgmp.local.loops import candidates
A = np.arange(12.0).reshape(3, 4)
print(candidates(A, np.array([0, 2]), np.array([1.0, -1.0]), 1, np.array([3])).tolist())
"""


@pytest.mark.slow
def test_where_no_folder_can_be_written_it_compiles_anew(numba):
    assert ran(NOWHERE) == "[0, 3]\n"


def test_the_readable_form_is_the_methods_own(numba, monkeypatch):
    method, client = method_of("FedAvg", 5), client_of(LARGE)
    (exchange,) = method.exchanges()
    assert answer_of(exchange, client) != exchange.answer
    assert answer_of(exchange, client, readable=True) == exchange.answer == method.train
    monkeypatch.setenv("FGMP_READABLE", "1")
    assert answer_of(exchange, client) == exchange.answer


def test_the_printed_form_serves_sparse_features(numba):
    dense = client_of(LARGE)
    (thin,) = fgmp.Federation.from_arrays([sparse.csr_array(dense.features)], [dense.targets]).clients
    assert name_of(fgmp.FedGradMP(3), dense) is not None and name_of(fgmp.FedGradMP(3), thin) is None


def test_a_function_that_is_no_method_has_no_kernel():
    exchange = Exchange(lambda state: {}, lambda client, message, rng: {}, lambda state, replies: state)
    assert kernel_for(exchange, client_of(LARGE)) is None


@pytest.mark.parametrize("loss", [fgmp.SquaredLoss, fgmp.SoftmaxLoss])
def test_a_loss_of_somebody_else_is_not_compiled(numba, loss):
    class Doubled(loss):
        def derivative(self, predictions, targets):
            return 2 * super().derivative(predictions, targets)

    one = client_of(LARGE, "softmax")
    made = Doubled(one.loss.n_classes) if loss is fgmp.SoftmaxLoss else Doubled()
    (client,) = fgmp.Federation.from_arrays([one.features], [one.targets], made).clients
    for method in (fgmp.FedAvg(learning_rate=0.1, local_iterations=20), method_of("FedIterHT", 5)):
        assert name_of(method, client) is None
