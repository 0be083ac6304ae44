"""The laws that any version of this package keeps, each named by its sentence, against code that stands here.

Nothing in a law knows how the package is built. What another design spells otherwise is in the first section, once.
"""

import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score

import fgmp
from fgmp import theory

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning", "ignore::sklearn.exceptions.ConvergenceWarning")

# ---------------------------------------------------------------- what another design of the package spells otherwise


def last(result):
    """The model that the last round made, whatever it is worth."""
    return result.last.x


def resumable(path):
    """Keep every round in a file, and go on from it."""
    return {"checkpoint": path, "every": 1}


def watched(look):
    """Have every round looked at, by a function of the history that says whether to stop."""
    return {"callback": look}


def failing(probability):
    """Clients that are not there for a round."""
    return {"faults": [fgmp.DropOut(probability=probability)]}


def secure(**options):
    """Sums under masks."""
    return {"secure": fgmp.SecureSum(**options)}


def private(epsilon, clip, **options):
    """Noise on sums."""
    return {"private": fgmp.GaussianNoise(epsilon, clip, **options)}


def small_sites():
    """Sites of any number of rows take part."""
    return {"min_rows": 1} if "min_rows" in fgmp.FedGradMPRegressor().get_params() else {}


@contextmanager
def compiled_loops_counted():
    """How often a compiled loop was entered; a loop that is not compiled is an error."""
    from fgmp.local import loops, span_loops

    calls = SimpleNamespace(n=0)

    def counting(loop):
        assert hasattr(loop, "py_func"), "this loop is not compiled"

        def call(*arguments):
            calls.n += 1
            return loop(*arguments)

        return call

    places = [(loops, "pursue"), (loops, "descend"), (span_loops, "softmax_combination")]
    with patch.object(*places[0], counting(loops.pursue)), patch.object(*places[1], counting(loops.descend)):
        with patch.object(*places[2], counting(span_loops.softmax_combination)):
            yield calls


@contextmanager
def federations_made():
    """The federations that anybody makes meanwhile."""
    made, check = [], fgmp.Federation.__post_init__

    def kept(self):
        check(self)
        made.append(self)

    with patch.object(fgmp.Federation, "__post_init__", kept):
        yield made


def rows_of(federation):
    """Features and targets of each client."""
    return [(np.array(client.features), np.array(client.targets)) for client in federation.clients]


class Overheard:
    """A method that runs as the one inside; `trips` has what was asked, what each client said, what the server got."""

    def __init__(self, method):
        self.method, self.trips = method, []

    def __getattr__(self, name):
        return getattr(vars(self)["method"], name)

    def seeded(self, seed):
        if hasattr(type(self.method), "seeded"):
            self.method = self.method.seeded(seed)
        return self

    def exchanges(self):
        return [self._tapped(exchange) for exchange in self.method.exchanges()]

    def _tapped(self, exchange):
        def broadcast(state):
            if not self.trips or self.trips[-1].got:  # what is asked for twice is sent once
                self.trips.append(SimpleNamespace(asked=exchange.broadcast(state), said={}, got=[]))
            return self.trips[-1].asked

        def answer(client, message, generator):
            said = self.trips[-1].said[client.key] = exchange.answer(client, message, generator)
            return said

        def combine(state, replies):
            self.trips[-1].got += [reply.message for reply in replies]
            return exchange.combine(state, replies)

        return exchange._replace(broadcast=broadcast, answer=answer, combine=combine)


def sum_got(message, size):
    """The sum that a server got, dense."""
    whole = np.zeros(size)
    whole[message.get("support", slice(None))] = numbers_in(message)
    return whole


def numbers_in(message):
    """All floats of a message, one after another."""
    return np.concatenate([np.ravel(part) for part in message.values() if part.dtype.kind == "f"] or [np.empty(0)])


def bytes_of(message):
    """Four for a whole number, four or eight for a float."""
    return sum(part.size * (4 if part.dtype.kind in "iu" else part.itemsize) for part in message.values())


# ---------------------------------------------------------------------------------------- data, methods, comparisons

LOSSES = ("squared", "logistic", "softmax")
RIVALS = ("FedAvg", "FedHT", "FedIterHT", "FedMid", "FedDualAvg", "FastFedDualAvg")
seeds = st.integers(0, 2**32 - 1)


def law(examples):
    """A family of so many cases, the same every time; the first that breaks a law is shown as it is."""
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
    how = {"derandomize": True, "deadline": None, "database": None, "phases": [Phase.generate]}
    return settings(max_examples=examples, suppress_health_check=slow, **how)


def targets(rng, A, loss, n_active=3):
    """Numbers, two labels or three, from a sparse model with noise."""
    if loss == "softmax":
        return np.argmax(A[:, :3] + rng.gumbel(size=(len(A), 3)), axis=1)
    z = A[:, :n_active] @ np.linspace(2, 1, n_active)
    if loss == "squared":
        return z + 0.3 * rng.standard_normal(len(A))
    return np.where(z + rng.logistic(size=len(A)) > 0, 1.0, -1.0)


def tables(rng, loss="squared", n_clients=3, rows=30, n=8):
    """Matrices and targets of clients that differ."""
    As = [rng.standard_normal((rows, n)) + 0.2 * rng.standard_normal(n) for _ in range(n_clients)]
    return As, [targets(rng, A, loss) for A in As]


def federation(As, ys, loss="squared", **options):
    return fgmp.Federation.from_arrays(As, ys, loss=fgmp.SoftmaxLoss(3) if loss == "softmax" else loss, **options)


def rival(name, rate=0.05, tau=3, steps=3, weight=0.01, **options):
    own = {"FedHT": {"sparsity": tau}, "FedIterHT": {"sparsity": tau}}
    l1 = {"FedMid", "FedDualAvg", "FastFedDualAvg"}
    more = own.get(name, {"l1_weight": weight} if name in l1 else {})
    return getattr(fgmp, name)(learning_rate=rate, local_iterations=steps, **more, **options)


def local_solvers(steps):
    return {
        "exact": fgmp.Exact(),
        "gradient": fgmp.GradientDescent(steps),
        "conjugate": fgmp.ConjugateGradient(steps),
        "newton": fgmp.Newton(steps),
        "sgd": fgmp.SGD(steps),
        "svrg": fgmp.SVRG(steps, batch_size=4),
    }


