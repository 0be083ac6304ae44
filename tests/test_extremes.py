"""Problems at the edge of what there is: one of everything, all alike, nothing at all, and far too small or large."""

from functools import cache

import numpy as np
import pytest

import fgmp

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

rng = np.random.default_rng(0)
AS = [rng.standard_normal((30, 12)) for _ in range(4)]
X = np.zeros(12)
X[[1, 5, 8]] = [1.0, -2.0, 0.5]
SPARSE = ("exact", "gradient", "conjugate", "newton", "sgd", "svrg", "atoms", "overall", "ball", "median", "trimmed")
SHARED = ("shared", "shared conjugate", "shared newton", "shared local")
FIRST_ORDER = ("FedAvg", "FedHT", "FedIterHT", "FedMid", "FedDualAvg", "FastFedDualAvg")
NAMES = (*SPARSE, *SHARED, *FIRST_ORDER)


def method(name, fed, tau):
    """A method of that name with a step that suits the data."""
    if name in FIRST_ORDER:
        steepest = max(np.linalg.norm(client.features, 2) ** 2 / client.n_samples for client in fed.clients)
        options = {"learning_rate": float(0.5 / steepest) if steepest else 1.0, "local_iterations": 2}
        options |= {"sparsity": tau} if name.endswith("HT") else {} if name == "FedAvg" else {"l1_weight": 0.0}
        return getattr(fgmp, name)(**options)
    solvers = {
        "gradient": fgmp.GradientDescent(steps=2),
        "conjugate": fgmp.ConjugateGradient(steps=3),
        "newton": fgmp.Newton(steps=1),
        "sgd": fgmp.SGD(steps=2),
        "svrg": fgmp.SVRG(steps=1),
        "shared": fgmp.NormalEquations(),
        "shared conjugate": fgmp.PooledConjugateGradient(3),
        "shared newton": fgmp.PooledNewton(2),
        "shared local": fgmp.LocalSteps(fgmp.SGD(2)),
    }
    if name in SHARED:
        return fgmp.SharedSupportGradMP(tau, solver=solvers[name])
    others = {
        "atoms": {"selection": fgmp.PerAtom()},
        "overall": {"selection": fgmp.Overall()},
        "ball": {"radius": 3.0},
        "median": {"combination": fgmp.Median()},
        "trimmed": {"combination": fgmp.TrimmedMean(0.2)},
    }
    return fgmp.FedGradMP(tau, solver=solvers.get(name), **others.get(name, {}))


def federation(As, ys, **options):
    return fgmp.Federation.from_arrays(As, ys, **options)


def run(name, fed, tau, rounds=6):
    """The model after some rounds, which all clients took part in and which no number left the range of."""
    result = fgmp.simulate(method(name, fed, tau), fed, rounds, rng=0, faults=[])
    assert np.isfinite(result.x).all() and np.isfinite(result.history["objective"]).all()
    assert (result.history["clients"][1:] == fed.n_clients).all() and len(result.support) <= fed.n_features
    return result


