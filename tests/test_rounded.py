"""identify="float32": Gamma from rounded features, within the eta_1 that is stated, and models as exact as ever."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from test_kernels import SGD, client_of, name_of

import fgmp
from fgmp.federation import Client, Federation
from fgmp.models import SparseModel
from fgmp.rounded import Rounded

LARGE = (100, 700)
seeds = st.integers(0, 2**32 - 1)


def error_bound(A, d):
    """g |A|' |d|, entry by entry."""
    small = (len(A) + 2) * 2.0**-24
    return small / (1 - small) * (np.abs(A).T @ np.abs(d))


def eta(r, chosen):
    """||P_Gamma r - r|| over the best there is: what is left of r, over its smallest entries."""
    best = np.sort(np.abs(r))[: len(r) - len(chosen)]
    return np.linalg.norm(np.delete(r, chosen)) / np.linalg.norm(best)


def cancelling(rng, m, n, left):
    """A matrix and derivatives whose product is `left` of what its terms are: near ties in a rounded one."""
    A, d = rng.standard_normal((m, n)), rng.standard_normal(m)
    A -= (1 - left) * np.outer(d, d @ A) / (d @ d)
    return np.array(A), d


@settings(deadline=None, max_examples=200)
@given(st.integers(2, 60), st.integers(2, 40), st.sampled_from([1.0, 1e-3, 1e-5, 1e-7]), st.data(), seeds)
def test_the_eta_of_the_identification_is_within_its_bound(m, n, left, data, seed):
    rng = np.random.default_rng(seed)
    count, rows = data.draw(st.integers(1, n - 1)), rng.permutation(m)[: data.draw(st.integers(1, m))]
    A, d = cancelling(rng, m, n, left)
    (client,) = Federation.from_arrays([A], [-d]).clients
    x = SparseModel.zero((n,))  # its residual is d
    rough = client.gradient(x, rows, rough=True)
    r, bound = A[rows].T @ d[rows], error_bound(A[rows], d[rows])
    assert (np.abs(len(rows) * rough - r) <= bound * (1 + 1e-6)).all()
    chosen = fgmp.dictionaries.StandardBasis().approximate(rough, count)
    reached, tail = eta(r, chosen), np.sort(np.abs(r))[: n - count]
    assert reached <= 1 + np.sqrt(2) * np.linalg.norm(bound) / np.linalg.norm(tail) + 1e-12


def test_the_bound_is_no_idle_one():
    """Where terms cancel, another Gamma than the best is chosen, and eta comes to a part of the bound."""
    rng, parts = np.random.default_rng(0), []
    for _ in range(300):
        A, d = cancelling(rng, 20, 12, 1e-6)
        r, bound = A.T @ d, error_bound(A, d)
        chosen = np.argsort(-np.abs(Rounded.of(A).product(d, None)))[:4]
        tail = np.linalg.norm(np.sort(np.abs(r))[:8])
        parts.append((eta(r, chosen) - 1) / (np.sqrt(2) * np.linalg.norm(bound) / tail))
    assert 1e-3 < max(parts) <= 1
    assert np.mean(np.array(parts) > 0) > 0.1


def test_the_docstring_has_the_size_of_the_bound():
    rng, sizes = np.random.default_rng(0), []
    for _ in range(20):
        A, d = rng.standard_normal((40, 1000)), rng.standard_normal(40)
        tail = np.sort(np.abs(A.T @ d))[:-20]
        sizes.append(np.sqrt(2) * np.linalg.norm(error_bound(A, d)) / np.linalg.norm(tail))
    assert 1.4e-5 < min(sizes) < max(sizes) < 1.7e-5
    assert 0.0053 < np.sqrt((1 + min(sizes)) ** 2 - 1) < np.sqrt((1 + max(sizes)) ** 2 - 1) < 0.0058


@pytest.mark.parametrize("numba", ["0", "1"])
@pytest.mark.parametrize("batch", [None, 40])
@pytest.mark.parametrize(("shape", "tau"), [((100, 400), 5), ((100, 1000), 10), ((60, 2000), 3)])
def test_recovery_is_as_exact_as_ever(shape, tau, batch, numba, monkeypatch):
    monkeypatch.setenv("FGMP_NUMBA", numba)
    method = fgmp.FedGradMP(tau, batch_size=batch, identify="float32")
    for seed in range(4):
        federation = fgmp.make_sparse_regression(5, *shape, tau, rng=seed)
        result = fgmp.simulate(method, federation, 8, cohort_size=4, rng=seed)
        assert result.history["relative_error"][-1] < 1e-14
        printed = fgmp.simulate(method, federation, 8, cohort_size=4, rng=seed, readable=True)
        np.testing.assert_allclose(result.x, printed.x, rtol=0, atol=1e-14 * np.linalg.norm(printed.x))