def pooled_solvers(loss, steps):
    least_squares = {"normal": fgmp.NormalEquations(), "pooled-conjugate": fgmp.PooledConjugateGradient(steps)}
    return {"pooled-newton": fgmp.PooledNewton(min(steps, 8))} | (least_squares if loss == "squared" else {})


def every_method(loss, tau, steps=3, batch=None):
    """All methods, with each solver that the loss takes."""
    found = {name: rival(name, tau=tau, batch_size=batch) for name in RIVALS}
    found |= {s: fgmp.FedGradMP(tau, 1, batch, solver=solver) for s, solver in local_solvers(steps).items()}
    return found | {s: fgmp.SharedSupportGradMP(tau, solver=p) for s, p in pooled_solvers(loss, steps).items()}


EVERY = [(loss, name) for loss in LOSSES for name in every_method(loss, 2)]
every_pair = pytest.mark.parametrize("loss, name", EVERY)


def value(loss, A, y, x):
    """f_i, from its definition."""
    z = A @ x
    if loss == "squared":
        return np.mean((z - y) ** 2) / 2
    if loss == "logistic":
        return np.mean(np.logaddexp(0, -y * z))
    return np.mean(logsumexp(z, axis=1) - z[np.arange(len(y)), y])


def slopes(loss, A, y, x):
    """The gradient of each row, shape (rows, size of x)."""
    z = A @ x
    if loss == "squared":
        d = (z - y)[:, None]
    elif loss == "logistic":
        d = (-y / (1 + np.exp(y * z)))[:, None]
    else:
        d = np.exp(z - logsumexp(z, axis=1, keepdims=True)) - np.eye(x.shape[1])[y]
    return np.einsum("ij,ik->ijk", A, d).reshape(len(A), -1)


def assert_same_bits(one, other):
    """Two results, the seconds apart."""
    assert last(one).tobytes() == last(other).tobytes() and one.x.tobytes() == other.x.tobytes()
    for name in set(one.history) - {"seconds"}:
        assert one.history[name].tobytes() == other.history[name].tobytes(), name


def largest(v, count):
    """The places of the largest magnitudes; of equal ones the first."""
    return np.sort(np.argsort(-np.abs(v), kind="stable")[:count])


def cosamp(A, y, tau, iterations):
    """Needell and Tropp, 2009."""
    x = np.zeros(A.shape[1])
    for _ in range(iterations):
        merged = np.union1d(largest(A.T @ (y - A @ x), 2 * tau), np.flatnonzero(x))
        b = np.linalg.lstsq(A[:, merged], y, rcond=None)[0]
        kept = largest(b, tau)
        x = np.zeros(A.shape[1])
        x[merged[kept]] = b[kept]
    return x


# --------------------------------------------------------------------------------------------------------- the laws


