"""The methods where their mutants went unnoticed: against loops written out, and messages counted by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

import fgmp
from fgmp.methods.baselines import FirstOrderMethod
from fgmp.methods.contract import Reply
from fgmp.models import decode

ETA, LAM = 0.05, 0.05


def alone(features, targets, loss="squared"):
    return fgmp.Federation.from_arrays([features], [targets], loss)


def answer(method, client, message, seed=3):
    (exchange,) = method.exchanges()
    return exchange.answer(client, message, np.random.default_rng(seed))


def gradient(client, w, rows=slice(None)):
    A, y = client.features[rows], client.targets[rows]
    return A.T @ (A @ w - y) / len(y)


@pytest.fixture(scope="module")
def fed():
    made = fgmp.make_sparse_regression(4, 20, 12, 3, heterogeneity=0.2, noise_variance=0.01, rng=0)
    return fgmp.Federation(made.clients, np.array([0.1, 0.2, 0.3, 0.4]), made.truth)


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((15, 12)) for _ in range(2)]
    return fgmp.Federation.from_arrays(As, [rng.integers(0, 3, 15) for _ in As], fgmp.SoftmaxLoss(3))


RIVALS = {
    "FedHT": lambda **o: fgmp.FedHT(learning_rate=ETA, **o),
    "FedIterHT": lambda **o: fgmp.FedIterHT(learning_rate=ETA, **o),
    "FedGradMP": lambda **o: fgmp.FedGradMP(solver=fgmp.SGD(1, learning_rate=ETA), **o),
}


@pytest.mark.parametrize("name", RIVALS)
def test_a_sparsity_of_all_outputs_may_be_larger_than_the_features(name, classes):
    result = fgmp.simulate(RIVALS[name](sparsity=20, selection=fgmp.Overall()), classes, 2, rng=0)
    assert np.count_nonzero(result.x) == 20
    with pytest.raises(ValueError, match=r"sparsity is 37; expected an integer from 1 to 36 \(the number of coeff"):
        fgmp.simulate(RIVALS[name](sparsity=37, selection=fgmp.Overall()), classes, 1, rng=0)
    with pytest.raises(ValueError, match=r"sparsity is 20; expected an integer from 1 to 12 \(the number of atoms"):
        fgmp.simulate(RIVALS[name](sparsity=20), classes, 1, rng=0)


V = np.array([[0.1, -9.0], [0.3, 0.2], [-0.2, 0.5], [0.0, -0.6]])


@pytest.mark.parametrize(
    "options, kept",
    [
        ({"sparsity": 1}, [(1, 0), (0, 1)]),
        ({"sparsity": 2}, [(1, 0), (2, 0), (0, 1), (3, 1)]),
        ({"sparsity": 1, "selection": fgmp.Overall()}, [(0, 1)]),
        ({"sparsity": 3, "selection": fgmp.Overall()}, [(0, 1), (3, 1), (2, 1)]),
        ({"sparsity": 1, "selection": fgmp.PerOutput((0,))}, [(0, 0), (0, 1), (1, 0), (3, 1)]),
        ({"sparsity": 2, "selection": fgmp.Overall((0,))}, [(0, 0), (0, 1), (2, 1), (3, 1)]),
        ({"sparsity": 2, "selection": fgmp.Overall((0, 3))}, [(0, 0), (0, 1), (3, 0), (3, 1), (1, 0), (2, 1)]),
    ],
)
def test_the_largest_entries_of_a_matrix_by_hand(options, kept):
    """Of each column, or of all; what no threshold touches stays and does not count."""
    expected = np.zeros_like(V)
    for place in kept:
        expected[place] = V[place]
    method = fgmp.FedHT(learning_rate=1.0, **options)
    np.testing.assert_array_equal(method.combine(0 * V, [Reply(1.0, {"dense": V})]), expected)
    if type(method.selection) is fgmp.PerOutput:
        for column in range(2):
            alone = method.combine(0 * V[:, column], [Reply(1.0, {"dense": V[:, column]})])
            np.testing.assert_array_equal(alone, expected[:, column])


RIVALS_ALL = {
    "FedIterHT": lambda **o: fgmp.FedIterHT(sparsity=3, **o),
    "FedMid": lambda **o: fgmp.FedMid(l1_weight=0.5, **o),
    "FedDualAvg": lambda **o: fgmp.FedDualAvg(l1_weight=0.5, **o),
    "FastFedDualAvg": lambda **o: fgmp.FastFedDualAvg(l1_weight=0.5, **o),
}


@pytest.mark.parametrize("name", RIVALS_ALL)
@pytest.mark.parametrize("several", [False, True])
def test_clients_spare_what_always_stays(name, several, fed, classes):
    """The bias is small enough to be cut at the clients, and is not where it always stays."""
    federation, ends = classes if several else fed, []
    w = np.random.default_rng(1).standard_normal(federation.model_shape)
    w[0] = 0.01
    for always in ((), (0,)):
        method = RIVALS_ALL[name](learning_rate=ETA, local_iterations=3, selection=fgmp.PerOutput(always))
        message = {"dense": w, "round": np.array([2], np.int32)}
        if name == "FastFedDualAvg":
            message = {"gradients.dense": w, "iterates.dense": w, "model.dense": w, "round": message["round"]}
        answered = answer(method, federation.clients[1], message)
        prefix = "gradients." if name == "FastFedDualAvg" else ""
        found = {key.removeprefix(prefix): value for key, value in answered.items() if key.startswith(prefix)}
        ends.append(decode(found, federation.model_shape))
    assert np.abs(ends[0] - ends[1]).max() > 1e-4


def test_a_first_order_method_alone_is_plain_averaging(fed):
    """Also where the ends travel as indices and values: four features in twelve are not blank."""
    blank = np.arange(12) % 3 == 0
    As, ys = [client.features * blank for client in fed.clients], [client.targets for client in fed.clients]
    sparse = fgmp.Federation.from_arrays(As, ys, weights=fed.weights)
    method = FirstOrderMethod(learning_rate=ETA, local_iterations=2)
    w = np.zeros(12)
    for _ in range(3):
        ends = []
        for client in sparse.clients:
            v = w - ETA * gradient(client, w)
            ends.append(v - ETA * gradient(client, v))
        w = np.average(ends, axis=0, weights=fed.weights)
    result = fgmp.simulate(method, sparse, 3, rng=0)
    np.testing.assert_allclose(result.x, w, atol=1e-14)
    assert result.history["bytes_up"][-1] == 3 * 4 * 4 * 12
    dual = fgmp.FedDualAvg(learning_rate=ETA, local_iterations=2, l1_weight=0.0)
    np.testing.assert_allclose(fgmp.simulate(dual, sparse, 3, rng=0).x, w, atol=1e-14)


def test_a_number_of_the_round_travels_in_four_bytes(fed):
    """z, or G, X and w, have 12 entries of 8 bytes; what is zero, as X is for two rounds, travels for nothing."""
    options = {"learning_rate": ETA, "l1_weight": 0.0}
    plain = fgmp.simulate(fgmp.FedDualAvg(**options), fed, 3, rng=0).history
    fast = fgmp.simulate(fgmp.FastFedDualAvg(**options), fed, 3, rng=0).history
    np.testing.assert_array_equal(plain["bytes_down"], 4 * np.array([0, 4, 104, 204]))
    np.testing.assert_array_equal(plain["bytes_up"], 4 * 96 * np.arange(4))
    np.testing.assert_array_equal(fast["bytes_down"], 4 * np.array([0, 4, 200, 492]))
    np.testing.assert_array_equal(fast["bytes_up"], 4 * 96 * np.array([0, 1, 3, 5]))


@pytest.mark.parametrize("batch_size", [5, 19])
def test_fast_dual_averaging_takes_the_rows_of_its_minibatches(fed, batch_size):
    client, mu, K = fed.clients[2], 0.3, 3
    method = fgmp.FastFedDualAvg(
        learning_rate=ETA, local_iterations=K, batch_size=batch_size, l1_weight=LAM, strong_convexity=mu
    )
    rng = np.random.default_rng(1)
    G, X, w = rng.standard_normal((3, 12))
    message = {"gradients.dense": G, "iterates.dense": X, "model.dense": w, "round": np.array([2], np.int32)}
    found = answer(method, client, message)
    for k, rows in enumerate(client.minibatches(np.random.default_rng(3), batch_size, K)):
        t = 2 * K + k + 1
        G, X = G + gradient(client, w, rows), X + w
        a, b = (G - mu / 2 * X) / t, mu / 2 + 1 / (ETA * t)
        w = -np.sign(a) * np.maximum(np.abs(a) - LAM, 0) / b
    np.testing.assert_allclose(found["gradients.dense"], G, atol=1e-12)
    np.testing.assert_allclose(found["iterates.dense"], X, atol=1e-12)


@pytest.mark.parametrize("method", [fgmp.FedAvg, fgmp.FedDualAvg])
def test_a_method_with_another_step_draws_its_minibatches(fed, method):
    @dataclass(frozen=True, kw_only=True)
    class Slow(method):
        def step(self, w, gradient):
            return super().step(w, gradient / 2)

    options = {"batch_size": 7, "local_iterations": 3} | ({"l1_weight": 0.0} if method is fgmp.FedDualAvg else {})
    slow = fgmp.simulate(Slow(learning_rate=ETA, **options), fed, 2, rng=5).x
    half = fgmp.simulate(method(learning_rate=ETA / 2, **options), fed, 2, rng=5).x
    np.testing.assert_allclose(slow, half, atol=1e-14)


def test_what_fast_dual_averaging_refuses():
    with pytest.raises(ValueError, match="l1_weight is -1; expected a finite number at least 0"):
        fgmp.FastFedDualAvg(learning_rate=1, l1_weight=-1)
    method = fgmp.FastFedDualAvg(learning_rate=1, l1_weight=0)
    state = method.start(alone(np.eye(3), np.ones(3)))
    good = {"gradients.dense": np.zeros(3), "iterates.dense": np.zeros(3)}
    method.check_answer(state, good)
    with pytest.raises(
        ValueError, match=r"message holds \['gradients.dense', 'iterates.dense', 'more'\]; expected gra"
    ):
        method.check_answer(state, good | {"more": np.zeros(3)})


def test_the_last_atom_may_be_spared_and_no_other_beyond(fed):
    options = {"learning_rate": ETA, "l1_weight": 100.0}
    always = fgmp.PerOutput([np.int8(11)])
    assert always.always == (11,) and type(always.always[0]) is int
    spared = fgmp.FedMid(selection=always, **options)
    np.testing.assert_array_equal(np.flatnonzero(fgmp.simulate(spared, fed, 1, rng=0).x), [11])
    with pytest.raises(ValueError, match=r"^always is 12; expected an integer from 0 to 11 \(the last atom\)"):
        fgmp.simulate(fgmp.FedMid(selection=fgmp.PerOutput((0, 12)), **options), fed, 1, rng=0)
    with pytest.raises(ValueError, match="^always is -1; expected an integer of at least 0"):
        fgmp.PerOutput((-1,))


SHARED = {"solver": fgmp.LocalSteps(fgmp.SGD(1, learning_rate=ETA))}


@pytest.mark.parametrize(
    "method, most",
    [
        (fgmp.FedGradMP(2), 2),
        (fgmp.FedGradMP(2, selection=fgmp.Overall()), 2),
        (fgmp.SharedSupportGradMP(2, fgmp.LargestEntries(), **SHARED), 8),
        (fgmp.SharedSupportGradMP(2, fgmp.LargestEntries(3), **SHARED), 3),
        (fgmp.SharedSupportGradMP(2, fgmp.LargestEntries(3), selection=fgmp.Overall(), **SHARED), 3),
    ],
)
def test_a_client_may_answer_with_so_many_entries_and_no_more(method, most, classes):
    """Of each of the three outputs, or of all where the method says so."""
    exchange, state = method.exchanges()[0], method.start(classes)

    def message(count, per_output):
        support = np.arange(3 * count) if per_output else 3 * np.arange(count)
        return {"support": support.astype(np.int32), "values": np.ones(len(support))}

    exchange.check(state, message(most, per_output=not isinstance(method.selection, fgmp.Overall)))
    with pytest.raises(ValueError, match="entries that count; expected at most"):
        exchange.check(state, message(most + 1, per_output=False))
    if isinstance(method.selection, fgmp.Overall):
        with pytest.raises(ValueError, match="entries that count; expected at most"):
            exchange.check(state, message(most, per_output=True))


@pytest.mark.parametrize(
    "method", [fgmp.FedAvg(learning_rate=ETA), fgmp.FastFedDualAvg(learning_rate=ETA, l1_weight=0)]
)
def test_the_exchange_of_a_rival_refuses_a_model_of_another_shape(method, fed):
    (exchange,) = method.exchanges()
    state = method.start(fed)
    good = answer(method, fed.clients[0], exchange.broadcast(state))
    exchange.check(state, good)
    with pytest.raises(ValueError, match=r"dense has shape \(11,\)"):
        exchange.check(state, {name: array[:11] for name, array in good.items()})


@pytest.mark.parametrize(
    "method, expected",
    [
        (fgmp.FedGradMP(2), {"local_iterations": 3, "batch_size": None, "radius": None, "selection": fgmp.PerOutput()}),
        (
            fgmp.SharedSupportGradMP(2),
            {"identify": fgmp.CountSketch(3), "pruning": "elimination", "radius": None, "selection": fgmp.PerOutput()},
        ),
        (fgmp.FedAvg(learning_rate=1), {"local_iterations": 1, "batch_size": None, "selection": fgmp.PerOutput()}),
        (fgmp.FedAvg(learning_rate=1), {"server_learning_rate": 1.0}),
        (fgmp.FastFedDualAvg(learning_rate=1, l1_weight=0), {"strong_convexity": 0.0}),
    ],
)
def test_defaults_are_those_of_the_documentation(method, expected):
    assert {name: getattr(method, name) for name in expected} == expected


class Interrupted:
    """A shared support whose clients find the support, and then fall `silent`."""

    def __init__(self, method, silent):
        self.method, self.silent = method, silent

    def __getattr__(self, name):
        return getattr(self.method, name)

    def exchanges(self):
        find, solve = self.method.exchanges()
        return find, solve._replace(answer=lambda *_: {"nothing": np.array([np.nan])}) if self.silent else solve


def test_a_round_that_ends_after_its_first_exchange_leaves_the_model(fed):
    method = fgmp.SharedSupportGradMP(3)
    result = fgmp.simulate(Interrupted(method, silent=True), fed, 2, rng=0)
    np.testing.assert_array_equal(result.x, np.zeros(12))
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0])
    np.testing.assert_array_equal(result.history["objective"], np.full(3, fed.objective(np.zeros(12))))
    whole = fgmp.simulate(Interrupted(method, silent=False), fed, 2, rng=0)
    np.testing.assert_array_equal(whole.x, fgmp.simulate(method, fed, 2, rng=0).x)


@pytest.mark.parametrize("index", [0, 1])
def test_both_exchanges_of_a_shared_support_check_what_comes(fed, index):
    """The second one asks for sums over the merged support: one row of a matrix less is not what was asked for."""
    method = fgmp.SharedSupportGradMP(3)
    state = method.start(fed)
    for number, exchange in enumerate(method.exchanges()):
        message = exchange.broadcast(state)
        good = exchange.answer(fed.clients[0], message, np.random.default_rng(0))
        exchange.check(state, good)
        if number == index:
            with pytest.raises(ValueError, match="expected"):
                exchange.check(state, {name: array[:-1] for name, array in list(good.items())[:1]})
            for name in good:
                with pytest.raises(ValueError, match="expected"):
                    exchange.check(state, good | {name: good[name][:-1]})
        state = exchange.combine(state, [Reply(1.0, good)])
    assert len(state.model.support) == 3
