"""Compiled kernels equal the reference implementation, and stand for nothing else; and how Numba may fail."""

import asyncio
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cases import with_exchanges
from scipy import sparse

import fgmp
from fgmp import backends
from fgmp.dictionaries import StandardBasis
from fgmp.fast import dispatch
from fgmp.fast.models import DenseModels, SparseModels

numba = pytest.importorskip("numba")
kernels = pytest.importorskip("fgmp.fast.kernels")
compilation = pytest.importorskip("fgmp.fast.compilation")
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
# As in `make mutants`, which runs kernels as Python.
IS_COMPILED = not kernels.numba.config.DISABLE_JIT
# Of the largest client. A kernel that runs as Python would take minutes for as many.
MANY_ROWS, MANY_IN_A_BATCH = (2100, 700) if IS_COMPILED else (60, 50)

STEPS = {"learning_rate": 0.05, "local_iterations": 4, "batch_size": 9}
ROTATED = fgmp.Dictionary(np.linalg.qr(np.random.default_rng(0).standard_normal((30, 30)))[0])
KERNELS = {
    "pursuit": fgmp.FedGradMP(4, batch_size=9),
    "full batch": fgmp.FedGradMP(4, solver=fgmp.Exact()),
    "orthonormal": fgmp.FedGradMP(4, batch_size=9, dictionary=ROTATED),
    "everything": fgmp.FedGradMP(30, batch_size=9),
    "sgd": fgmp.FedGradMP(4, batch_size=9, solver=fgmp.SGD(learning_rate=0.05, batch_size=7)),
    "one_step": fgmp.FedGradMP(4, batch_size=9, solver=fgmp.GradientDescent(steps=1)),
    "average": fgmp.FedAvg(**STEPS, server_learning_rate=0.5),
    "large": fgmp.FedAvg(**STEPS | {"batch_size": MANY_IN_A_BATCH}),
    "server": fgmp.FedHT(sparsity=4, **STEPS),
    "hard": fgmp.FedIterHT(sparsity=4, **STEPS),
    "soft": fgmp.FedMid(l1_weight=0.05, **STEPS),
    "dual": fgmp.FedDualAvg(l1_weight=0.05, **STEPS),
}


def data(loss, dtype=np.float64, rows=(12, 30, 25, MANY_ROWS)):
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((m, 30)).astype(dtype) for m in rows]
    x = np.vstack([rng.standard_normal((4, 3)), np.zeros((26, 3))])
    scores = [A @ x + 0.3 * rng.standard_normal((len(A), 3)) for A in As]
    ys = {
        "squared": [z[:, 0].astype(dtype) for z in scores],
        "logistic": [np.sign(z[:, 0]) for z in scores],
        "softmax": [z.argmax(axis=1) for z in scores],
    }
    losses = {
        "squared": "squared",
        "logistic": fgmp.LogisticLoss(margin=2.0),
        "softmax": fgmp.SoftmaxLoss(3),
    }
    return fgmp.Federation.from_arrays(As, ys[loss], losses[loss])


@lru_cache
def as_in_a_loop(helper):
    """What a loop computes that calls a helper, which has no entry point for Python."""
    return numba.njit(lambda *given: helper(*given))


def both(method, federation, rounds=4, cohort_size=3):
    """A run with kernels, and one without."""
    compiled = fgmp.simulate(method, federation, rounds, cohort_size, 3)
    with fgmp.backend("reference"):
        reference = fgmp.simulate(method, federation, rounds, cohort_size, 3)
    updates = rounds * cohort_size * len(method.exchanges())
    assert reference.backend == "reference"
    assert reference.fallbacks == {"reference backend chosen": updates}
    return compiled, reference


def fallbacks_of(method, federation):
    """Why no update of a run came from a kernel."""
    result = fgmp.simulate(method, federation, 2, 3, 3)
    assert result.backend == "reference"
    (reason,) = result.fallbacks
    assert result.fallbacks[reason] == 2 * 3 * len(method.exchanges())
    return reason


def close(one, other, dtype):
    scale = max(np.abs(other.x).max(), 1e-300)
    np.testing.assert_allclose(
        one.x / scale, other.x / scale, atol=1e-11 if dtype == np.float64 else 2e-4
    )
    np.testing.assert_array_equal(one.history["bytes_down"], other.history["bytes_down"])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_is_taken_and_equals_the_reference(name, loss, dtype):
    """The results agree, and only full batches of losses that are not squared fall back."""
    if name == "full batch" and loss != "squared":
        reason = "no kernel for these options or data"  # exact minimisers of other losses
        assert fallbacks_of(KERNELS[name], data(loss, dtype)) == reason
        return
    compiled, reference = both(KERNELS[name], data(loss, dtype))
    assert compiled.backend == "compiled" and not compiled.fallbacks
    close(compiled, reference, dtype)


