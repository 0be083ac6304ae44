"""The rivals against hand-computed first rounds and against special cases with another name."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import fgmp
from fgmp.rounds import Streams

pytestmark = pytest.mark.usefixtures("backend")

METHODS = {
    "FedAvg": lambda **o: fgmp.FedAvg(**o),
    "FedHT": lambda **o: fgmp.FedHT(sparsity=3, **o),
    "FedIterHT": lambda **o: fgmp.FedIterHT(sparsity=3, **o),
    "FedMid": lambda **o: fgmp.FedMid(l1_weight=0.05, **o),
    "FedDualAvg": lambda **o: fgmp.FedDualAvg(l1_weight=0.05, **o),
    "FastFedDualAvg": lambda **o: fgmp.FastFedDualAvg(l1_weight=0.05, strong_convexity=0.3, **o),
}
ETA, K, LAM, ETA_S = 0.05, 3, 0.05, 0.7
STEPS = {"learning_rate": ETA, "local_iterations": K}
SERVER = {"server_learning_rate": ETA_S, **STEPS}


@pytest.fixture(scope="module")
def fed():
    fed = fgmp.make_sparse_regression(4, 20, 12, 3, heterogeneity=0.2, noise_variance=0.01, rng=0)
    return fgmp.Federation.from_clients(fed.clients, [0.1, 0.2, 0.3, 0.4])


def run(method, fed, rounds):
    return fgmp.simulate(method, fed, rounds, rng=0, history=fgmp.History(every=rounds)).x


def gradient(client, w, rows=None):
    A, y = (part if rows is None else part[rows] for part in (client.features, client.targets))
    return A.T @ (A @ w - y) / len(y)


def soft(v, t):
    return np.where(v > t, v - t, np.where(v < -t, v + t, 0.0))


def hard(v, count):
    kept = np.argsort(-np.abs(v), kind="stable")[:count]
    return np.where(np.isin(np.arange(len(v)), kept), v, 0.0)


BY_HAND = [
    (fgmp.FedAvg(**SERVER), lambda v, g: v - ETA * g, lambda w, m: w + ETA_S * (m - w)),
    (fgmp.FedHT(sparsity=3, **STEPS), lambda v, g: v - ETA * g, lambda w, m: hard(m, 3)),
    (
        fgmp.FedIterHT(sparsity=3, **STEPS),
        lambda v, g: hard(v - ETA * g, 3),
        lambda w, m: hard(m, 3),
    ),
    (
        fgmp.FedMid(l1_weight=LAM, **SERVER),
        lambda v, g: soft(v - ETA * g, ETA * LAM),
        lambda w, m: soft(w + ETA_S * (m - w), ETA_S * ETA * K * LAM),
    ),
]


@pytest.mark.parametrize(
    "method, local, server", BY_HAND, ids=["FedAvg", "FedHT", "FedIterHT", "FedMid"]
)
def test_first_rounds_are_those_worked_out_by_hand(fed, method, local, server):
    """local(w, g) -> w at the clients, server(w, mean of ends) -> w."""
    w = np.zeros(fed.n_features)
    for rounds in (1, 2, 3):
        ends = [w] * fed.n_clients
        for _ in range(K):
            ends = [
                local(v, gradient(client, v)) for v, client in zip(ends, fed.clients, strict=True)
            ]
        w = server(w, np.average(ends, axis=0, weights=fed.weights))
        np.testing.assert_allclose(run(method, fed, rounds), w, atol=1e-13)


@pytest.mark.parametrize("always_include", [(), (0, 5)])
def test_dual_averaging_is_that_worked_out_by_hand(fed, always_include):
    z, length = np.zeros(fed.n_features), ETA_S * ETA * K
    method = fgmp.FedDualAvg(l1_weight=10 * LAM, selection=fgmp.PerOutput(always_include), **SERVER)

    def cut(v, t):
        return np.where(np.isin(np.arange(12), always_include), v, soft(v, t))

    for r in range(3):
        ends = []
        for client in fed.clients:
            v = z
            for k in range(K):
                v = v - ETA * gradient(client, cut(v, 10 * LAM * (length * r + ETA * k)))
            ends.append(v)
        z = z + ETA_S * (np.average(ends, axis=0, weights=fed.weights) - z)
        np.testing.assert_allclose(
            run(method, fed, r + 1), cut(z, 10 * LAM * length * (r + 1)), atol=1e-13
        )


@pytest.mark.parametrize("batch_size", [None, 5, 19])
def test_fast_dual_averaging_is_that_worked_out_by_hand(fed, batch_size):
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
            seen, wi, rng = list(pooled), w, Streams(0).of(Streams.CLIENT, r, 0, client.client_id)
            for rows in client.minibatches(rng, batch_size, K):
                seen.append((gradient(client, wi, rows), wi))
                wi = minimiser(seen)
            ends.append(seen[-K:])
        mean = np.average(ends, axis=0, weights=fed.weights)
        pooled += [(g, point) for g, point in mean]
        w = minimiser(pooled)
        method = METHODS["FastFedDualAvg"](batch_size=batch_size, **STEPS)
        np.testing.assert_allclose(run(method, fed, r), w, atol=1e-13)


SAME = [
    (fgmp.FedDualAvg(l1_weight=0, **SERVER), fgmp.FedAvg(**SERVER)),
    (fgmp.FastFedDualAvg(l1_weight=LAM, **STEPS), fgmp.FedDualAvg(l1_weight=LAM, **STEPS)),
    (fgmp.FedIterHT(sparsity=12, **STEPS), fgmp.FedAvg(**STEPS)),
]


@pytest.mark.parametrize("one, other", SAME, ids=lambda method: type(method).__name__)
def test_special_cases_that_have_another_name(one, other, fed):
    np.testing.assert_allclose(run(one, fed, 4), run(other, fed, 4), atol=1e-13)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", [*METHODS, "FedGradMP"])
def test_a_rotation_as_dictionary_is_rotated_data(fed, name, several):
    """And what always stays is spared in either: an atom so faint that nothing else would choose it."""
    Q, loss, ys = (
        np.linalg.qr(np.random.default_rng(1).standard_normal((12, 12)))[0],
        "squared",
        fed.targets,
    )
    As = [client.features * ([0.01] + [1] * 11) for client in fed.clients]
    if several:
        loss, ys = fgmp.SoftmaxLoss(3), np.random.default_rng(0).integers(0, 3, ys.shape)
    plain, rotated = (
        fgmp.Federation.from_arrays(those, np.split(ys, 4), loss)
        for those in (As, [A @ Q.T for A in As])
    )
    make = METHODS.get(
        name, lambda **o: fgmp.FedGradMP(3, batch_size=15, solver=fgmp.SGD(0.1, 2, 10), **o)
    )
    ends, options = [], {} if name == "FedGradMP" else STEPS
    for always_include in ((), (0,)):
        options = options | {"selection": fgmp.PerOutput(always_include)}
        ends.append(run(make(**options), plain, 3))
        inside = run(make(**options, dictionary=fgmp.Dictionary(Q)), rotated, 3)
        np.testing.assert_allclose(inside, Q @ ends[-1], atol=1e-10)
    assert ends[1][0].all() and (name == "FedAvg" or not ends[0][0].any())


def test_one_client_and_one_step_go_to_the_lasso():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((40, 8)), np.array([1.0, 0, 0, -2, 0, 0, 0.5, 0])
    y = A @ x + 0.1 * rng.standard_normal(40)
    alone = fgmp.Federation.from_arrays([A], [y])
    lasso = Lasso(alpha=LAM, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(A, y).coef_
    rate = 1 / np.linalg.eigvalsh(A.T @ A / 40)[-1]
    # FedMid thresholds at client and server, so that one client with lambda/2 is one proximal step with lambda.
    mid = fgmp.FedMid(learning_rate=rate, l1_weight=LAM / 2)
    np.testing.assert_allclose(run(mid, alone, 3000), lasso, atol=1e-8)
    dual = run(fgmp.FedDualAvg(learning_rate=rate, l1_weight=LAM), alone, 20_000)
    np.testing.assert_allclose(dual, lasso, atol=1e-3)


@pytest.mark.parametrize("rate", [0.5, 5, 1.0000001])
def test_fast_dual_averaging_has_one_learning_rate_of_the_server(rate):
    with pytest.raises(
        ValueError, match=r"^server_learning_rate is .*; expected 1: the server takes the mean"
    ):
        fgmp.FastFedDualAvg(l1_weight=0.1, learning_rate=0.1, server_learning_rate=rate)
    fgmp.FastFedDualAvg(l1_weight=0.1, learning_rate=0.1, server_learning_rate=1)