METHODS = [
    (fgmp.FedGradMP(3, batch_size=4), "squared"),
    (fgmp.FedGradMP(3), "logistic"),
    (fgmp.FedGradMP(3, batch_size=4), "logistic"),
    (fgmp.FedGradMP(2), "softmax"),
    (fgmp.FedGradMP(2, batch_size=4, solver=SGD), "softmax"),
    (fgmp.FedGradMP(3, selection=fgmp.PerAtom((1,)), batch_size=4), "softmax"),
    (fgmp.FedGradMP(3, dictionary=fgmp.gaussian_dictionary(40, 60, rng=0)), "squared"),
    (fgmp.FedGradMP(3, radius=0.5), "squared"),
]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("method", "loss"), METHODS, ids=lambda value: repr(value)[:70])
@pytest.mark.filterwarnings("ignore::fgmp.advice.AdviceWarning")  # these targets are noise
def test_runs_end_where_those_in_float64_do(method, loss, seed):
    parts = [client_of((12, 40), loss, seed + i) for i in range(3)]
    federation = Federation.from_arrays([c.features for c in parts], [c.targets for c in parts], parts[0].loss)
    rough = replace(method, identify="float32")
    found = fgmp.simulate(rough, federation, 3, rng=seed)
    assert found.x.dtype == np.float64
    expected = fgmp.simulate(method, federation, 3, rng=seed)
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(fgmp.simulate(rough, federation, 3, rng=seed, workers=2).x, found.x)


@settings(deadline=None, max_examples=60)
@given(st.tuples(st.integers(1, 12), st.integers(1, 30)), st.sampled_from(["squared", "logistic", "softmax"]), seeds)
def test_a_rough_gradient_is_the_gradient_within_its_bound(shape, loss, seed):
    client, rng = client_of(shape, loss, seed), np.random.default_rng(seed)
    x = rng.standard_normal(client.model_shape)
    for rows in (None, rng.permutation(shape[0])[: rng.integers(1, shape[0] + 1)]):
        kept = np.arange(shape[0]) if rows is None else rows
        d = client.loss.derivative(client.predictions(x), client.targets)[kept] / len(kept)
        found, expected = client.gradient(x, rows, rough=True), client.gradient(x, rows)
        assert found.shape == expected.shape
        assert found.dtype == np.float64
        assert (np.abs(found - expected) <= error_bound(client.features[kept], d) * (1 + 1e-6) + 1e-300).all()


@pytest.mark.parametrize("numba", ["0", "1"])
@pytest.mark.parametrize("unit", [2.0**-500, 2.0**500])
@pytest.mark.parametrize("of", ["features", "targets"])
def test_units_change_nothing_but_the_units(unit, of, numba, monkeypatch):
    monkeypatch.setenv("FGMP_NUMBA", numba)
    clients = fgmp.make_sparse_regression(3, *LARGE, 5, rng=0).clients
    As, ys = [client.features for client in clients], [client.targets for client in clients]
    method = fgmp.FedGradMP(5, batch_size=30, identify="float32")
    plain = fgmp.simulate(method, Federation.from_arrays(As, ys), 3, rng=0)
    scaled = Federation.from_arrays(
        [unit * A for A in As] if of == "features" else As, [unit * y for y in ys] if of == "targets" else ys
    )
    other = fgmp.simulate(method, scaled, 3, rng=0)
    np.testing.assert_array_equal(other.support, plain.support)
    factor = unit if of == "targets" else 1 / unit
    np.testing.assert_allclose(other.x / factor, plain.x, rtol=1e-12)


@pytest.mark.parametrize("largest", [0.0, 5e-324, 1e-310, 1e150])
def test_features_of_any_size_are_rounded(largest):
    features = np.array([[largest, 0.0], [-largest, largest / 2]])
    matrix, exponent = Rounded.of(features)
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    np.testing.assert_allclose(np.ldexp(matrix.astype(float), exponent), features, rtol=2.0**-24, atol=0)


def test_data_in_float32_are_used_as_they_are():
    one = client_of((20, 60))
    single = Federation.from_arrays([one.features.astype(np.float32)], [one.targets.astype(np.float32)])
    method = fgmp.FedGradMP(3, batch_size=8)
    found = fgmp.simulate(replace(method, identify="float32"), single, 3, rng=0)
    np.testing.assert_array_equal(found.x, fgmp.simulate(method, single, 3, rng=0).x)
    assert "rounded" not in vars(single.clients[0])