WIDE = fgmp.gaussian_dictionary(30, 40, rng=1, approximation="thresholding")
SOLVERS = {
    "sgd": fgmp.SGD(learning_rate=0.05, steps=3, batch_size=5),
    "sgd, all rows": fgmp.SGD(learning_rate=0.05),
    "one step": fgmp.GradientDescent(steps=1),
    "five steps": fgmp.GradientDescent(steps=5),
}
SELECTIONS = {
    "entries": fgmp.PerOutput(),
    "entries beside two atoms": fgmp.PerOutput(always_include=(3, 7)),
    "atoms": fgmp.PerAtom(),
    "atoms beside one": fgmp.PerAtom(always_include=2),
}


# In this order tests of one compiled signature follow one another.
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dictionary", [None, ROTATED, WIDE], ids=["standard", "rotated", "wide"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_kernels_of_algorithm_2_equal_the_reference(solver, dictionary, loss, dtype):
    """With every selection, with minibatches and without, with a ball and without."""
    federation = data(loss, dtype, rows=(12, 30, 25))
    options = {} if dictionary is None else {"dictionary": dictionary}
    for selection in SELECTIONS.values():
        for batch_size, radius in ((9, None), (None, 0.8)):
            method = fgmp.FedGradMP(
                4,
                2,
                batch_size,
                solver=SOLVERS[solver],
                radius=radius,
                selection=selection,
                **options,
            )
            compiled, reference = both(method, federation, rounds=3)
            assert compiled.backend == "compiled" and not compiled.fallbacks
            np.testing.assert_array_equal(compiled.support, reference.support)
            close(compiled, reference, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("values", ["different", "few", "one", "huge", "tiny", "wide"])
def test_selection_in_a_kernel_breaks_ties_towards_the_lower_index(values, dtype):
    """The marked entries are the first in an order by decreasing size, then by index."""
    rng = np.random.default_rng(3)
    limits = np.finfo(dtype)
    for n, count in ((1, 1), (7, 3), (200, 40), (200, 199), (50, 80)):
        sizes = {
            "different": rng.random(n),
            "few": rng.integers(-1, 3, n),
            "one": np.full(n, 2.0),
            "huge": limits.max * (1 - rng.random(n) / 3),
            "tiny": limits.smallest_subnormal * rng.integers(0, 50, n).astype(dtype),
            "wide": 2.0 ** rng.uniform(limits.minexp, limits.maxexp - 1, n),
        }[values].astype(dtype)
        marked = np.zeros(n, bool)
        as_in_a_loop(kernels.mark_largest)(sizes, count, marked)
        order = np.lexsort((np.arange(n), -sizes))
        expected = [j for j in order[:count] if sizes[j] >= 0]
        assert np.flatnonzero(marked).tolist() == sorted(expected)


@pytest.mark.parametrize("solver", ["sgd, all rows", "five steps"])
def test_dependent_atoms_are_left_to_the_reference(solver):
    """Three atoms in a plane have no Cholesky factor: the reference takes the shortest solution."""
    atoms = np.eye(30)[:, :12]
    atoms = np.column_stack([atoms, atoms[:, 0] + atoms[:, 1]])
    dictionary = fgmp.Dictionary(atoms, approximation="thresholding")
    method = fgmp.FedGradMP(13, dictionary=dictionary, solver=SOLVERS[solver])
    compiled = fgmp.simulate(method, data("squared"), 3, rng=0)
    with fgmp.backend("reference"):
        reference = fgmp.simulate(method, data("squared"), 3, rng=0)
    assert compiled.backend == "reference"
    assert set(compiled.fallbacks) == {"nearly singular or not finite"}
    np.testing.assert_array_equal(compiled.x, reference.x)


@pytest.mark.parametrize("name", ["sgd", "one_step"])
def test_a_client_whose_steps_overflow_is_left_to_the_reference(name):
    """Client 2 overflows; the other three are the kernel's, and the run ends as the reference."""
    federation = data("squared")
    federation.features[42:67] *= 1e200
    compiled, reference = both(KERNELS[name], federation, 2, 4)
    assert compiled.backend == "mixed"
    assert compiled.fallbacks == {"nearly singular or not finite": 2}
    assert compiled.rejected == reference.rejected and compiled.rejected["not_finite"] > 0
    close(compiled, reference, np.float64)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="not on Linux")