@law(30)
@given(seed=seeds, tau=st.integers(1, 4), n=st.integers(5, 30), steps=st.integers(1, 3), rounds=st.integers(1, 4))
def test_law_01_one_client_full_batch_squared_loss_standard_basis_fedgradmp_is_cosamp(seed, tau, n, steps, rounds):
    """One client, full batch, squared loss, standard basis: FedGradMP is CoSaMP."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3 * tau + 6, n))
    y = A[:, :tau].sum(1) + 0.3 * rng.standard_normal(len(A))
    found = last(fgmp.simulate(fgmp.FedGradMP(tau, steps), federation([A], [y]), rounds, rng=0))
    np.testing.assert_allclose(found, cosamp(A, y, tau, steps * rounds), atol=1e-9)


TWINS = [(name, loss) for name in ("FedGradMP", *RIVALS[:5]) for loss in LOSSES[:2]] + [("FedAvg", "softmax")]


@pytest.mark.parametrize("name, loss", [pair for pair in TWINS if pair != ("FedGradMP", "logistic")])
def test_law_02_printed_form_equals_compiled_twin(name, loss, monkeypatch):
    """Printed form equals compiled twin to 1e-9 in float64."""
    pytest.importorskip("numba")
    fed = federation(*tables(np.random.default_rng(2), loss, 2, 100, 700), loss)
    steps = 20 if loss == "softmax" else 1 if name in ("FedAvg", "FedHT") else 3  # other numbers have other fast forms
    method = fgmp.FedGradMP(5, batch_size=40) if name == "FedGradMP" else rival(name, 0.02, 5, steps, batch_size=40)
    ways = {}
    for readable in ("", "1"):
        monkeypatch.setenv("FGMP_READABLE", readable)
        with compiled_loops_counted() as calls:
            ways[readable] = fgmp.simulate(method, fed, 3, rng=0)
        assert calls.n == 0 if readable else calls.n >= 6  # in each of three rounds for both clients
    np.testing.assert_allclose(last(ways[""]), last(ways["1"]), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ways[""].history["objective"], ways["1"].history["objective"], rtol=1e-9)


@every_pair
@law(2)
@given(seed=seeds, rounds=st.integers(1, 3), weighted=st.booleans())
def test_law_03_the_objective_is_an_independent_sum(loss, name, seed, rounds, weighted):
    """`history["objective"]` is an independent sum of p_i f_i."""
    rng = np.random.default_rng(seed)
    parts = [tables(rng, loss, 1, rows) for rows in (20, 31, 44)]
    As, ys = [part[0][0] for part in parts], [part[1][0] for part in parts]
    weights = rng.uniform(0, 1, 3) if weighted else np.array([20, 31, 44])
    fed = federation(As, ys, loss, weights=weights if weighted else None)
    result = fgmp.simulate(every_method(loss, 3, batch=15)[name], fed, rounds, rng=0)
    expected = weights / weights.sum() @ [value(loss, A, y, last(result)) for A, y in zip(As, ys, strict=True)]
    np.testing.assert_allclose(result.history["objective"][-1], expected, rtol=1e-10)


@every_pair
def test_law_04_the_order_of_clients_changes_no_bit(loss, name):
    """The order of clients changes no bit."""
    pandas, rng = pytest.importorskip("pandas"), np.random.default_rng(4)
    As, ys = tables(rng, loss, 6, 20)
    frame = pandas.DataFrame(np.vstack(As), columns=[f"x{j}" for j in range(8)])
    frame["y"], frame["site"] = np.concatenate(ys), np.repeat(list("abcdef"), 20)
    mixed = frame.iloc[np.argsort(rng.permutation(6)[np.repeat(np.arange(6), 20)], kind="stable")]
    assert list(mixed.site) != list(frame.site)
    method = every_method(loss, 3, batch=7)[name]
    feds = (fgmp.Federation.from_frame(f, site="site", target="y", loss=loss) for f in (frame, mixed))
    assert_same_bits(*(fgmp.simulate(method, fed, 3, 4, rng=0) for fed in feds))


class Interruption(Exception):
    """Anything that goes wrong."""


@contextmanager
def interrupted(at, error):
    """Raise an error when functions of the package are called for that many times; count the calls."""
    home, calls = os.path.dirname(fgmp.__file__), SimpleNamespace(n=0)

    def trace(frame, event, argument):
        if frame.f_code.co_filename.startswith(home):
            calls.n += 1
            if calls.n == at:
                raise error

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield calls
    except BaseException as raised:
        if error not in (raised, raised.__cause__):
            raise
    finally:
        sys.settrace(before)


RESUMED = (
    fgmp.FedGradMP(2, batch_size=10),
    fgmp.SharedSupportGradMP(2),
    rival("FastFedDualAvg", batch_size=5),
)


@pytest.mark.parametrize("method", RESUMED, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("error", [Interruption(), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_law_05_resumption_after_any_interruption_same_bits(method, error, tmp_path):
    """Resumption after any interruption: same bits. Two interruptions at random calls, then a run to the end."""
    fed, rng = federation(*tables(np.random.default_rng(5), n_clients=4)), np.random.default_rng(5)
    whole = fgmp.simulate(method, fed, 5, 3, rng=0)
    with interrupted(-1, error) as calls:
        fgmp.simulate(method, fed, 5, 3, rng=0, **resumable(tmp_path / "counted"))
    for number in range(4):
        path = tmp_path / f"run-{number}"
        for at in rng.integers(1, calls.n, 2):
            with interrupted(at, error):
                fgmp.simulate(method, fed, 5, 3, rng=0, **resumable(path))
        assert_same_bits(fgmp.simulate(method, fed, 5, 3, rng=0, **resumable(path)), whole)


def test_law_05_resumption_after_a_kill_same_bits(tmp_path):
    """Resumption after any interruption: same bits. A process that is killed at some moment, with SIGKILL."""
    path, moments, seen = tmp_path / "run", set(), []
    what = "FedGradMP(2, batch_size=10), make_sparse_regression(5, 20, 30, 2, noise_variance=0.1, rng=0)"
    run = f"simulate({what}, 3000, rng=0, **{resumable(str(path))})"
    code = f"from fgmp import FedGradMP, make_sparse_regression, simulate; {run}"
    home = {"PYTHONPATH": os.path.dirname(os.path.dirname(fgmp.__file__))}
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | home)
    while len(moments) < 5 and process.poll() is None:  # so many files
        time.sleep(0.01)
        moments |= {path.stat().st_mtime_ns} if path.exists() else set()
    process.kill()
    assert process.wait() == -signal.SIGKILL
    case = eval(what, vars(fgmp))
    look = watched(lambda history: seen.append(history["round"][-1]) or len(seen) >= 3)
    resumed = fgmp.simulate(*case, 3000, rng=0, **resumable(str(path)), **look)
    assert 1 < seen[0] < 2997
    assert_same_bits(resumed, fgmp.simulate(*case, int(resumed.history["round"][-1]), rng=0))


@every_pair
@law(2)
@given(seed=seeds)
def test_law_06_csr_equals_dense(loss, name, seed):
    """CSR equals dense."""
    rng = np.random.default_rng(seed)
    As = [A * (rng.random(A.shape) < 0.5) for A in tables(rng, n_clients=3, rows=40)[0]]
    ys, method = [targets(rng, A, loss) for A in As], every_method(loss, 3, batch=20)[name]
    dense, csr = (fgmp.simulate(method, federation(X, ys, loss), 3, rng=0) for X in (As, map_csr(As)))
    np.testing.assert_allclose(last(csr), last(dense), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(csr.history["objective"], dense.history["objective"], rtol=1e-9)


def map_csr(As):
    return [sparse.csr_array(A) for A in As]


def test_law_06_csr_equals_dense_in_estimators():
    """CSR equals dense."""
    for case in estimator_cases():
        X = case.X * (case.rng.random(case.X.shape) < 0.5)
        dense = case.fit(X)
        assert_alike(case.fit(sparse.csr_array(X)), dense.coef_, dense.intercept_)


ESTIMATORS = [
    (make, method, intercept)
    for make, method, intercept in [
        (fgmp.FedGradMPRegressor, "fedgradmp", True),
        (fgmp.FedGradMPRegressor, "shared", "per_group"),
        (fgmp.FedGradMPRegressor, "shared", False),
        (fgmp.FedGradMPRegressor, "fedgradmp", "per_group"),
        (fgmp.FedGradMPClassifier, "fedgradmp", True),
        (fgmp.FedGradMPClassifier, "shared", True),
        (fgmp.FedGradMPClassifier, "shared", False),
    ]
]


def estimator_cases(seed=0, kinds=ESTIMATORS):
    """A table of three groups for each estimator, method and intercept; classifiers with two classes and three."""
    for make, method, intercept in kinds:
        for n_classes in (2, 3) if make is fgmp.FedGradMPClassifier else (0,):
            rng = np.random.default_rng(seed)
            groups = rng.permutation(np.arange(120) % 3)
            X = rng.standard_normal((120, 6)) + rng.standard_normal((3, 6))[groups]
            z = X[:, :3] @ [2.0, -1.5, 1.0] + rng.logistic(size=120)
            y = np.digitize(z, np.quantile(z, np.arange(1, n_classes) / n_classes)) if n_classes else z
            options = {"method": method, "fit_intercept": intercept, "random_state": 0}
            yield EstimatorCase(make, rng, X, y, groups, options)


class EstimatorCase(SimpleNamespace):
    """An estimator and the table that it fits."""

    def __init__(self, make, rng, X, y, groups, options):
        super().__init__(make=make, rng=rng, X=X, y=y, groups=groups, options=options)
        self.is_regression = make is fgmp.FedGradMPRegressor

    def fit(self, X=None, y=None, groups=None, weights=None, **options):
        X, y, groups = (getattr(self, k) if v is None else v for k, v in (("X", X), ("y", y), ("groups", groups)))
        return self.make(3, **self.options | options).fit(X, y, groups=groups, sample_weight=weights)


def assert_alike(model, coef, intercept=None):
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-5, atol=1e-6 * np.abs(coef).max())
    if intercept is not None:
        np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-5, atol=1e-6)


@law(2)
@given(seed=seeds)
def test_law_07_integer_sample_weight_equals_repeated_rows(seed):
    """Integer `sample_weight` equals repeated rows."""
    for case in estimator_cases(seed):
        weights = case.rng.integers(0, 4, len(case.y))
        X, y, groups = (np.repeat(part, weights, axis=0) for part in (case.X, case.y, case.groups))
        repeated = case.fit(X, y, groups)
        assert_alike(case.fit(weights=weights), repeated.coef_, repeated.intercept_)


@law(2)
@given(seed=seeds, sizes=st.lists(st.floats(-4, 4), min_size=6, max_size=6), t=st.floats(0.01, 100), flip=st.booleans())
def test_law_08_units_of_columns_and_of_the_target(seed, sizes, t, flip):
    """X diag(s), y t with `standardize=True`: coefficients t/s, same support."""
    for case in estimator_cases(seed):
        scales = 10.0 ** np.array(sizes) * case.rng.choice([-1, 1], 6)
        t = (-abs(t) if flip else t) if case.is_regression else 1
        plain, scaled = case.fit(), case.fit(case.X * scales, t * case.y if case.is_regression else case.y)
        np.testing.assert_array_equal(scaled.support_, plain.support_)
        np.testing.assert_allclose(
            scaled.coef_ * scales, t * plain.coef_, rtol=1e-5, atol=1e-6 * np.abs(t * plain.coef_).max()
        )


@law(3)
@given(seed=seeds, C=st.floats(0.01, 100), standardize=st.booleans())
def test_law_09_fitted_coefficients_are_those_of_one_table_on_the_support(seed, C, standardize):
    """Fitted coefficients are OLS (within, per group) on the support; the classifier's are scikit-learn's, same C."""
    for case in estimator_cases(seed):
        intercept, own = case.options["fit_intercept"], np.eye(3)[case.groups]
        options = {"standardize": standardize} | ({} if case.is_regression else {"C": C})
        model = case.fit(**options)
        S, coef = model.support_, np.atleast_2d(model.coef_)
        assert len(S) == 3 and not np.delete(coef, S, axis=1).any()
        if case.is_regression:
            beside = {True: np.ones((120, 1)), "per_group": own, False: np.empty((120, 0))}[intercept]
            expected = np.linalg.lstsq(np.c_[case.X[:, S], beside], case.y, rcond=None)[0]
            np.testing.assert_allclose(model.coef_[S], expected[:3], rtol=1e-8, atol=1e-10)
            if intercept == "per_group":
                np.testing.assert_allclose([model.intercepts_[g] for g in range(3)], expected[3:], atol=1e-8)
            elif intercept:
                np.testing.assert_allclose(model.intercept_, expected[3], atol=1e-8)
            continue
        X = case.X[:, S]
        spread = X.std(0) if intercept else np.sqrt(np.mean(X**2, 0))
        units = spread if standardize else np.ones(3)
        plain = LogisticRegression(C=C, fit_intercept=intercept, solver="newton-cg", tol=1e-10, max_iter=10_000)
        plain.fit(X / units, case.y)
        # To what scikit-learn asks of itself by default, which is more than the steps of the closing exchange leave.
        np.testing.assert_allclose(coef[:, S] * units, plain.coef_, rtol=1e-3, atol=1e-4)


def heard(fit):
    """What a fit returns, and whether it warned of anything."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = fit()
    return model, bool(said)


