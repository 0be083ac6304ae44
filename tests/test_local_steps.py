"""The fast local steps against their readable forms."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgmp
from fgmp.federation import Federation
from fgmp.local_steps import (
    HardThreshold,
    SoftThreshold,
    back,
    dual_steps,
    gradient_steps,
    row_span_pays,
    steps_in_the_row_span,
    thresholded_steps,
    transposed,
)
from fgmp.models import encode

shapes = st.tuples(st.integers(1, 12), st.integers(1, 30))
losses = st.sampled_from(["squared", "logistic", "softmax"])
seeds = st.integers(0, 2**32 - 1)


def problem(loss, shape, seed, dtype=float):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal(shape).astype(dtype)
    labels = {"squared": rng.standard_normal, "logistic": lambda m: rng.choice([-1.0, 1.0], m)}
    targets = labels.get(loss, lambda m: rng.integers(0, 3, m))(shape[0])
    federation = Federation.from_arrays([features], [targets], fgmp.SoftmaxLoss(3) if loss == "softmax" else loss)
    w = rng.standard_normal(federation.model_shape).astype(dtype)
    batches = [None, *(rng.permutation(shape[0])[: rng.integers(1, shape[0] + 1)] for _ in range(4))]
    return federation.clients[0], w, batches


def one_by_one(client, w, rate, batches, threshold=lambda w: w):
    for rows in batches:
        w = threshold(w - rate * client.gradient(w, rows))
    return w


@settings(deadline=None, max_examples=60)
@given(losses, shapes, seeds)
def test_gradient_steps_are_those_of_the_readable_loop(loss, shape, seed):
    client, w, batches = problem(loss, shape, seed)
    expected = one_by_one(client, w, 0.1, batches)
    before = w.copy()
    for steps in (gradient_steps, steps_in_the_row_span):
        np.testing.assert_allclose(steps(client, w, 0.1, batches), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(w, before)


@settings(deadline=None, max_examples=60)
@given(losses, shapes, seeds, st.integers(1, 40), st.booleans(), st.booleans())
def test_hard_and_soft_steps_are_those_of_the_readable_loop(loss, shape, seed, count, joint, spare):
    client, w, batches = problem(loss, shape, seed)
    spared = (0,) if spare else ()
    method = fgmp.FedIterHT(learning_rate=0.1, sparsity=count, joint=joint, unthresholded=spared)
    hard = HardThreshold(transposed(w), count, joint, spared)
    fast = thresholded_steps(client, w, 0.1, batches, hard)
    np.testing.assert_allclose(fast, one_by_one(client, w, 0.1, batches, method.hard), rtol=1e-9, atol=1e-9)

    soft = SoftThreshold(transposed(w), 0.05, spared)
    fast = thresholded_steps(client, w, 0.1, batches, soft)
    slow = one_by_one(client, w, 0.1, batches, lambda w: method.soft(w, 0.05))
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(losses, shapes, seeds)
def test_dual_steps_are_those_of_the_readable_loop(loss, shape, seed):
    client, z, batches = problem(loss, shape, seed)
    method = fgmp.FedDualAvg(learning_rate=0.1, l1_weight=0.1)
    soft = SoftThreshold(transposed(z), 0.0)
    fast = dual_steps(client, z, 0.1, batches, (soft.at(0.1 * k) for k in range(5)))
    slow = z
    for k, rows in enumerate(batches):
        slow = slow - 0.1 * client.gradient(method.soft(slow, 0.1 * k), rows)
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(st.lists(st.integers(-2, 2), min_size=12, max_size=12), st.integers(1, 12), st.booleans())
def test_ties_break_towards_the_lower_index(entries, count, joint):
    w = np.array(entries, float).reshape(4, 3)
    method = fgmp.FedIterHT(learning_rate=1.0, sparsity=count, joint=joint)
    fast = transposed(w)
    HardThreshold(fast, count, joint)(fast)
    np.testing.assert_array_equal(back(fast, w), method.hard(w))


@pytest.mark.parametrize(
    "method",
    [
        lambda K: fgmp.FedAvg(learning_rate=0.1, local_iterations=K, batch_size=20),
        lambda K: fgmp.FedIterHT(learning_rate=0.1, local_iterations=K, batch_size=20, sparsity=30),
        lambda K: fgmp.FedMid(learning_rate=0.1, local_iterations=K, batch_size=20, l1_weight=1e-3),
        lambda K: fgmp.FedDualAvg(learning_rate=0.1, local_iterations=K, batch_size=20, l1_weight=1e-3),
    ],
)
def test_a_local_step_keeps_nothing_it_allocates_and_allocates_less_than_a_model(method):
    client, w, _ = problem("softmax", (40, 5000), 0, np.float32)

    def peak(K):
        method(1).train(client, encode(w) | {"round": np.zeros(1, np.int32)}, np.random.default_rng(0))
        tracemalloc.start()
        method(K).train(client, encode(w) | {"round": np.zeros(1, np.int32)}, np.random.default_rng(0))
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(40) - peak(2) < w.nbytes / 2  # the numbers of the minibatches, 40 x 40


def client_of(shape, outputs=1):
    rng = np.random.default_rng(0)
    targets = rng.standard_normal(shape[0]) if outputs == 1 else rng.integers(0, outputs, shape[0])
    loss = "squared" if outputs == 1 else fgmp.SoftmaxLoss(outputs)
    return Federation.from_arrays([rng.standard_normal(shape)], [targets], loss).clients[0]


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
def test_the_row_span_is_taken_where_it_is_less_work(shape, outputs, steps, size, pays):
    """Multiplications by hand: plain 2 K b n C, in the span K m^2 C + 2 m n C, the products m^2 n / 2."""
    client = client_of(shape, outputs)
    batches = [None if size is None else np.arange(size)] * steps
    assert row_span_pays(client, batches) == pays
    before = client.__dict__.get("_kept_row_products")
    gradient_steps(client, np.zeros(client.model_shape), 1e-3, batches)
    assert before is None and ("_kept_row_products" in client.__dict__) == (pays and 4 * shape[0] <= shape[1])


def test_kept_products_take_at_most_a_quarter_of_the_data():
    for n_samples in (5, 20, 25, 26, 60):
        client = client_of((n_samples, 100))
        assert client.row_products.shape == (n_samples, n_samples)
        kept = client.__dict__.get("_kept_row_products", np.empty(0)).nbytes
        assert kept == (client.row_products.nbytes if 4 * n_samples <= 100 else 0) <= client.features.nbytes / 4