def test_sparse_features_are_refused_unless_a_dictionary_makes_them_dense():
    federation = fgmp.make_sparse_regression(2, 20, 30, 2, rng=0)
    As, ys = zip(*((client.features, client.targets) for client in federation.clients), strict=True)
    method, atoms = fgmp.FedGradMP(2, identify="float32"), fgmp.Dictionary(np.eye(30))
    stored = Federation.from_arrays([sparse.csr_array(A) for A in As], ys)
    with pytest.raises(ValueError, match=r"features of client 0 is a SparseFeatures; expected dense features"):
        fgmp.simulate(method, stored, 1, rng=0)
    expected = fgmp.simulate(method, federation, 3, rng=0).x
    for other in (stored, Federation.from_arrays([aslinearoperator(A) for A in As], ys)):
        found = fgmp.simulate(replace(method, dictionary=atoms), other, 3, rng=0).x
        np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("given", ["float16", np.float32, None, 32])
def test_another_precision_is_refused(given):
    with pytest.raises(ValueError, match=r"identify is .*; expected one of 'float64', 'float32'"):
        fgmp.FedGradMP(2, identify=given)


def test_it_is_written_and_read():
    method = fgmp.FedGradMP(2, identify="float32")
    written = fgmp.to_json(method)
    assert fgmp.from_json(*written).identify == "float32"
    older = written.text.replace(', "identify": "float32"', "")
    assert "identify" not in older
    assert fgmp.from_json(older).identify == "float64"


def test_a_checkpoint_goes_on_and_knows_which_it_was(tmp_path):
    federation = fgmp.make_sparse_regression(4, 20, 60, 3, noise_variance=1e-4, rng=0)
    method, options = fgmp.FedGradMP(3, batch_size=8, identify="float32"), {"rng": 0, "checkpoint": tmp_path / "kept"}
    fgmp.simulate(method, federation, 2, **options)
    gone_on = fgmp.simulate(method, federation, 5, **options)
    np.testing.assert_array_equal(gone_on.x, fgmp.simulate(method, federation, 5, rng=0).x)
    with pytest.raises(ValueError, match=r"identify is 'float64', not 'float32'"):
        fgmp.simulate(fgmp.FedGradMP(3, batch_size=8), federation, 6, **options)


@pytest.mark.parametrize("numba", ["0", "1"])
def test_a_client_keeps_half_its_data_beside_them_and_no_more(numba, monkeypatch):
    if numba == "1":
        pytest.importorskip("numba")
    monkeypatch.setenv("FGMP_NUMBA", numba)
    client, method = client_of(LARGE), fgmp.FedGradMP(3, identify="float32")
    prepared = method.prepare(client)
    assert 2 * vars(prepared)["rounded"].matrix.nbytes == client.features.nbytes
    assert name_of(method, prepared) == ("compiled least squares" if numba == "1" else "least squares")
    (exchange,) = method.exchanges()
    fgmp.methods.kernels.answer_of(exchange, prepared)(
        prepared, SparseModel.zero((700,)).message(), np.random.default_rng(0)
    )
    assert "features_by_row" not in vars(prepared)


def test_the_steps_of_sgd_on_images_run_as_printed():
    client = client_of((8, 300), "softmax")
    assert name_of(fgmp.FedGradMP(3, solver=SGD), client) == "sgd"
    assert name_of(fgmp.FedGradMP(3, solver=SGD, identify="float32"), client) is None


def test_the_copy_is_not_read_where_float64_identifies(monkeypatch):
    monkeypatch.setattr(Client, "rounded", property(lambda client: pytest.fail("read")))
    federation = fgmp.make_sparse_regression(2, 20, 60, 3, rng=0)
    for readable in (True, False):
        fgmp.simulate(fgmp.FedGradMP(3), federation, 2, rng=0, readable=readable)
        with pytest.raises(pytest.fail.Exception, match="read"):
            fgmp.simulate(fgmp.FedGradMP(3, identify="float32"), federation, 2, rng=0, readable=readable)


def test_a_client_keeps_one_copy_at_a_time():
    (client,) = fgmp.Federation.from_arrays([np.ones((3, 4), order="F")], [np.ones(3)]).clients
    assert client.features_by_row.flags.c_contiguous
    assert client.with_rounded() is client
    assert {"rounded", "features_by_row"} & set(vars(client)) == {"rounded"}
    assert client.features_by_row.flags.c_contiguous
    assert {"rounded", "features_by_row"} & set(vars(client)) == {"features_by_row"}