@pytest.mark.parametrize("intercept", [True, "per_group", False])
@pytest.mark.parametrize("tau", [2, 5])
def test_law_10_just_enough_rows_are_as_good_as_shared_or_there_is_a_warning(tau, intercept):
    """For every m from 3 tau - 2 to 3 tau + 5 rows a site R2 is within 0.1 of `"shared"`, or there is a warning."""
    rng = np.random.default_rng(10)
    held = rng.standard_normal((500, 50))
    for rows in range(3 * tau - 2, 3 * tau + 6):
        for _ in range(2):
            X = rng.standard_normal((10 * rows, 50))
            y, groups = X[:, :tau].sum(1) + rng.standard_normal(len(X)), np.repeat(np.arange(10), rows)
            fits = []
            for method in ("auto", "shared"):
                options = {"method": method, "fit_intercept": intercept, "random_state": 0} | small_sites()
                model = fgmp.FedGradMPRegressor(tau, **options)
                fits.append(heard(lambda model=model: model.fit(X, y, groups=groups)))  # noqa: B023
            scores = [r2_score(held[:, :tau].sum(1), model.predict(held)) for model, _ in fits]
            assert scores[0] >= scores[1] - 0.1 or fits[0][1], (rows, scores)


@law(6)
@given(
    seed=seeds,
    rows=st.integers(3, 20),
    sparsity=st.sampled_from([1, 2, 5, "cv", "ebic"]),
    make=st.sampled_from([fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier]),
    kind=st.sampled_from(["signal", "noise", "constant features", "constant target", "few values"]),
    method=st.sampled_from(["auto", "fedgradmp", "shared"]),
)
def test_law_11_no_estimator_returns_an_empty_support_in_silence(seed, rows, sparsity, make, kind, method):
    """No estimator returns an empty support in silence."""
    rng, groups = np.random.default_rng(seed), np.repeat(np.arange(6), rows)
    X = rng.standard_normal((6 * rows, 12))
    X = {"constant features": np.ones_like(X), "few values": np.round(X)}.get(kind, X)
    z = rng.standard_normal(len(X)) + (X[:, :2].sum(1) if kind == "signal" else 0)
    if make is fgmp.FedGradMPClassifier:
        assume(kind != "constant target")
        z = np.where(z > np.median(z), "ill", "well")
    y = np.zeros(len(X)) if kind == "constant target" else z
    options = {"method": method, "random_state": 0, "sparsities": [1, 2, 3]} | small_sites()
    model, warned = heard(lambda: make(sparsity, **options).fit(X, y, groups=groups))
    assert len(model.support_) or warned