@pytest.mark.skipif(not IS_COMPILED, reason="too slow as Python")
@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", ["pursuit", "sgd", "average"])
def test_minibatches_of_many_rows_take_the_memory_of_one(name):
    """A hundred minibatches of 200,000 rows hold 160 MB of random words, and one holds 1.6 MB."""

    def peak():
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e3

    method = replace(KERNELS[name], local_iterations=100)
    fgmp.simulate(method, data("squared"), 1, rng=0)  # compiled, or loaded
    A = np.random.default_rng(0).standard_normal((200_000, 2))
    federation = fgmp.Federation.from_arrays([A], [A[:, 0]])
    if isinstance(method, fgmp.FedGradMP):
        method = replace(method, sparsity=1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = peak()
    fgmp.simulate(method, federation, 1, rng=0)
    assert peak() - before < 40


class Coarse(StandardBasis):
    def select_atoms(self, gradient, count, selection):
        return super().select_atoms(gradient.round(1), count, selection)


class ExactToo(fgmp.Exact):
    """A solver that may do something else."""


REFERENCE = {
    "a basis of its own": fgmp.FedGradMP(4, dictionary=Coarse()),
    "a ball": fgmp.FedGradMP(4, radius=1.0),
    "another solver": fgmp.FedGradMP(4, solver=fgmp.Newton(steps=2)),
    "an accuracy": fgmp.FedGradMP(4, solver=fgmp.GradientDescent(accuracy=1e-3)),
    "a subclass of the solver": fgmp.FedGradMP(4, solver=ExactToo()),
    "a dictionary": fgmp.FedGradMP(4, dictionary=fgmp.gaussian_dictionary(30, 40, rng=0)),
    "atoms that stay": fgmp.FedGradMP(4, selection=fgmp.PerOutput(always_include=0)),
    "another selection": fgmp.FedGradMP(4, selection=fgmp.Overall()),
    "an intercept that stays": fgmp.FedAvg(selection=fgmp.PerOutput(always_include=0), **STEPS),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_options_without_a_kernel_run_the_reference(name):
    """Every update falls back, and the reason is the options or the data."""
    assert fallbacks_of(REFERENCE[name], data("squared")) == "no kernel for these options or data"


@pytest.mark.parametrize("sparsity", [50, 51, 120])
def test_a_kernel_solves_small_systems_and_keeps_any_number_of_entries(sparsity):
    """Least squares with tau = 51 are left to LAPACK; hard thresholding never is."""
    federation = fgmp.make_sparse_regression(3, 250, 120, 4, rng=0)
    pursuit = fgmp.simulate(fgmp.FedGradMP(sparsity, 1), federation, 1, rng=0)
    assert pursuit.backend == ("compiled" if sparsity <= 50 else "reference")
    method = fgmp.FedIterHT(sparsity=sparsity, learning_rate=0.01)
    compiled, reference = both(method, federation, 3)
    assert compiled.backend == "compiled"
    np.testing.assert_array_equal(np.flatnonzero(compiled.x), np.flatnonzero(reference.x))
    close(compiled, reference, np.float64)


@pytest.mark.parametrize("layout", ["sparse", "transposed"])
@pytest.mark.parametrize("name", ["pursuit", "average"])
def test_rows_that_are_not_one_dense_array_run_the_reference(name, layout):
    """Sparse and transposed features fall back."""
    federation = data("squared")
    features = federation.features
    if layout == "sparse":
        As = [sparse.csr_array(client.features) for client in federation.clients]
        ys = [client.targets for client in federation.clients]
        federation = fgmp.Federation.from_arrays(As, ys)
    else:
        federation = replace(federation, features=np.asfortranarray(features))
    assert fallbacks_of(KERNELS[name], federation) == "no kernel for these options or data"


@pytest.mark.parametrize("name", ["pursuit", "average"])
def test_a_subclass_of_a_loss_runs_the_reference(name):
    """Its own derivative is used, and the reason is the loss."""

    class SignLoss(fgmp.SquaredLoss):
        def derivative(self, predictions, targets):
            return np.sign(predictions - targets)

    clients = data("squared").clients
    federation = fgmp.Federation.from_arrays(
        [client.features for client in clients], [client.targets for client in clients], SignLoss()
    )
    assert fallbacks_of(KERNELS[name], federation) == "no kernel for this loss"


@pytest.mark.parametrize(
    "method", [fgmp.SharedSupportGradMP(4), fgmp.FastFedDualAvg(l1_weight=0.05, **STEPS)], ids=repr
)
def test_a_method_without_a_kernel_runs_the_reference(method):
    """Every update falls back, and the reason is the method."""
    assert fallbacks_of(method, data("squared")) == "no kernel for this method"


def counting(method_class, step):
    """A subclass that overrides one step, and the calls of it."""
    calls, inherited = [], getattr(method_class, step)

    def overridden(self, *arguments):
        calls.append(step)
        return inherited(self, *arguments)

    return type("Overridden", (method_class,), {step: overridden}), calls


STEPS_OF_CLASSES = [
    (fgmp.FedGradMP, "client_update", {"sparsity": 4}, "no kernel for this method"),
    (fgmp.FedGradMP, "prune", {"sparsity": 4}, "overridden step"),
    (fgmp.FedAvg, "client_update", STEPS, "no kernel for this method"),
    (fgmp.FedAvg, "thresholded", STEPS, "overridden step"),
    (fgmp.FedIterHT, "thresholded", STEPS | {"sparsity": 4}, "overridden step"),
    (fgmp.FedMid, "thresholded", STEPS | {"l1_weight": 0.05}, "overridden step"),
    (fgmp.FedDualAvg, "client_update", STEPS | {"l1_weight": 0.05}, "no kernel for this method"),
    (fgmp.FedDualAvg, "thresholds", STEPS | {"l1_weight": 0.05}, "overridden step"),
]


@pytest.mark.parametrize("method_class, step, options, reason", STEPS_OF_CLASSES)
def test_a_subclass_that_overrides_a_step_runs_its_own(method_class, step, options, reason):
    """The step of the subclass is called, and the reason says why no kernel ran."""
    overridden, calls = counting(method_class, step)
    assert fallbacks_of(overridden(**options), data("squared")) == reason
    assert calls


@pytest.mark.parametrize("method_class, step, options, reason", STEPS_OF_CLASSES)
def test_a_subclass_that_overrides_none_has_the_kernel(method_class, step, options, reason):
    """A new name and docstring alone leave the kernel in use."""
    named = type("Named", (method_class,), {"__doc__": "Another name."})
    assert fgmp.simulate(named(**options), data("squared"), 2, rng=0).backend == "compiled"


def test_an_exchange_with_a_function_of_its_own_runs_it():
    """A client update of its own makes the method one without a kernel."""
    method = fgmp.FedAvg(**STEPS)
    own = with_exchanges(
        method,
        lambda index, exchange: exchange._replace(
            client_update=lambda client, w, rng: exchange.client_update(client, w, rng)
        ),
    )
    assert fallbacks_of(own, data("squared")) == "no kernel for this method"


def test_clients_that_a_kernel_does_not_solve_run_the_reference():
    """Client 1 has every column twice, client 2 overflows; the others are the kernel's."""
    federation = data("squared")
    federation.features[12:42, 15:] = federation.features[12:42, :15]
    compiled, reference = both(KERNELS["pursuit"], federation, 3, 4)
    assert compiled.backend == "mixed"
    assert compiled.fallbacks == {"nearly singular or not finite": 3}
    close(compiled, reference, np.float64)
    federation.features[42:67] *= 1e300
    for run in both(KERNELS["pursuit"], federation, 2, 4):
        assert run.rejected["not_finite"] <= 2 and run.history["clients"][-1] in (3, 4)


def test_updates_that_a_kernel_left_are_filled_in_and_counted_apart(monkeypatch):
    """In their places in the cohort, over several cohorts."""
    clients = fgmp.LocalClients(data("squared"))
    record = clients.backend_record
    monkeypatch.setattr(fgmp.LocalClients, "clients", ["a", "b", "c"])
    call = SimpleNamespace(
        exchange=fgmp.FedGradMP(3).exchanges()[0],
        update_of=lambda client, message: f"{client} {message}",
    )
    for unsolved, expected in (((), [1, 2]), ((1,), [1, "c sent"]), ((0, 1), ["a sent", "c sent"])):
        computed = backends.KernelUpdates([1, 2], unsolved)
        kernel = backends.Kernel(lambda *given, computed=computed: computed, {}, (), None)
        updates = clients._run_kernel(kernel, call, "sent", np.array([0, 2]))
        assert updates == expected
    assert record.compiled == 3 and record.backend == "mixed"
    assert record.fallbacks == {"nearly singular or not finite": 3}


def test_a_run_in_which_a_kernel_solves_for_nobody_is_the_reference():
    """With nearly singular columns every update falls back, and the run says reference."""
    A = np.repeat(np.random.default_rng(0).standard_normal((30, 6)), 2, axis=1)
    federation = fgmp.Federation.from_arrays([A, -A], [A[:, 0], A[:, 2]])
    assert fgmp.simulate(fgmp.FedGradMP(4), federation, 0).backend is None
    result = fgmp.simulate(fgmp.FedGradMP(4), federation, 2, rng=0)
    assert result.backend == "reference"
    assert result.fallbacks == {"nearly singular or not finite": 4}


@pytest.mark.parametrize(
    "name, loss",
    [
        ("pursuit", "squared"),
        ("hard", "softmax"),
        ("dual", "squared"),
        ("sgd", "softmax"),
        ("one_step", "logistic"),
    ],
)
def test_threads_do_not_change_a_bit(name, loss, monkeypatch):
    """One thread and forty end at the same bits."""
    monkeypatch.setattr("fgmp.fast.dispatch._FEW_MULTIPLICATIONS", 0)
    ends = []
    for threads in (1, 2, 5, 40):
        monkeypatch.setattr(kernels.numba.config, "NUMBA_NUM_THREADS", threads)
        ends.append(fgmp.simulate(KERNELS[name], data(loss), 4, rng=1).x)
    assert all(np.array_equal(ends[0], end) for end in ends)


@pytest.mark.skipif(not IS_COMPILED, reason="nothing is compiled")
def test_a_process_that_compiles_has_the_bits_of_one_that_loads():
    """What is called may be compiled once more for its caller, with other sums; so nothing is, all is inlined."""
    dispatchers = [getattr(one, "compiled", one) for one in vars(kernels).values()]
    found = [one.targetoptions for one in dispatchers if hasattr(one, "targetoptions")]
    inner = [options for options in found if options.get("fastmath")]
    outer = [options for options in found if not options.get("fastmath")]
    assert len(inner) == len(kernels._HELPERS)
    assert all(options["forceinline"] for options in inner)
    assert len(outer) == 4
    assert all(options["nogil"] and "parallel" not in options for options in outer)


def test_in_the_span_of_the_rows(monkeypatch):
    """Few rows of many features: softmax steps go through the products of the rows, and end where they would."""
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((10, 200)) for _ in range(4)]
    federation = fgmp.Federation.from_arrays(
        As, [rng.integers(0, 3, 10) for _ in As], fgmp.SoftmaxLoss(3)
    )
    method = fgmp.FedAvg(learning_rate=0.1, local_iterations=20, batch_size=5)
    made, row_products = [], dispatch._row_products
    monkeypatch.setattr(
        dispatch, "_row_products", lambda *given: made.append(row_products(*given)) or made[-1]
    )
    compiled, reference = both(method, federation)
    assert compiled.backend == "compiled" and len(made) == 4 and made[0].shape == (40, 10)
    assert all(products is made[0] for products in made)  # once a run
    close(compiled, reference, np.float64)
    # The arrays are the caller's: what he writes into them between two runs is what the next one sees.
    federation.features[:] *= 0.5
    close(*both(method, federation), np.float64)
    assert made[-1] is not made[0]


@pytest.mark.parametrize("start", [0, 1, 6])
@pytest.mark.parametrize("length", [1, 4, 23])
@pytest.mark.parametrize("key", [(7, 2**63 + 5), (2**64 - 1, 2**64 - 3), (0, 0)])
def test_the_words_are_those_of_numpy(key, length, start):
    """The keyed stream has the same words as NumPy's Philox, from any start."""
    key, counter = np.array(key, np.uint64), np.array([0, 3 << 32 | 5, 2**40, 11], np.uint64)
    bits = np.random.Philox(key=key, counter=counter)
    with np.errstate(over="ignore"):  # as Python, words overflow aloud
        stream = kernels.RandomStream(key, 3, 5, 11)
        words = as_in_a_loop(kernels.keyed_words)(stream, 2**40, start, length)
    np.testing.assert_array_equal(words, bits.random_raw(start + length)[start:])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_selection_refuses_what_is_not_a_finite_number(bad):
    """Nothing is marked then, and hard thresholding leaves such a row as it is."""
    counted = kernels.CountedEntries(2, False, np.zeros(4, bool))
    is_marked = np.zeros((1, 4), bool)
    mark_selected = as_in_a_loop(kernels.mark_selected)
    assert not mark_selected(np.array([[1.0, 3, bad, 2]]), 2, counted, is_marked)
    assert not is_marked.any()
    v = np.array([[1.0, -3, bad, 2], [1, -3, 0, 2]])
    as_in_a_loop(kernels.hard_threshold)(v, 2)
    np.testing.assert_array_equal(v, [[1, -3, bad, 2], [0, -3, 0, 2]])


def test_columns_nearly_alike_in_units_far_apart_cost_no_accuracy():
    """The pursuit finds the three columns, and their values to eleven digits."""
    rng, ends = np.random.default_rng(60), np.arange(40, 201, 40)
    A, truth = rng.normal(size=(200, 60)), rng.normal(size=3) * [1e5, 1, 1e5]
    A[:, 1] = A[:, 0] + 1e-4 * A[:, 1]
    A *= np.where(np.arange(60) % 2, 1e150, 1e145)
    rows = kernels.CohortData(
        A, A[:, :3] @ truth, ends - 40, ends, np.full(5, 20), np.arange(5, dtype=np.int64)
    )
    stream = kernels.RandomStream(np.array([7, 5], np.uint64), 1, 2, 9)
    supports, values = np.zeros((5, 3), np.int64), np.zeros((5, 3))
    counts = np.zeros(5, np.int64)
    with np.errstate(over="ignore"):
        counted = kernels.CountedEntries(3, False, np.zeros(60, bool))
        products = kernels.AtomProducts(np.empty((0, 0)), np.empty(0))
        start = np.arange(3), truth / 2
        task = kernels.Pursuit(2, counted, products, *start, supports, values, counts)
        given = 0, 5, rows, stream, task
        kernels.pursuit_loop.compiled_for(*given)(*given)
    assert (counts == 3).all() and (supports == np.arange(3)).all()
    assert np.abs(values / truth - 1).max() <= 1e-11


def fill(first, last, out):
    for i in range(first, last):
        out[i] = 7


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder of Numba's own, with `fill` compiled in it."""
    if not IS_COMPILED:
        pytest.skip("nothing is compiled")
    monkeypatch.setattr(kernels.numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compilation.CompiledLoop, "_lost_folders", set())
    assert filled(compilation.CompiledLoop(fill)) == []
    assert len(list(tmp_path.rglob("test_compiled.fill-*.nb?"))) == 2
    return tmp_path


def filled(loop, dtype=float):
    """What a loop says while it does its work."""
    out = np.zeros(3, dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop.compiled_for(0, 2, out)(0, 2, out)
    assert out.tolist() == [7, 7, 0] and all(w.category is fgmp.AdviceWarning for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("content", [b"", b"\0" * 50, b"cut"])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_cache_is_said_once_and_done_without(suffix, content, cache):
    """One advice has the folder, the file and the variable, and the next loop is silent."""
    for file in cache.rglob(f"*.{suffix}"):
        file.write_bytes(file.read_bytes()[:40] if content == b"cut" else content)
    (said,) = filled(compilation.CompiledLoop(fill))
    assert (
        said.startswith(f"Numba's cache {cache}") and "test_compiled.fill-* cannot be used" in said
    )
    assert "NUMBA_CACHE_DIR" in said
    assert (
        filled(compilation.CompiledLoop(fill)) == []
    )  # once in a process, for all that lies there


@pytest.mark.parametrize("number", [28, 27, 13, 30, 122])
def test_a_cache_that_cannot_be_written_is_said_once_and_done_without(number, cache, monkeypatch):
    """A full disk, too large a file, no permission, a read-only disk, a quota."""

    def failing(*given, **options):
        raise OSError(number, os.strerror(number))

    loop, replace = compilation.CompiledLoop(fill), os.replace
    monkeypatch.setattr(os, "replace", failing)
    (said,) = filled(loop, np.float32)
    assert os.strerror(number) in said and filled(loop, np.int16) == []
    monkeypatch.setattr(os, "replace", replace)


def test_it_is_said_of_the_machine_inside_a_fit_too(cache):
    """The advice on a damaged cache is given even where advice is suppressed."""
    for file in cache.rglob("*.nbi"):
        file.write_bytes(b"")
    with fgmp._support.warnings.suppress_advice():
        assert len(filled(compilation.CompiledLoop(fill))) == 1


def run_with_numba(package, tmp_path):
    """What a process says in which Numba is another package, or with None is missing."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(package or "")
    code = (
        "import sys, warnings; warnings.simplefilter('always')\n"
        f"sys.modules.update({{'numba': None}} if {package is None} else {{}})\n"
        "import fgmp\n"
        "fed = fgmp.make_sparse_regression(3, 30, 20, 2, rng=0)\n"
        "for method in (fgmp.FedGradMP(2), fgmp.FedAvg(learning_rate=0.1)):\n"
        "    with fgmp.backend('compiled'):\n"
        "        result = fgmp.simulate(method, fed, 2, rng=0)\n"
        "    print(result.history['clients'], result.backend, dict(result.fallbacks))\n"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(fgmp.__file__).parents[1])])
    }
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )


def test_a_damaged_numba_is_said_once_and_the_run_goes_on_with_the_reference(tmp_path):
    """Both runs are on the reference, and stderr has the reason once."""
    done = run_with_numba("raise ImportError('Numba needs another NumPy')", tmp_path)
    line = "[0 3 3] reference {'numba does not work': 6}\n"
    assert done.stdout == 2 * line, done.stderr
    assert done.stderr.count("does not work (ImportError: Numba needs another NumPy)") == 1


def test_without_numba_the_run_goes_on_with_the_reference_in_silence(tmp_path):
    """Both runs are on the reference, and nothing is written to stderr."""
    done = run_with_numba(None, tmp_path)
    assert done.stdout == 2 * "[0 3 3] reference {'numba is missing': 6}\n", done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["pursuit", "average"])
def test_a_loop_that_cannot_be_compiled_is_said_once_and_the_run_goes_on(name, monkeypatch):
    """One warning has the reason, and the run ends at the bits of the reference."""

    class Failing:
        def compiled_for(self, *given):
            raise RuntimeError("LLVM")

    monkeypatch.setattr(dispatch, "_FAILED_LOOPS", {})
    loop = "pursuit_loop" if name == "pursuit" else "descent_loop"
    monkeypatch.setattr(kernels, loop, Failing())
    with pytest.warns(fgmp.AdviceWarning, match=r"does not work \(RuntimeError: LLVM\)") as caught:
        result = fgmp.simulate(KERNELS[name], data("squared"), 3, 3, 3)
    assert len([w for w in caught if "LLVM" in str(w.message)]) == 1
    assert result.backend == "reference" and result.fallbacks == {"numba does not work": 9}
    with fgmp.backend("reference"):
        reference = fgmp.simulate(KERNELS[name], data("squared"), 3, 3, 3)
    np.testing.assert_array_equal(result.x, reference.x)


@pytest.mark.parametrize("terminal", [True, False])
def test_whoever_waits_at_a_terminal_is_told_why(terminal, monkeypatch, cache, capsys):
    """A long compilation is announced at a terminal, and nowhere else."""
    monkeypatch.setattr(compilation, "_LONG", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    loop = compilation.CompiledLoop(fill)
    compile_, waits = loop.compiled.compile, compilation.threading.Event()
    monkeypatch.setattr(loop.compiled, "compile", lambda types: waits.wait(0.5) or compile_(types))
    loop.compiled_for(0, 2, np.zeros(3))
    assert ("compiling its loops" in capsys.readouterr().err) is terminal


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", KERNELS)
def test_a_cohort_that_dropped_out_loses_its_round_only(name):
    """Rounds without clients are counted as missing, and the others go on."""
    faulty = fgmp.Faulty(data("squared"), fgmp.DropOut(probability=0.7))
    result = fgmp.simulate(KERNELS[name], faulty, 8, 1, 3)
    lost = result.history["clients"][1:] == 0
    assert lost.any() and not lost.all() and result.rejected == {"missing": lost.sum()}


@pytest.mark.parametrize(
    ("rounds", "n_features", "backend"),
    [(5, 4, "reference"), (6, 4, "compiled"), (1, 10_001, "compiled"), (1, 10_000, "reference")],
)
def test_a_short_run_compiles_nothing_unless_asked_to(monkeypatch, rounds, n_features, backend):
    """Short is a run of at most 500 local iterations, which read at most ten million numbers."""
    monkeypatch.setattr(backends, "_FEW_ITERATIONS", 500)  # as for users; other tests have -1
    # Five clients with ten rows each: a round has 100 local iterations, which read 1000 rows.
    A = np.zeros((50, n_features))
    A[:, :4] = np.random.default_rng(0).standard_normal((50, 4))
    federation = fgmp.Federation.from_arrays(np.split(A, 5), np.split(A[:, 0], 5))
    method = fgmp.FedAvg(learning_rate=0.01, local_iterations=20)
    result = fgmp.simulate(method, federation, rounds)
    assert result.backend == backend
    if backend == "reference":
        assert result.fallbacks == {"short run": 5 * rounds}
    with fgmp.backend("compiled"):
        assert fgmp.simulate(method, federation, rounds).backend == "compiled"


def backend_of_a_run(**options):
    return fgmp.simulate(KERNELS["average"], data("squared"), 1, rng=0, **options).backend


def test_contexts_nest_and_end_with_an_error():
    """The outer choice is back after an inner one, and after an error."""
    assert backends.current_backend() == "auto"
    with fgmp.backend("reference"):
        assert backend_of_a_run() == "reference"
        with fgmp.backend("compiled"):
            assert backend_of_a_run() == "compiled"
        assert backend_of_a_run() == "reference"
    with pytest.raises(ZeroDivisionError), fgmp.backend("reference"):
        raise ZeroDivisionError
    assert backend_of_a_run() == "compiled"


def test_a_backend_that_is_none_is_refused():
    """The error has the name that was given and those that exist."""
    expected = r"name is 'fast'; expected one of 'auto', 'compiled', 'reference'"
    with pytest.raises(ValueError, match=expected), fgmp.backend("fast"):
        pass


def test_each_thread_has_a_choice_of_its_own():
    """A thread of a pool does not see the choice of the thread that made it."""
    with ThreadPoolExecutor(1) as pool, fgmp.backend("reference"):
        assert pool.submit(backend_of_a_run).result() == "compiled"
        assert backend_of_a_run() == "reference"


def test_each_task_has_a_choice_of_its_own():
    """Two tasks at once keep the backends that they chose."""

    async def chosen(name, first, second):
        with fgmp.backend(name):
            first.set()
            await second.wait()
            return backend_of_a_run()

    async def both_at_once():
        one, other = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(chosen("reference", one, other), chosen("compiled", other, one))

    assert asyncio.run(both_at_once()) == ["reference", "compiled"]


def test_the_workers_of_tune_inherit_the_choice(tmp_path):
    """Each writes down what it ran; they are processes, in which nobody chose."""

    def note(run):
        path = folder / f"{os.getpid()}-{run.method.learning_rate}"
        path.write_text(str(run.transport.backend_record.backend))

    grid = {"learning_rate": [0.01, 0.02]}
    for name in ("reference", "compiled"):
        folder = tmp_path / name
        folder.mkdir()
        with fgmp.backend(name):
            fgmp.tune(
                lambda learning_rate: fgmp.FedAvg(learning_rate=learning_rate),
                grid,
                data("squared"),
                1,
                workers=2,
                callbacks=note,
            )
        files = list(folder.iterdir())
        assert {path.read_text() for path in files} == {name}
        assert str(os.getpid()) not in {path.name.partition("-")[0] for path in files}


def test_a_run_counts_its_own_updates_only():
    """Fallbacks start at zero in every run, whatever was done to earlier ones."""
    federation = data("squared")
    for rounds in (2, 3):
        with fgmp.backend("reference"):
            result = fgmp.simulate(KERNELS["average"], federation, rounds, 3, 3)
        assert result.fallbacks == {"reference backend chosen": 3 * rounds}
    result = fgmp.simulate(KERNELS["average"], federation, 2, 3, 3)
    assert result.backend == "compiled" and not result.fallbacks
    result.fallbacks["mine"] += 1
    assert not fgmp.simulate(KERNELS["average"], federation, 2, 3, 3).fallbacks


def test_where_numba_is_missing_each_update_says_so(monkeypatch):
    """A method without a kernel would run the reference with it, too, and keeps its own reason."""
    monkeypatch.setattr(backends, "_HAS_NUMBA", False)
    assert fallbacks_of(KERNELS["average"], data("squared")) == "numba is missing"
    method = fgmp.SharedSupportGradMP(4)
    assert fallbacks_of(method, data("squared")) == "no kernel for this method"


def test_a_run_without_updates_names_no_backend():
    """Without rounds, or without clients, the backend is None."""
    assert fgmp.simulate(KERNELS["average"], data("squared"), 0).backend is None
    nobody = fgmp.Faulty(data("squared"), fgmp.DropOut())
    assert fgmp.simulate(KERNELS["average"], nobody, 2).backend is None


def test_a_run_that_changes_its_backend_is_mixed():
    """The fallbacks are the updates after the switch, which ends with its context."""

    def switch(run):
        if run.progress.round == 1:
            stack.enter_context(fgmp.backend("reference"))

    with ExitStack() as stack:
        result = fgmp.simulate(KERNELS["average"], data("squared"), 3, 3, 3, callbacks=switch)
    assert result.backend == "mixed"
    assert result.fallbacks == {"reference backend chosen": 6}
    assert backend_of_a_run() == "compiled"


@pytest.mark.parametrize("bad", [[], [2], [0, 1, 2, 3]])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_models_in_one_table_are_accepted_as_one_by_one(is_sparse, bad):
    """What is not finite is rejected; so are all, if they have not the layout that is expected."""
    values = np.random.default_rng(0).standard_normal((4, 3))
    values[bad, 1] = np.nan
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    supports = np.tile([1, 4, 7], (4, 1))
    models = DenseModels(values)
    if is_sparse:
        models = SparseModels(supports, values, np.array([3, 2, 3, 3]), (9,))
    layouts = [
        {"shape": (9,), "max_nonzeros": 3},
        {"shape": (3,)},
        {"shape": (9,), "max_nonzeros": 2},
        {"shape": (3,), "dtype": np.dtype(np.float32)},
    ]
    for layout in layouts:
        spec = fgmp.UpdateSpec(**layout)
        at_once, one_by_one = spec.accept(models, weights), spec.accept(list(models), weights)
        np.testing.assert_equal(at_once.accepted, one_by_one.accepted)
        np.testing.assert_equal(at_once.values, one_by_one.values)
        np.testing.assert_equal(at_once.entries, one_by_one.entries)
        assert +at_once.rejected == +one_by_one.rejected
        assert at_once.bytes_up == one_by_one.bytes_up


def test_every_loop_is_compiled_once_before_notebooks_and_tests(monkeypatch):
    """One process of tools/loops.py runs a method of each loop, in both precisions."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "tools")
    import loops

    every = [one for one in vars(kernels).values() if isinstance(one, compilation.CompiledLoop)]
    assert len(every) == 4
    n_types = np.zeros(len(every), int)
    for share in loops.SHARES:
        for loop in every:
            monkeypatch.setattr(loop, "_compiled_types", set())
        loops.compile_for(share)
        n_of_share = np.array([len(loop._compiled_types) for loop in every])
        assert not n_types[n_of_share > 0].any()
        n_types += n_of_share
    np.testing.assert_array_equal(n_types, len(loops.PRECISIONS))
