"""The rivals against hand-computed first rounds and against special cases with another name."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import fgmp

METHODS = {
    "FedAvg": lambda **o: fgmp.FedAvg(**o),
    "FedHT": lambda **o: fgmp.FedHT(sparsity=3, **o),
    "FedIterHT": lambda **o: fgmp.FedIterHT(sparsity=3, **o),
    "FedMid": lambda **o: fgmp.FedMid(l1_weight=0.05, **o),
    "FedDualAvg": lambda **o: fgmp.FedDualAvg(l1_weight=0.05, **o),
    "FastFedDualAvg": lambda **o: fgmp.FastFedDualAvg(l1_weight=0.05, strong_convexity=0.3, **o),
}
ETA, K, LAM, ETA_S = 0.05, 3, 0.05, 0.7


@pytest.fixture(scope="module")
def fed():
    fed = fgmp.make_sparse_regression(4, 20, 12, 3, heterogeneity=0.2, noise_variance=0.01, rng=0)
    return fgmp.Federation.of(fed.clients, [0.1, 0.2, 0.3, 0.4])


def run(method, fed, rounds):
    return fgmp.simulate(method, fed, rounds, history=fgmp.History(every=rounds)).x


def gradient(client, w, rows=slice(None)):
    A, y = client.features[rows], client.targets[rows]
    return A.T @ (A @ w - y) / len(y)


def soft(v, t):
    return np.where(v > t, v - t, np.where(v < -t, v + t, 0.0))


def hard(v, count):
    kept = np.argsort(-np.abs(v), kind="stable")[:count]
    out = np.zeros_like(v)
    out[kept] = v[kept]
    return out


def by_hand(fed, rounds, local, server):
    """A method with a primal model: local(w, g) -> w at the clients, server(w, mean of ends) -> w."""
    w = np.zeros(fed.n_features)
    for _ in range(rounds):
        ends = []
        for client in fed.clients:
            v = w
            for _ in range(K):
                v = local(v, gradient(client, v))
            ends.append(v)
        w = server(w, np.average(ends, axis=0, weights=fed.weights))
    return w


BY_HAND = {
    "FedAvg": (lambda v, g: v - ETA * g, lambda w, m: w + ETA_S * (m - w)),
    "FedHT": (lambda v, g: v - ETA * g, lambda w, m: hard(m, 3)),
    "FedIterHT": (lambda v, g: hard(v - ETA * g, 3), lambda w, m: hard(m, 3)),
    "FedMid": (
        lambda v, g: soft(v - ETA * g, ETA * LAM),
        lambda w, m: soft(w + ETA_S * (m - w), ETA_S * ETA * K * LAM),
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_first_rounds_are_those_worked_out_by_hand(fed, name):
    options = {"server_learning_rate": ETA_S} if name in ("FedAvg", "FedMid") else {}
    method = METHODS[name](learning_rate=ETA, local_iterations=K, **options)
    for rounds in (1, 2, 3):
        np.testing.assert_allclose(run(method, fed, rounds), by_hand(fed, rounds, *BY_HAND[name]), atol=1e-13)


def test_dual_averaging_is_that_worked_out_by_hand(fed):
    z, length = np.zeros(fed.n_features), ETA_S * ETA * K
    method = fgmp.FedDualAvg(learning_rate=ETA, local_iterations=K, l1_weight=LAM, server_learning_rate=ETA_S)
    for r in range(3):
        ends = []
        for client in fed.clients:
            v = z
            for k in range(K):
                v = v - ETA * gradient(client, soft(v, LAM * (length * r + ETA * k)))
            ends.append(v)
        z = z + ETA_S * (np.average(ends, axis=0, weights=fed.weights) - z)
        np.testing.assert_allclose(run(method, fed, r + 1), soft(z, LAM * length * (r + 1)), atol=1e-13)


def test_fast_dual_averaging_is_that_worked_out_by_hand(fed):
    """Every model minimises the sum of what each gradient says of f, strongly convex with mu/2; here by coordinates."""
    mu, gamma = 0.3, 1 / ETA

    def minimiser(seen):
        """Of sum_s [<g_s, x> + (mu/4) ||x - w_s||^2 + lambda ||x||_1] + (gamma/2) ||x||^2: where its slope is zero."""
        slope = sum(g - mu / 2 * w for g, w in seen)
        return soft(-slope, LAM * len(seen)) / (mu / 2 * len(seen) + gamma)

    pooled, w = [], np.zeros(fed.n_features)
    for r in range(1, 4):
        ends = []
        for client in fed.clients:
            seen, wi = list(pooled), w
            for _ in range(K):
                seen.append((gradient(client, wi), wi))
                wi = minimiser(seen)
            ends.append(seen[-K:])
        mean = np.average(ends, axis=0, weights=fed.weights)
        pooled += [(g, point) for g, point in mean]
        w = minimiser(pooled)
        method = METHODS["FastFedDualAvg"](learning_rate=ETA, local_iterations=K)
        np.testing.assert_allclose(run(method, fed, r), w, atol=1e-13)


def test_no_penalty_makes_mirror_descent_and_dual_averaging_fedavg(fed):
    options = {"learning_rate": ETA, "local_iterations": K}
    expected = run(fgmp.FedAvg(server_learning_rate=ETA_S, **options), fed, 4)
    for method in (fgmp.FedMid, fgmp.FedDualAvg):
        x = run(method(l1_weight=0, server_learning_rate=ETA_S, **options), fed, 4)
        np.testing.assert_allclose(x, expected, atol=1e-13)
    fast = fgmp.FastFedDualAvg(l1_weight=0, **options)
    np.testing.assert_allclose(run(fast, fed, 4), run(fgmp.FedAvg(**options), fed, 4), atol=1e-13)


def test_fast_dual_averaging_without_strong_convexity_is_dual_averaging(fed):
    options = {"learning_rate": ETA, "local_iterations": K, "l1_weight": LAM}
    np.testing.assert_allclose(run(fgmp.FastFedDualAvg(**options), fed, 4), run(fgmp.FedDualAvg(**options), fed, 4))


def test_all_entries_kept_makes_hard_thresholding_fedavg(fed):
    options = {"learning_rate": ETA, "local_iterations": K}
    expected = run(fgmp.FedAvg(**options), fed, 4)
    for method in (fgmp.FedHT, fgmp.FedIterHT):
        np.testing.assert_allclose(run(method(sparsity=12, **options), fed, 4), expected, atol=1e-13)


def test_one_local_step_is_distributed_iterative_hard_thresholding(fed):
    w = np.zeros(12)
    for _ in range(5):
        w = hard(w - ETA * sum(p * gradient(c, w) for p, c in zip(fed.weights, fed.clients, strict=True)), 3)
    np.testing.assert_allclose(run(fgmp.FedHT(sparsity=3, learning_rate=ETA), fed, 5), w, atol=1e-13)


def test_one_client_and_one_step_is_proximal_gradient_descent_to_the_lasso():

    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((40, 8)), np.array([1.0, 0, 0, -2, 0, 0, 0.5, 0])
    y = A @ x + 0.1 * rng.standard_normal(40)
    alone = fgmp.Federation.from_arrays([A], [y])
    lasso = Lasso(alpha=LAM, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(A, y).coef_
    rate = 1 / np.linalg.eigvalsh(A.T @ A / 40)[-1]
    # FedMid thresholds at client and server, so that one client with lambda/2 is one proximal step with lambda.
    mid = fgmp.FedMid(learning_rate=rate, l1_weight=LAM / 2)
    np.testing.assert_allclose(run(mid, alone, 1), soft(rate * A.T @ y / 40, rate * LAM), atol=1e-12)
    np.testing.assert_allclose(run(mid, alone, 3000), lasso, atol=1e-8)
    ols = np.linalg.lstsq(A, y, rcond=None)[0]
    np.testing.assert_allclose(run(fgmp.FedAvg(learning_rate=rate), alone, 3000), ols, atol=1e-8)
    dual = run(fgmp.FedDualAvg(learning_rate=rate, l1_weight=LAM), alone, 20_000)
    np.testing.assert_allclose(dual, lasso, atol=1e-3)


@pytest.mark.parametrize("name", METHODS)
def test_unthresholded_positions_are_never_cut(name):
    """A bias column so faint that its gradient, about 0.03, stays below lambda."""
    rng = np.random.default_rng(0)
    A = np.column_stack([0.01 * np.ones(30), rng.standard_normal((30, 9))])
    alone = fgmp.Federation.from_arrays([A], [rng.standard_normal(30) + 3])
    options = {"learning_rate": 0.01, "local_iterations": 2}
    assert run(METHODS[name](**options, selection=fgmp.PerOutput(always=(0,))), alone, 3)[0] != 0
    if name != "FedAvg":
        assert run(METHODS[name](**options), alone, 3)[0] == 0


@pytest.mark.parametrize("name", METHODS)
def test_methods_work_in_a_dictionary(fed, name):
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 12)))[0]
    rotated = fgmp.Federation.from_arrays(
        [c.features @ Q.T for c in fed.clients], [c.targets for c in fed.clients], weights=fed.weights
    )
    options = {"learning_rate": ETA, "local_iterations": K}
    inside = run(METHODS[name](**options, dictionary=fgmp.Dictionary(Q)), rotated, 3)
    np.testing.assert_allclose(inside, Q @ run(METHODS[name](**options), fed, 3), atol=1e-10)


def test_a_method_with_another_step_takes_it(fed):
    """No compiled twin serves a step that it does not know, in subclasses of subclasses either."""

    @dataclass(frozen=True, kw_only=True)
    class Frozen(fgmp.FedIterHT):
        def thresholded(self, w):
            return 0 * w

    @dataclass(frozen=True, kw_only=True)
    class Strict(fgmp.FedDualAvg):
        def thresholds(self, rounds):
            return [2 * threshold for threshold in super().thresholds(rounds)]

    assert not run(Frozen(sparsity=3, learning_rate=ETA), fed, 2).any()
    strict, double = (
        fgmp.simulate(kind(l1_weight=weight, learning_rate=ETA, local_iterations=3), fed, 3, rng=0).state.z
        for kind, weight in ((Strict, LAM), (fgmp.FedDualAvg, 2 * LAM))
    )
    np.testing.assert_allclose(strict, double, atol=1e-14)


def answer(method, client, message, seed=3):
    (exchange,) = method.exchanges()
    return exchange.answer(client, message, np.random.default_rng(seed))


@pytest.mark.parametrize("batch_size", [5, 19])
def test_fast_dual_averaging_takes_the_rows_of_its_minibatches(fed, batch_size):
    client, mu, K = fed.clients[2], 0.3, 3
    method = fgmp.FastFedDualAvg(
        learning_rate=ETA, local_iterations=K, batch_size=batch_size, l1_weight=LAM, strong_convexity=mu
    )
    rng = np.random.default_rng(1)
    G, X, w = rng.standard_normal((3, 12))
    found = answer(method, client, (G, X, w, 2))
    for k, rows in enumerate(client.minibatches(np.random.default_rng(3), batch_size, K)):
        t = 2 * K + k + 1
        G, X = G + gradient(client, w, rows), X + w
        a, b = (G - mu / 2 * X) / t, mu / 2 + 1 / (ETA * t)
        w = -np.sign(a) * np.maximum(np.abs(a) - LAM, 0) / b
    np.testing.assert_allclose(found, [G, X], atol=1e-12)


RIVALS_ALL = {
    "FedIterHT": lambda **o: fgmp.FedIterHT(sparsity=3, **o),
    "FedMid": lambda **o: fgmp.FedMid(l1_weight=0.5, **o),
    "FedDualAvg": lambda **o: fgmp.FedDualAvg(l1_weight=0.5, **o),
    "FastFedDualAvg": lambda **o: fgmp.FastFedDualAvg(l1_weight=0.5, **o),
}


@pytest.mark.parametrize("name", RIVALS_ALL)
@pytest.mark.parametrize("several", [False, True])
def test_clients_spare_what_always_stays(name, several, fed):
    """The bias is small enough to be cut at the clients, and is not where it always stays."""
    rng, ends = np.random.default_rng(0), []
    classes = [rng.integers(0, 3, 20) for _ in fed.clients]
    As = [client.features for client in fed.clients]
    federation = fgmp.Federation.from_arrays(As, classes, fgmp.SoftmaxLoss(3)) if several else fed
    w = np.random.default_rng(1).standard_normal(federation.model_shape)
    w[0] = 0.01
    for always in ((), (0,)):
        method = RIVALS_ALL[name](learning_rate=ETA, local_iterations=3, selection=fgmp.PerOutput(always))
        message = {"FedDualAvg": (w, 2), "FastFedDualAvg": (w, w, w, 2)}.get(name, w)
        ends.append(answer(method, federation.clients[1], message))
    assert np.abs(ends[0] - ends[1]).max() > 1e-4