@pytest.mark.parametrize("intercept", [True, "per_group"])
@pytest.mark.parametrize("standardize", [True, False])
def test_law_12_a_row_that_is_held_out_changes_nothing_that_trains(intercept, standardize):
    """Changing a row that is held out changes nothing in the training targets or features."""
    rng, groups = np.random.default_rng(12), np.repeat(np.arange(2), 20)
    X = rng.standard_normal((40, 6))
    y = X[:, 0] + rng.standard_normal(40)
    changed, others = X.copy(), y.copy()
    changed[7], others[7] = 3 * rng.standard_normal(6), 5.0
    options = {"fit_intercept": intercept, "standardize": standardize, "random_state": 0, "sparsities": [1, 2]}
    tables_made = []
    for table in ((X, y), (changed, others)):
        with federations_made() as made:
            fgmp.FedGradMPRegressor("cv", **options).fit(*table, groups=groups)
        tables_made.append([rows_of(each) for each in made if sum(each.rows) == 32])  # four of five folds train
    pairs = list(zip(*tables_made, strict=True))
    alike = [
        all(np.array_equal(a, b) for p, q in zip(*pair, strict=True) for a, b in zip(p, q, strict=True))
        for pair in pairs
    ]
    assert pairs and sum(alike) * 5 == len(pairs)  # the row is held out once


def test_law_13_groups_of_two_cross_validate_as_their_differences():
    """Groups of two with intercepts of their own: CV equals CV on differences."""
    for seed in range(2):
        rng, pairs = np.random.default_rng(seed), np.repeat(np.arange(40), 2)
        X = rng.standard_normal((80, 12))
        y = X[:, :3] @ [2.0, -2, 2] + 3 * rng.standard_normal(40)[pairs] + 0.7 * rng.standard_normal(80)
        D, d = X[::2] - X[1::2], y[::2] - y[1::2]
        folds, errors = np.arange(40) % 4, np.zeros((5, 4))
        for tau, fold in np.ndindex(errors.shape):
            x = cosamp(D[folds != fold], d[folds != fold], tau + 1, 10)
            errors[tau, fold] = np.mean((d - D @ x)[folds == fold] ** 2)
        excess = errors - errors[errors.mean(1).argmin()]
        expected = 1 + np.flatnonzero(excess.mean(1) <= excess.std(1, ddof=1) / 2)[0]
        options = {"sparsities": range(1, 6), "n_folds": 4, "rounds": 5, "random_state": 0} | small_sites()
        model = fgmp.FedGradMPRegressor("cv", fit_intercept="per_group", **options)
        assert model.fit(X, y, groups=pairs).sparsity_ == expected == 3
        S = model.support_
        np.testing.assert_allclose(model.coef_[S], np.linalg.lstsq(D[:, S], d, rcond=None)[0], rtol=1e-7)


