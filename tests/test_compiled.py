"""One law for compiled twins: the twin is taken, and equals the printed form; everything else runs as printed."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import fgmp
from fgmp._compiled import dispatch as compiled
from fgmp.dictionaries import StandardBasis

loops = pytest.importorskip("fgmp._compiled.kernels")
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

STEPS = {"learning_rate": 0.05, "local_iterations": 4, "batch_size": 9}
ROTATED = fgmp.Dictionary(np.linalg.qr(np.random.default_rng(0).standard_normal((30, 30)))[0])
TWINS = {
    "pursuit": fgmp.FedGradMP(4, batch_size=9),
    "full batch": fgmp.FedGradMP(4, solver=fgmp.Exact()),
    "orthonormal": fgmp.FedGradMP(4, batch_size=9, dictionary=ROTATED),
    "everything": fgmp.FedGradMP(30, batch_size=9),
    "average": fgmp.FedAvg(**STEPS, server_learning_rate=0.5),
    "large": fgmp.FedAvg(**STEPS | {"batch_size": 700}),
    "server": fgmp.FedHT(sparsity=4, **STEPS),
    "hard": fgmp.FedIterHT(sparsity=4, **STEPS),
    "soft": fgmp.FedMid(l1_weight=0.05, **STEPS),
    "dual": fgmp.FedDualAvg(l1_weight=0.05, **STEPS),
}


def data(loss, dtype=np.float64, rows=(12, 30, 25, 2100)):
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


def both(method, federation, monkeypatch, rounds=4, cohort_size=3):
    """A run with the twin and one as printed, and how many clients answered as printed in the first."""
    asked, update_of = [], fgmp.rounds.Call.update_of
    monkeypatch.setattr(
        fgmp.rounds.Call,
        "update_of",
        lambda call, *given: asked.append(1) or update_of(call, *given),
    )
    taken = fgmp.simulate(method, federation, rounds, cohort_size, 3)
    count = len(asked)
    monkeypatch.setenv("FGMP_READABLE", "1")
    printed = fgmp.simulate(method, federation, rounds, cohort_size, 3)
    monkeypatch.delenv("FGMP_READABLE")
    assert len(asked) - count == rounds * cohort_size * len(method.exchanges())
    return taken, printed, count


def close(one, other, dtype):
    scale = max(np.abs(other.x).max(), 1e-300)
    np.testing.assert_allclose(
        one.x / scale, other.x / scale, atol=1e-11 if dtype == np.float64 else 2e-4
    )
    np.testing.assert_array_equal(one.history["bytes_down"], other.history["bytes_down"])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_taken_and_equals_the_printed_form(name, loss, dtype, monkeypatch):
    if isinstance(TWINS[name], fgmp.FedGradMP) and loss != "squared":
        pytest.skip("as printed")
    taken, printed, count = both(TWINS[name], data(loss, dtype), monkeypatch)
    assert count == 0
    close(taken, printed, dtype)


class Coarse(StandardBasis):
    def approximate(self, gradient, count):
        return super().approximate(gradient.round(1), count)


class Pruned(fgmp.FedGradMP):
    def pruned(self, b):
        return super().pruned(b)


class Clipped(fgmp.FedAvg):
    def thresholded(self, w):
        return np.clip(w, -1, 1)


class Strict(fgmp.FedDualAvg):
    def thresholds(self, rounds):
        return [2 * threshold for threshold in super().thresholds(rounds)]


PRINTED = {
    "a basis of one's own": fgmp.FedGradMP(4, dictionary=Coarse()),
    "a ball": fgmp.FedGradMP(4, radius=1.0),
    "another solver": fgmp.FedGradMP(4, solver=fgmp.GradientDescent(2)),
    "a dictionary": fgmp.FedGradMP(4, dictionary=fgmp.gaussian_dictionary(30, 40, rng=0)),
    "what stays": fgmp.FedGradMP(4, selection=fgmp.PerOutput(always_include=0)),
    "shared": fgmp.SharedSupportGradMP(4),
    "fast": fgmp.FastFedDualAvg(l1_weight=0.05, **STEPS),
    "another pruning": Pruned(4),
    "another threshold": Clipped(**STEPS),
    "other thresholds": Strict(l1_weight=0.05, **STEPS),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_no_twin_was_written_for_runs_as_printed(name, monkeypatch):
    assert both(PRINTED[name], data("squared"), monkeypatch)[2] > 0


@pytest.mark.parametrize(
    "name, sparse_rows", [("pursuit", True), ("average", True), ("average", False)]
)
def test_sparse_rows_and_losses_of_ones_own_run_as_printed(name, sparse_rows, monkeypatch):
    class Own(fgmp.SquaredLoss):
        def derivative(self, predictions, targets):
            return np.sign(predictions - targets)

    clients, loss = data("squared").clients, "squared" if sparse_rows else Own()
    As = [sparse.csr_array(c.features) if sparse_rows else c.features for c in clients]
    federation = fgmp.Federation.from_arrays(As, [c.targets for c in clients], loss)
    assert both(TWINS[name], federation, monkeypatch)[2] > 0


def test_what_is_deficient_or_no_number_goes_to_the_printed_form_for_that_client(monkeypatch):
    """Client 1 has every column twice, client 2 overflows; the others answer from the loop."""
    federation = data("squared")
    federation.features[12:42, 15:] = federation.features[12:42, :15]
    taken, printed, count = both(TWINS["pursuit"], federation, monkeypatch, 3, 4)
    assert count == 3
    close(taken, printed, np.float64)
    federation.features[42:67] *= 1e300
    for run in both(TWINS["pursuit"], federation, monkeypatch, 2, 4)[:2]:
        assert run.rejected["not_finite"] <= 2 and run.history["clients"][-1] in (3, 4)


@pytest.mark.parametrize(
    "name, loss", [("pursuit", "squared"), ("hard", "softmax"), ("dual", "squared")]
)
def test_threads_do_not_change_a_bit(name, loss, monkeypatch):
    monkeypatch.setattr("fgmp._compiled.dispatch._SMALL", 0)
    ends = []
    for threads in (1, 2, 5, 40):
        monkeypatch.setattr(loops.numba.config, "NUMBA_NUM_THREADS", threads)
        ends.append(fgmp.simulate(TWINS[name], data(loss), 4, rng=1).x)
    assert all(np.array_equal(ends[0], end) for end in ends)


def test_a_process_that_compiles_has_the_bits_of_one_that_loads():
    """What is called may be compiled once more for its caller, with other sums; so nothing is, all is inlined."""
    compiled_ones = [getattr(one, "compiled", one) for one in vars(loops).values()]
    found = [one.targetoptions for one in compiled_ones if hasattr(one, "targetoptions")]
    inner, outer = (
        [one for one in found if bool(one.get("fastmath")) == given] for given in (True, False)
    )
    assert len(inner) == 9 and all(one["forceinline"] for one in inner)
    assert len(outer) == 2 and all(one["nogil"] and "parallel" not in one for one in outer)


def test_in_the_span_of_the_rows(monkeypatch):
    """Few rows of many features: softmax steps go through the products of the rows, and end where they would."""
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((10, 200)) for _ in range(4)]
    federation = fgmp.Federation.from_arrays(
        As, [rng.integers(0, 3, 10) for _ in As], fgmp.SoftmaxLoss(3)
    )
    method = fgmp.FedAvg(learning_rate=0.1, local_iterations=20, batch_size=5)
    made, row_products = [], compiled._row_products
    monkeypatch.setattr(
        compiled, "_row_products", lambda *given: made.append(row_products(*given)) or made[-1]
    )
    taken, printed, count = both(method, federation, monkeypatch)
    assert count == 0 and len(made) == 4 and made[0].shape == (40, 10)
    assert all(products is made[0] for products in made)  # once a run
    close(taken, printed, np.float64)
    # The arrays are the caller's: what he writes into them between two runs is what the next one sees.
    federation.features[:] *= 0.5
    close(*both(method, federation, monkeypatch)[:2], np.float64)
    assert made[-1] is not made[0]


@pytest.mark.parametrize("length", [1, 4, 23])
@pytest.mark.parametrize("key", [(7, 2**63 + 5), (2**64 - 1, 2**64 - 3), (0, 0)])
def test_the_words_are_those_of_numpy(key, length):
    key, counter = np.array(key, np.uint64), np.array([0, 3 << 32 | 5, 2**40, 11], np.uint64)
    words, bits = (
        loops.keyed_words((key, 3, 5, 11), 2**40, length),
        np.random.Philox(key=key, counter=counter),
    )
    assert length <= len(words) <= length + 3 and np.array_equal(words, bits.random_raw(len(words)))


def test_the_largest_are_numbers_and_ties_go_to_the_lower_index():
    places = np.empty(3, np.int64)
    assert loops._largest(np.array([1.0, -3, 2, -1, 2, 2]), places) and places.tolist() == [1, 2, 4]
    assert not loops._largest(np.array([1.0, 3, 2, 4, np.nan]), places)


def test_columns_nearly_alike_in_units_far_apart_cost_no_accuracy():
    rng, ends = np.random.default_rng(60), np.arange(40, 201, 40)
    A, truth = rng.normal(size=(200, 60)), rng.normal(size=3) * [1e5, 1, 1e5]
    A[:, 1] = A[:, 0] + 1e-4 * A[:, 1]
    A *= np.where(np.arange(60) % 2, 1e150, 1e145)
    clients, stream = (
        np.array([ends - 40, ends, [20] * 5, range(5)]),
        (np.array([7, 5], np.uint64), 1, 2, 9),
    )
    places, kept, counts = np.zeros((5, 3), np.int64), np.zeros((5, 3)), np.zeros(5, np.int64)
    asked, model = (A, A[:, :3] @ truth, clients, stream), (np.arange(3), truth / 2)
    loops.cohort_pursuit(0, 5, asked, 2, model, (places, kept, counts))
    assert (
        (counts == 3).all()
        and (places == np.arange(3)).all()
        and np.abs(kept / truth - 1).max() <= 1e-11
    )


def fill(first, last, out):
    for i in range(first, last):
        out[i] = 7


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder of Numba's own, with `fill` compiled in it."""
    monkeypatch.setattr(loops.numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(loops._Loop, "_lost", set())
    assert filled(loops._Loop(fill)) == []
    assert len(list(tmp_path.rglob("test_compiled.fill-*.nb?"))) == 2
    return tmp_path


def filled(loop, dtype=float):
    """What a loop says while it does its work."""
    out = np.zeros(3, dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop(0, 2, out)
    assert out.tolist() == [7, 7, 0] and all(w.category is fgmp.AdviceWarning for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("content", [b"", b"\0" * 50, b"cut"])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_cache_is_said_once_and_done_without(suffix, content, cache):
    for file in cache.rglob(f"*.{suffix}"):
        file.write_bytes(file.read_bytes()[:40] if content == b"cut" else content)
    (said,) = filled(loops._Loop(fill))
    assert (
        said.startswith(f"Numba's cache {cache}") and "test_compiled.fill-* cannot be used" in said
    )
    assert "NUMBA_CACHE_DIR" in said
    assert filled(loops._Loop(fill)) == []  # once in a process, for all that lies there


@pytest.mark.parametrize("number", [28, 27, 13, 30, 122])
def test_a_cache_that_cannot_be_written_is_said_once_and_done_without(number, cache, monkeypatch):
    """A full disk, too large a file, no permission, a read-only disk, a quota."""

    def failing(*given, **options):
        raise OSError(number, os.strerror(number))

    loop, replace = loops._Loop(fill), os.replace
    monkeypatch.setattr(os, "replace", failing)
    (said,) = filled(loop, np.float32)
    assert os.strerror(number) in said and filled(loop, np.int16) == []
    monkeypatch.setattr(os, "replace", replace)


def test_it_is_said_of_the_machine_inside_a_fit_too(cache):
    for file in cache.rglob("*.nbi"):
        file.write_bytes(b"")
    with fgmp._support.warnings.suppress_advice():
        assert len(filled(loops._Loop(fill))) == 1


def test_a_numba_that_does_not_work_is_said_once_and_the_run_goes_on_as_printed(tmp_path):
    """In a process of its own, with another package of that name."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(
        "raise ImportError('Numba needs another NumPy')"
    )
    code = (
        "import warnings, fgmp; warnings.simplefilter('always')\n"
        "fed = fgmp.make_sparse_regression(3, 30, 20, 2, rng=0)\n"
        "for method in (fgmp.FedGradMP(2), fgmp.FedAvg(learning_rate=0.1)):\n"
        "    print(fgmp.simulate(method, fed, 2, rng=0).history['clients'])\n"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(fgmp.__file__).parents[1])])
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "[0 3 3]\n[0 3 3]\n", done.stderr
    assert done.stderr.count("does not work (ImportError: Numba needs another NumPy)") == 1


@pytest.mark.parametrize("name", ["pursuit", "average"])
def test_a_loop_that_cannot_be_compiled_is_said_once_and_the_run_goes_on_as_printed(
    name, monkeypatch
):
    class Failing:
        def prepare(self, *given):
            raise RuntimeError("LLVM")

    loop = "cohort_pursuit" if name == "pursuit" else "cohort_descent"
    compiled._broken.cache_clear()
    monkeypatch.setattr(loops, loop, Failing())
    with pytest.warns(fgmp.AdviceWarning, match=r"does not work \(RuntimeError: LLVM\)") as caught:
        result = fgmp.simulate(TWINS[name], data("squared"), 3, 3, 3)
    assert len([w for w in caught if "LLVM" in str(w.message)]) == 1
    monkeypatch.setenv("FGMP_READABLE", "1")
    np.testing.assert_array_equal(result.x, fgmp.simulate(TWINS[name], data("squared"), 3, 3, 3).x)
    compiled._broken.cache_clear()


@pytest.mark.parametrize("terminal", [True, False])
def test_whoever_waits_at_a_terminal_is_told_why(terminal, monkeypatch, cache, capsys):
    monkeypatch.setattr(loops, "_LONG", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    loop = loops._Loop(fill)
    compile_, waits = loop.compiled.compile, loops.threading.Event()
    monkeypatch.setattr(loop.compiled, "compile", lambda types: waits.wait(0.5) or compile_(types))
    loop(0, 2, np.zeros(3))
    assert ("compiling its loops" in capsys.readouterr().err) is terminal


@pytest.mark.parametrize("name", TWINS)
def test_a_cohort_of_which_nobody_is_there(name):
    """Rounds without anybody, and with some, on both paths alike."""
    faulty = fgmp.Faulty(data("squared"), fgmp.DropOut(probability=0.7))
    result = fgmp.simulate(TWINS[name], faulty, 8, 1, 3)
    lost = result.history["clients"][1:] == 0
    assert lost.any() and not lost.all() and result.rejected == {"missing": lost.sum()}