@pytest.mark.parametrize("name", NAMES)
def test_one_client(name):
    result = run(name, federation(AS[:1], [AS[0] @ X]), 3)
    assert result.history["objective"][-1] < result.history["objective"][0]
    if name in ("exact", "newton", "atoms", "overall", "ball", "median", "trimmed", "shared", "shared newton"):
        np.testing.assert_allclose(result.x, X, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_one_atom(name):
    """All that a method with one atom can find."""
    x = np.eye(12)[7] * 3
    result = run(name, federation(AS, [A @ x for A in AS]), 1, 8)
    if name not in ("FedAvg", "FedMid", "FedDualAvg", "FastFedDualAvg"):
        assert result.support.tolist() == [7]
    assert result.history["objective"][-1] < 0.2 * result.history["objective"][0]


@pytest.mark.parametrize("name", NAMES)
def test_as_many_atoms_as_features(name):
    """Nothing is cut: the mean of the clients' least squares, or the least squares of all rows."""
    ys = [A @ X + 0.1 * rng.standard_normal(30) for A in AS]
    result = run(name, federation(AS, ys), 12)
    local = np.mean([np.linalg.lstsq(A, y, rcond=None)[0] for A, y in zip(AS, ys, strict=True)], axis=0)
    pooled = np.linalg.lstsq(np.vstack(AS), np.concatenate(ys), rcond=None)[0]
    if name in ("exact", "newton", "atoms", "overall", "ball"):
        np.testing.assert_allclose(result.x, local, atol=1e-10)
    elif name in ("shared", "shared newton"):
        np.testing.assert_allclose(result.x, pooled, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_one_feature(name):
    result = run(name, federation([A[:, :1] for A in AS], [2 * A[:, 0] for A in AS]), 1, 30)
    np.testing.assert_allclose(result.x, [2.0], rtol=1e-2 if name in (*FIRST_ORDER, "sgd", "shared local") else 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_one_row_a_client(name):
    rows, x = rng.standard_normal((40, 12)), X
    fed = federation([row[None] for row in rows], [row[None] @ x for row in rows])
    result = run(name, fed, 3, 20)
    if name in ("shared", "shared newton"):
        np.testing.assert_allclose(result.x, x, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_columns_that_are_there_twice(name):
    """The solution of minimum norm takes half of each, so that twice as many atoms are needed."""
    twice = [np.hstack([A, A]) for A in AS]
    result = run(name, federation(twice, [A @ X for A in AS]), 6, 10)
    if name in ("exact", "newton", "shared", "shared newton"):
        np.testing.assert_allclose(result.x[:12] + result.x[12:], X, atol=1e-10)
    else:
        assert result.history["objective"][-1] < 0.9 * result.history["objective"][0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("targets", [0.0, 1.0])
def test_data_that_are_all_zero(name, targets):
    """No model explains anything: zero stays, and so does the objective."""
    result = run(name, federation([0 * A for A in AS], [np.full(30, targets) for _ in AS]), 3)
    np.testing.assert_array_equal(result.x, 0)
    np.testing.assert_allclose(result.history["objective"], 0.5 * targets, rtol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_targets_that_are_all_zero(name):
    result = run(name, federation(AS, [np.zeros(30) for _ in AS]), 3)
    np.testing.assert_array_equal(result.x, 0)


@pytest.mark.parametrize("loss", [fgmp.LogisticLoss(), fgmp.SoftmaxLoss(3)])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("shared", "shared conjugate")])
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0])
def test_one_class_everywhere_and_data_that_are_nothing(name, loss, scale):
    fed = federation([scale * A for A in AS], [np.ones(30) for _ in AS], loss=loss)
    result = fgmp.simulate(method(name, fed, 2), fed, 3, rng=0)
    assert np.isfinite(result.x).all() and np.isfinite(result.history["objective"]).all()
    assert result.history["objective"][-1] <= result.history["objective"][0] * (1 + 1e-12)


NOISY = [A @ X + 0.1 * rng.standard_normal(30) for A in AS]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ball"])
@pytest.mark.parametrize("exponent", [-6, 6])
@pytest.mark.parametrize("scaled", ["features", "targets", "both"])
def test_a_scale_changes_nothing_but_the_unit(name, exponent, scaled):
    """With features times s, targets times t, the model is the same times t/s; the steps of a rate are in its unit."""
    s = 10.0**exponent if scaled != "targets" else 1.0
    t = 10.0**exponent if scaled != "features" else 1.0
    plain = run(name, federation(AS, NOISY), 3)
    far = run(name, federation([s * A for A in AS], [t * y for y in NOISY]), 3)
    np.testing.assert_array_equal(far.support, plain.support)
    np.testing.assert_allclose(far.x / (t / s), plain.x, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_clients_of_very_different_sizes(name):
    rows = (1, 2, 40, 2000)
    As = [rng.standard_normal((count, 12)) for count in rows]
    ys = [A @ X + 0.1 * rng.standard_normal(len(A)) for A in As]
    fed = federation(As, ys)
    result = run(name, fed, 3)
    np.testing.assert_allclose(fed.weights, np.array(rows) / sum(rows))
    if name in ("shared", "shared newton"):  # twelve features are sent whole: it does not matter who holds which row
        whole = method(name, fed, 3)
        apart, pooled = (fgmp.simulate(whole, each, 6, rng=0).x for each in (fed, fed.pooled()))
        np.testing.assert_allclose(apart, pooled, atol=1e-9)
    else:
        assert result.history["objective"][-1] < 0.9 * result.history["objective"][0]


@cache
def crowd():
    """Features, a model, and the federation of ten thousand clients of two rows."""
    A, x = rng.standard_normal((10_000, 2, 6)), np.array([0, 3.0, 0, 0, 0, 0])
    return A, x, federation(list(A), list(A @ x))


@pytest.mark.parametrize("name", ["exact", "shared", "FedAvg"])
def test_ten_thousand_clients(name):
    """One round each; that of FedAvg by hand."""
    A, x, fed = crowd()
    rate = {"learning_rate": 0.01, "local_iterations": 2}
    own = fgmp.FedAvg(**rate) if name == "FedAvg" else method(name, fed, 1)
    result = fgmp.simulate(own, fed, 1, rng=0)
    assert result.history["clients"][-1] == 10_000
    if name == "FedAvg":
        w = np.zeros((10_000, 6))
        rate = 0.01
        for _ in range(2):
            w -= rate * np.einsum("iks,ik->is", A, np.einsum("iks,is->ik", A, w) - A @ x) / 2
        np.testing.assert_allclose(result.x, w.mean(axis=0), atol=1e-12)
    elif name == "shared":
        np.testing.assert_allclose(result.x, x, atol=1e-10)
    else:
        assert result.support.tolist() == [1]


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_estimators_and_theory_at_far_scales(scale):
    A, y = np.vstack(AS), np.concatenate(NOISY)
    groups = np.repeat(np.arange(4), 30)
    plain = fgmp.FedGradMPRegressor(3).fit(A, y, groups)
    far = fgmp.FedGradMPRegressor(3).fit(scale * A, scale * y, groups)
    np.testing.assert_allclose(far.coef_, plain.coef_, atol=1e-8)
    near, away = (fgmp.theory.restricted_constants(B, 2) for B in (A, scale * A))
    np.testing.assert_allclose([away.lower / scale**2, away.upper / scale**2], [near.lower, near.upper], rtol=1e-8)
    atoms = fgmp.Dictionary(scale * rng.standard_normal((12, 20)))
    found = fgmp.approx_tau(atoms, scale * X, 3)
    assert 1 <= found.eta < 3 and found.error <= scale * np.linalg.norm(X)
    fit = fgmp.fit_ksvd(scale * A, 8, 2, iterations=3, rng=0)
    np.testing.assert_allclose(fit.errors, fgmp.fit_ksvd(A, 8, 2, iterations=3, rng=0).errors, atol=1e-8)