@pytest.mark.parametrize("name", RIVALS)
@law(4)
@given(seed=seeds, mu=st.floats(0, 1))
def test_law_14_every_rival_without_penalty_ends_at_least_squares(name, seed, mu):
    """Every rival on one client with lambda = 0 and a small rate ends at least squares, for every mu."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((60, 4))
    y = A @ np.ones(4) + 0.3 * rng.standard_normal(60)
    options = {"strong_convexity": mu} if name == "FastFedDualAvg" else {}
    method = rival(name, 0.1, tau=4, steps=10, weight=0, **options)
    found = last(fgmp.simulate(method, federation([A], [y]), 150, rng=0))
    slow = options.get("strong_convexity", 0) > 0  # whose averages forget the start as 1/t
    np.testing.assert_allclose(found, np.linalg.lstsq(A, y, rcond=None)[0], atol=5e-3 if slow else 1e-6)


HOSTILE = ("plain", "tall", "few rows", "copies", "combined", "units", "one-hot", "centred", "rank one", "zero column")


def hostile(rng, kind, rows=24, n=10):
    """Features on which first-order methods and rank decisions go wrong."""
    A = rng.standard_normal((6 if kind == "few rows" else 90 if kind == "tall" else rows, n))
    if kind == "copies":
        A[:, n // 2 :] = A[:, : n - n // 2]
    elif kind == "combined":
        A[:, 4:] = A[:, :4] @ rng.standard_normal((4, n - 4))
    elif kind == "units":
        A *= np.logspace(-4, 4, n)
    elif kind == "one-hot":
        A = np.c_[np.ones(rows), np.eye(n - 1)[rng.integers(0, n - 1, rows)]]
    elif kind == "centred":  # a column of ones, to which all others are orthogonal, and close to one another
        A = A + 3 * A[:, :1]
        A = np.c_[np.ones(rows), ((A - A.mean(0)) / A.std(0))[:, 1:]]
    elif kind == "rank one":
        A = np.outer(A[:, 0], A[0])
    elif kind == "zero column":
        A[:, 0] = 0
    return A


@law(60)
@given(seed=seeds, kind=st.sampled_from(HOSTILE), loss=st.sampled_from(LOSSES), shift=st.sampled_from([0, 5]))
def test_law_15_an_automatic_rate_is_at_most_two_over_the_largest_curvature(seed, kind, loss, shift):
    """An automatic rate is at most 2 / lambda_max, on any data."""
    rng = np.random.default_rng(seed)
    A = hostile(rng, kind)
    y = targets(rng, A, loss) + (shift if loss == "squared" else 0)
    method = fgmp.FedGradMP(A.shape[1], 1, solver=fgmp.SGD(steps=1))
    x = last(fgmp.simulate(method, federation([A], [y], loss), 1, rng=0)).ravel()
    g = slopes(loss, A, y, np.zeros((A.shape[1], 3) if loss == "softmax" else A.shape[1])).mean(0)
    rate = -(x @ g) / (g @ g)
    np.testing.assert_allclose(x, -rate * g, atol=1e-9 * np.abs(x).max())  # it was one step along the gradient
    curvature = np.linalg.norm(A, 2) ** 2 / len(A) / {"squared": 1, "logistic": 4, "softmax": 3}[loss]
    assert 0 < rate <= 2 / curvature


DEFICIENT = ("few rows", "copies", "combined", "one-hot", "rank one", "zero column")
SOLVED = [(loss, s) for loss in LOSSES[:2] for s in (*local_solvers(1), *pooled_solvers(loss, 1), "polish")]


@pytest.mark.parametrize("loss, solver", SOLVED)
@law(7)
@given(seed=seeds, kind=st.sampled_from(DEFICIENT), steps=st.integers(1, 40))
def test_law_16_no_solver_raises_the_objective_on_a_rank_deficient_system(loss, solver, seed, kind, steps):
    """No solver, local or pooled, raises f on a rank-deficient system, at any number of steps."""
    rng = np.random.default_rng(seed)
    assume(loss == "squared" or kind != "few rows")  # which can be told apart, and then there is no minimiser
    A = hostile(rng, kind, 40, 30 if kind == "few rows" else 10)
    y, n = targets(rng, A, loss) if loss == "squared" else rng.choice([-1.0, 1.0], len(A)), A.shape[1]
    one, several = federation([A], [y], loss), federation(np.array_split(A, 3), np.array_split(y, 3), loss)
    pooled = pooled_solvers(loss, steps)
    if solver in pooled:
        result = fgmp.simulate(fgmp.SharedSupportGradMP(n, solver=pooled[solver]), several, 3, rng=0)
        path = result.history["objective"]
    elif solver == "polish":
        start = fgmp.simulate(rival("FedAvg", 0.01), several, 1, rng=0)
        path = np.array([several.objective(start.x), several.objective(fgmp.polish(start, several).x)])
    else:
        method = fgmp.FedGradMP(n, 1, solver=local_solvers(steps)[solver])
        path = fgmp.simulate(method, one, 3, rng=0).history["objective"]
    assert np.diff(path).max() <= 1e-9 * path[0], path


@law(60)
@given(seed=seeds, rows=st.integers(4, 24), null=st.booleans(), n_atoms=st.integers(2, 14))
def test_law_17_exact_solves_in_a_dictionary_never_end_above_zero(seed, rows, null, n_atoms):
    """Exact solves in a dictionary never end above f_i(0). On all atoms, so that nothing is cut after the solve."""
    rng = np.random.default_rng(seed)
    A, psi = rng.standard_normal((rows, 8)), fgmp.Dictionary(rng.standard_normal((8, n_atoms)))
    if null:
        A[:, 0] = 0
    fed = federation([A], [rng.standard_normal(rows)])
    path = fgmp.simulate(fgmp.FedGradMP(n_atoms, 1, dictionary=psi), fed, 3, rng=0).history["objective"]
    assert path.max() <= path[0] * (1 + 1e-9)


SLOW = {"svrg": ("plain", "tall", "copies", "one-hot")}  # kinds on which 10,000 passes are not what it needs


@pytest.mark.parametrize("solver", ["gradient", "conjugate", "newton", "svrg"])
@law(4)
@given(seed=seeds, data=st.data(), exponent=st.integers(2, 8), wide=st.booleans())
def test_law_18_a_signal_is_within_its_accuracy_or_there_is_a_warning(solver, seed, data, exponent, wide):
    """`accuracy=delta`: the signal is within delta, or it warns."""
    rng, kind = np.random.default_rng(seed), data.draw(st.sampled_from(SLOW.get(solver, HOSTILE)))
    delta, A = 10.0 ** -(exponent if solver != "svrg" else min(exponent, 4)), hostile(rng, kind, n=6)
    y, kinds = targets(rng, A, "squared"), {"gradient": fgmp.GradientDescent, "conjugate": fgmp.ConjugateGradient}
    kinds |= {"newton": fgmp.Newton, "svrg": partial(fgmp.SVRG, batch_size=4)}
    psi = fgmp.Dictionary(rng.standard_normal((6, 9)) if wide else np.eye(6)[:, ::-1])
    method = fgmp.FedGradMP(psi.atoms.shape[1], 1, dictionary=psi, solver=kinds[solver](accuracy=delta))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        x = last(fgmp.simulate(method, federation([A], [y]), 1, rng=0))
    distance = np.linalg.norm(np.linalg.pinv(A, rcond=1e-10) @ (A @ x - y))  # of the nearest minimiser
    assert distance <= delta * (1 + 1e-6) or any(word.category is ConvergenceWarning for word in said)


needs_noise = pytest.mark.skipif(not find_spec("dp_accounting"), reason="needs dp-accounting")
needs_masks = pytest.mark.skipif(not (find_spec("cryptography") and find_spec("Crypto")), reason="needs cryptography")
SUMMED = {name: rival(name) for name in RIVALS} | {
    "FedGradMP": fgmp.FedGradMP(3),
    "shared": fgmp.SharedSupportGradMP(3),
}


@needs_noise
@pytest.mark.parametrize("name", SUMMED)
@law(5)
@given(seed=seeds, rows=st.sampled_from([1, 9, 400]), size=st.sampled_from([0.01, 1, 1e4]), clip=st.floats(0.01, 10))
def test_law_19_replacing_a_client_moves_each_sum_by_at_most_two_clips_over_the_cohort(name, seed, rows, size, clip):
    """Replacing one client, its number of rows too, moves each sum by at most 2 C / L."""
    rng = np.random.default_rng(seed)
    As, ys = tables(rng, n_clients=6, rows=15)
    (A,), (y,) = tables(rng, n_clients=1, rows=rows)
    noise, sums = private(5.0, clip, rehearsal_seed=3), []
    for parts in ((As, ys), ([*As[:-1], size * A], [*ys[:-1], -size * y])):
        tapped = Overheard(SUMMED[name])
        fgmp.simulate(tapped, federation(*parts), 1, rng=0, **noise)
        sums.append(numbers_in(tapped.trips[0].got[0]))  # the same noise is in both
    assert 0 < np.linalg.norm(sums[1] - sums[0]) <= 2 * clip / 6 * (1 + 1e-9)


def whole_numbers(thing):
    """Every whole number, string and byte that something holds, however deep: where a secret would be."""
    if isinstance(thing, (int, np.integer, str, bytes)):
        return [thing]
    if isinstance(thing, np.ndarray):
        return thing.tolist() if thing.dtype.kind in "iub" else []
    parts = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else []
    return [
        leaf for part in (vars(thing).values() if hasattr(thing, "__dict__") else parts) for leaf in whole_numbers(part)
    ]


@needs_noise
def test_law_20_noise_cannot_be_computed_from_what_a_client_or_a_result_holds():
    """Noise cannot be computed from anything that a client or a result holds. It differs where all of that is alike."""
    runs, fed = [], federation(*tables(np.random.default_rng(20), n_clients=50))
    for _ in range(2):
        tapped = Overheard(rival("FedAvg"))
        result = fgmp.simulate(tapped, fed, 3, 49, rng=0, **private(2.0, 1.0, delta=1e-3))  # as law 21, accounted once
        runs.append((tapped.trips, result))
    (trips, result), (others, other) = runs
    np.testing.assert_array_equal(numbers_in(trips[0].asked), numbers_in(others[0].asked))
    assert whole_numbers([trip.asked for trip in trips]) == whole_numbers([trip.asked for trip in others])
    assert whole_numbers(result) == whole_numbers(other) and len(whole_numbers(result)) > 8
    assert not np.isin(last(result), last(other)).any()
    assert [list(trip.said) for trip in trips] != [list(trip.said) for trip in others]  # nor can the cohorts


def noise_multiplier(epsilon, delta, n_clients, cohort, rounds):
    """z of a run whose clients have nothing to say, from the 20,000 numbers of its model: known to half a percent."""
    fed = federation([np.zeros((1, 20_000))] * n_clients, [np.zeros(1)] * n_clients)
    noise = private(epsilon, 1.0, delta=delta)
    x = last(fgmp.simulate(rival("FedAvg", steps=1), fed, rounds, cohort, rng=0, **noise))
    return np.sqrt(np.mean(x**2) / rounds) * cohort / 2


@needs_noise
@pytest.mark.parametrize("epsilon, rounds, cohorts", [(2.0, 3, (49,)), (8.0, 20, ()), (0.5, 1, ())])
def test_law_21_the_noise_is_enough_and_sampling_never_makes_it_more(epsilon, rounds, cohorts):
    """z is at most that of the unsampled mechanism; the exact Gaussian epsilon is at most what was asked for."""
    delta, five_sigma = 1e-3, 1.025
    unsampled = noise_multiplier(epsilon, delta, 50, 50, rounds)
    mu = np.sqrt(rounds) / (five_sigma * unsampled)  # all rounds are one Gaussian mechanism: Balle and Wang, 2018
    assert norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) <= delta
    for cohort in cohorts:
        assert noise_multiplier(epsilon, delta, 50, cohort, rounds) <= five_sigma**2 * unsampled


@needs_masks
@pytest.mark.parametrize("name", ["FedAvg", "FastFedDualAvg", "FedGradMP", "shared"])
@law(3)
@given(seed=seeds, size=st.sampled_from([1, 1e3]), bits=st.sampled_from([10, 20, 30]))
def test_law_22_secure_equals_plain_to_the_resolution_and_hides_each_client(name, seed, size, bits):
    """Secure equals plain to the resolution, with dropouts; no single client's number leaves."""
    As, ys = tables(np.random.default_rng(seed), n_clients=6)
    fed, sums, unit = federation(As, [size * y for y in ys]), [], 2.0**-bits
    for options in ({}, secure(resolution=unit, threshold=2)):
        tapped = Overheard(SUMMED[name])
        fgmp.simulate(tapped, fed, 1, rng=seed, **options, **failing(0.3))
        sums.append(sum_got(tapped.trips[0].got[0], 16 if name == "FastFedDualAvg" else 8))
    arrived = len(tapped.trips[0].said)
    largest_error = arrived / 2 * unit * 6 / arrived  # of the sum, over the share of those who came
    np.testing.assert_allclose(sums[1], sums[0], rtol=1e-12, atol=largest_error)
    assert [len(trip.got) for trip in tapped.trips] == [1] * len(tapped.trips)
    for trip in tapped.trips:
        for said in trip.said.values():
            numbers = numbers_in(said)[np.abs(numbers_in(said)) > 1e3 * unit]
            for share in (1, 1 / 6, 1 / arrived):
                assert not np.isclose(
                    share * numbers[:, None], numbers_in(trip.got[0]), rtol=1e-9, atol=unit / 100
                ).any()


