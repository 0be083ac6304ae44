"""The baselines: first rounds by hand, and special cases that have another name."""

import numpy as np
import pytest
from cases import METHODS, weighted_regression
from sklearn.linear_model import Lasso

import fgmp
from fgmp.method import Streams

pytestmark = pytest.mark.usefixtures("backend")

ETA = 0.05  # learning rate of the clients
K = 3  # local iterations
LAM = 0.05  # weight of the l1 norm
ETA_S = 0.7  # learning rate of the server
MU = 0.3  # strong convexity
STEPS = {"learning_rate": ETA, "local_iterations": K, "batch_size": None}
SERVER = {"server_learning_rate": ETA_S, **STEPS}

OPTIONS = {
    "FedGradMP": {"batch_size": 15, "solver": fgmp.SGD(0.1, 2, 10)},
    "FedAvg": STEPS,
    "FedHT": STEPS,
    "FedIterHT": STEPS,
    "FedMid": STEPS | {"l1_weight": LAM},
    "FedDualAvg": STEPS | {"l1_weight": LAM},
    "FastFedDualAvg": STEPS | {"l1_weight": LAM, "strong_convexity": MU},
}


@pytest.fixture(scope="module")
def fed():
    """Four clients with weights of their own."""
    return weighted_regression()


def run(method, fed, rounds):
    return fgmp.simulate(method, fed, rounds, rng=0, history=fgmp.History(every=rounds)).x


def gradient(client, w, rows=None):
    A = client.features if rows is None else client.features[rows]
    y = client.targets if rows is None else client.targets[rows]
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
def test_first_rounds_are_those_by_hand(fed, method, local, server):
    """The clients do local(w, g), and the server does server(w, mean of their models)."""
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
def test_dual_averaging_has_models_worked_out_by_hand(fed, always_include):
    """Thresholds grow with the steps, and spare what is always included."""
    z = np.zeros(fed.n_features)
    length = ETA_S * ETA * K
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
def test_fast_dual_averaging_has_models_worked_out_by_hand(fed, batch_size):
    """Each model minimises the sum of the lower bounds of f that its gradients give.

    f is strongly convex with mu/2, so that the minimiser is found coordinate by coordinate.
    """
    gamma = 1 / ETA

    def minimiser(gradients):
        """Of sum_s [<g_s, x> + (mu/4) ||x - w_s||^2 + lambda ||x||_1] + (gamma/2) ||x||^2."""
        slope = sum(g - MU / 2 * w for g, w in gradients)
        return soft(-slope, LAM * len(gradients)) / (MU / 2 * len(gradients) + gamma)

    options = OPTIONS["FastFedDualAvg"] | {"batch_size": batch_size}
    method = METHODS["FastFedDualAvg"](**options)
    pooled = []
    w = np.zeros(fed.n_features)
    for r in range(1, 4):
        ends = []
        for client in fed.clients:
            gradients = list(pooled)
            local = w
            rng = Streams(0).of(Streams.CLIENT, r, 0, client.client_id)
            for rows in client.minibatches(rng, batch_size, K):
                gradients.append((gradient(client, local, rows), local))
                local = minimiser(gradients)
            ends.append(gradients[-K:])
        mean = np.average(ends, axis=0, weights=fed.weights)
        pooled += [(g, point) for g, point in mean]
        w = minimiser(pooled)
        np.testing.assert_allclose(run(method, fed, r), w, atol=1e-13)


SAME = [
    (fgmp.FedDualAvg(l1_weight=0, **SERVER), fgmp.FedAvg(**SERVER)),
    (fgmp.FastFedDualAvg(l1_weight=LAM, **STEPS), fgmp.FedDualAvg(l1_weight=LAM, **STEPS)),
    (fgmp.FedIterHT(sparsity=12, **STEPS), fgmp.FedAvg(**STEPS)),
]


@pytest.mark.parametrize("one, other", SAME, ids=lambda method: type(method).__name__)
def test_special_case_is_the_method_of_that_name(one, other, fed):
    """Options that make one method another give the same model."""
    np.testing.assert_allclose(run(one, fed, 4), run(other, fed, 4), atol=1e-13)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_rotation_as_dictionary_gives_run_on_rotated_data(fed, name, several):
    """The same holds with an atom that is always included, and too faint to be chosen otherwise."""
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 12)))[0]
    As = [client.features * ([0.01] + [1] * 11) for client in fed.clients]
    loss = "squared"
    ys = fed.targets
    if several:
        loss = fgmp.SoftmaxLoss(3)
        ys = np.random.default_rng(0).integers(0, 3, ys.shape)
    plain = fgmp.Federation.from_arrays(As, np.split(ys, 4), loss)
    rotated = fgmp.Federation.from_arrays([A @ Q.T for A in As], np.split(ys, 4), loss)

    models = []
    for always_include in ((), (0,)):
        options = OPTIONS[name] | {"selection": fgmp.PerOutput(always_include)}
        models.append(run(METHODS[name](**options), plain, 3))
        inside = run(METHODS[name](**options, dictionary=fgmp.Dictionary(Q)), rotated, 3)
        np.testing.assert_allclose(inside, Q @ models[-1], atol=1e-10)

    without, included = models
    assert included[0].all()
    assert name == "FedAvg" or not without[0].any()


def test_one_client_with_one_step_ends_at_the_lasso():
    """Proximal steps and dual averaging end at the minimiser of scikit-learn."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 8))
    x = np.array([1.0, 0, 0, -2, 0, 0, 0.5, 0])
    y = A @ x + 0.1 * rng.standard_normal(40)
    alone = fgmp.Federation.from_arrays([A], [y])
    lasso = Lasso(alpha=LAM, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(A, y).coef_
    rate = 1 / np.linalg.eigvalsh(A.T @ A / 40)[-1]
    # FedMid thresholds at client and server, so that one client with lambda/2 takes one proximal
    # step with lambda.
    mid = fgmp.FedMid(learning_rate=rate, l1_weight=LAM / 2)
    np.testing.assert_allclose(run(mid, alone, 3000), lasso, atol=1e-8)
    dual = run(fgmp.FedDualAvg(learning_rate=rate, l1_weight=LAM), alone, 20_000)
    np.testing.assert_allclose(dual, lasso, atol=1e-3)


@pytest.mark.parametrize("rate", [0.5, 5, 1.0000001])
def test_fast_dual_averaging_with_server_learning_rate_is_refused(rate):
    """The server takes the mean, so that its learning rate is one."""
    with pytest.raises(
        ValueError, match=r"^server_learning_rate is .*; expected 1: the server takes the mean"
    ):
        fgmp.FastFedDualAvg(l1_weight=0.1, learning_rate=0.1, server_learning_rate=rate)
    fgmp.FastFedDualAvg(l1_weight=0.1, learning_rate=0.1, server_learning_rate=1)