def first_exchange(method, As, ys):
    """What each client said first, and what the server then asked."""
    tapped = Overheard(method)
    fgmp.simulate(tapped, federation(As, ys), 1, rng=0)
    return np.array([numbers_in(said) for said in tapped.trips[0].said.values()]), tapped.trips[1].asked


@pytest.mark.parametrize("rows, columns, error", [(3, 20, 0.4), (5, 24, 0.35), (1, 30, 0.4)])
def test_law_23_sketches_add_up_and_fail_within_the_bound(rows, columns, error):
    """The sketch of a sum is the sum of sketches; failures within the bound."""
    rng, n, tau, failed = np.random.default_rng(23), 150, 4, []
    identify = fgmp.CountSketch(rows, columns)
    for seed in range(8):
        method = fgmp.SharedSupportGradMP(tau, identify=identify, seed=seed)
        units, _ = first_exchange(method, np.eye(n)[:, None], -np.ones((n, 1)))  # whose gradients are e_1, .., e_n
        assert units.shape == (n, rows * columns) and (np.abs(units).sum(1) == rows).all()
        As, ys = rng.standard_normal((6, 20, n)) * np.exp(2 * rng.standard_normal(n)), rng.standard_normal((6, 20))
        said, asked = first_exchange(method, As, ys)
        g = np.array([-A.T @ y / 20 for A, y in zip(As, ys, strict=True)])
        np.testing.assert_allclose(said, g @ units, atol=1e-10 * np.abs(g).max())
        pooled, _ = first_exchange(method, [np.vstack(As)], [np.concatenate(ys)])
        np.testing.assert_allclose(said.mean(0), pooled[0], atol=1e-10 * np.abs(g).max())
        hits = units.reshape(n, rows, columns)
        estimates = np.median((hits * said.mean(0).reshape(rows, columns)).sum(2), axis=1)
        failed.append(np.abs(estimates - g.mean(0)) > error * np.linalg.norm(g.mean(0)))
        np.testing.assert_array_equal(asked["support"], largest(np.round(estimates, 9), 2 * tau))
    assert np.mean(failed) <= identify.failure_probability(error) < 0.5


@law(15)
@given(seed=seeds, m=st.integers(3, 12), n=st.integers(3, 9), tau=st.integers(1, 3))
def test_law_24_enumerated_constants_lie_between_inner_and_outer(seed, m, n, tau):
    """Enumerated constants lie between inner and outer; minibatch variance equals enumeration."""
    B = np.random.default_rng(seed).standard_normal((m, n))
    spectra = [np.linalg.svd(B[:, S], compute_uv=False) ** 2 / m for S in combinations(range(n), tau)]
    least, most = min(s[-1] if m >= tau else 0 for s in spectra), max(s[0] for s in spectra)
    exact = theory.restricted_constants(B, tau)
    np.testing.assert_allclose([exact.lower, exact.upper], [least, most], atol=1e-12)
    inner = theory.inner_restricted_constants(B, tau, n_supports=20)
    outer = theory.outer_restricted_constants(B, tau)
    assert outer.lower - 1e-12 <= least <= inner.lower + 1e-12 and inner.upper - 1e-12 <= most <= outer.upper + 1e-12


@pytest.mark.parametrize("loss", LOSSES)
@law(8)
@given(seed=seeds, b=st.integers(1, 6))
def test_law_24_minibatch_variance_equals_enumeration(loss, seed, b):
    """Enumerated constants lie between inner and outer; minibatch variance equals enumeration."""
    rng = np.random.default_rng(seed)
    (A,), (y,) = tables(rng, loss, 1, 7, 5)
    x = rng.standard_normal((5, 3) if loss == "softmax" else 5)
    d = slopes(loss, A, y, x)
    expected = np.mean([np.sum((d[list(rows)].mean(0) - d.mean(0)) ** 2) for rows in combinations(range(7), b)])
    found = theory.minibatch_variance(federation([A], [y], loss).clients[0], x, b)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@law(15)
@given(seed=seeds, n_atoms=st.integers(2, 8), sparsity=st.integers(1, 3), unit=st.sampled_from([1e-9, 1e-3, 37.0, 1e8]))
def test_law_25_the_error_of_ksvd_never_grows_and_does_not_depend_on_units(seed, n_atoms, sparsity, unit):
    """K-SVD's error never grows and does not depend on units."""
    rng, sparsity = np.random.default_rng(seed), min(sparsity, n_atoms)
    frames = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 12)) + 0.3 * rng.standard_normal((20, 12))
    errors = []
    for iterations in range(6):
        fit = fgmp.fit_ksvd(frames, n_atoms, sparsity, iterations=iterations, rng=0)
        assert (np.count_nonzero(fit.codes, axis=0) <= sparsity).all()
        errors.append(np.linalg.norm(frames.T - fit.dictionary.atoms @ fit.codes) / np.linalg.norm(frames))
    np.testing.assert_allclose(fit.errors, errors, atol=1e-12)
    assert np.diff(errors).max() <= 1e-12
    other = fgmp.fit_ksvd(unit * frames, n_atoms, sparsity, iterations=5, rng=0)
    np.testing.assert_allclose(other.dictionary.atoms, fit.dictionary.atoms, atol=1e-6)
    np.testing.assert_allclose(other.errors, fit.errors, atol=1e-9)


@every_pair
@law(2)
@given(seed=seeds, kind=st.sampled_from(["plain", "copies", "offset"]), everything=st.booleans())
def test_law_26_the_objective_in_float32_is_that_of_float64(loss, name, seed, kind, everything):
    """The objective in float32 is within 1e-5 of float64, relative to f(0), for each loss and solver."""
    rng = np.random.default_rng(seed)
    assume(everything or kind != "copies")  # of which rounding chooses
    As, ys = tables(rng, loss, rows=120)  # no client's labels can be told apart
    if kind == "copies":
        As = [np.c_[A[:, :5], A[:, :3]] for A in As]
    elif kind == "offset" and loss == "squared":
        ys = [y + 100 for y in ys]
    As = [A.astype(np.float32) for A in As]
    if loss == "squared":
        ys = [y.astype(np.float32) for y in ys]
    paths = []
    for precision in (np.float32, np.float64):
        own = [y.astype(precision) for y in ys] if loss == "squared" else ys
        fed = federation([A.astype(precision) for A in As], own, loss)
        assert fed.dtype == precision
        result = fgmp.simulate(every_method(loss, 8 if everything else 3, 4)[name], fed, 3, rng=0)
        paths.append(result.history["objective"])
    assert np.abs(paths[1] - paths[0]).max() <= 1e-5 * paths[1][0]


@every_pair
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_law_27_bytes_are_the_sum_of_what_is_sent(loss, name, precision):
    """Bytes of a message are the sum of what is sent."""
    As, ys = tables(np.random.default_rng(27), loss, 5, 30, 40)
    fed = federation([A.astype(precision) for A in As], ys, loss)
    tapped = Overheard(every_method(loss, 3)[name])
    history = fgmp.simulate(tapped, fed, 3, 4, rng=0).history
    down = [bytes_of(trip.asked) * len(trip.said) for trip in tapped.trips]
    up = [sum(map(bytes_of, trip.said.values())) for trip in tapped.trips]
    each = len(down) // 3
    assert len(down) == 3 * each and all(len(trip.said) == 4 for trip in tapped.trips)
    np.testing.assert_array_equal(np.diff(history["bytes_down"]), np.reshape(down, (3, each)).sum(1))
    np.testing.assert_array_equal(np.diff(history["bytes_up"]), np.reshape(up, (3, each)).sum(1))
