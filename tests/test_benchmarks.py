"""The benchmarks compute what they should; how long it takes is not tested."""

import re

import floors
import numpy as np
import pytest
import run
import textbook
from harness import AT_MOST, Finding, Records, Row, Scale, run_all

import fgmp
from fgmp.models import SparseModel

QUICK = Scale("quick")


@pytest.fixture
def client():
    return fgmp.make_sparse_regression(3, 60, 200, 5, rng=0).clients[1]


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    X, labels = rng.random((30, 40), dtype=np.float32), rng.integers(0, 4, 30)
    return fgmp.Federation.from_arrays([X], [labels], fgmp.SoftmaxLoss(4)).clients[0]


def test_the_textbook_pursuit_is_the_library_s(client):
    start = SparseModel(np.arange(5), np.full(5, 0.1), (200,))
    ours = fgmp.FedGradMP(5, local_iterations=3, batch_size=20).at_client(client, start, np.random.default_rng(3))
    A, batches = np.ascontiguousarray(client.features), client.minibatches(np.random.default_rng(3), 20, 3)
    theirs = textbook.gradient_matching_pursuit(A, client.targets, start.dense(), 5, batches)
    np.testing.assert_allclose(ours.dense(), theirs, atol=1e-10)


def test_the_textbook_descent_is_the_library_s(images):
    method, w = fgmp.FedAvg(learning_rate=0.3, local_iterations=4, batch_size=10), np.full((40, 4), 0.01, np.float32)
    ours = method.at_client(images, w, np.random.default_rng(3))
    X, batches = np.ascontiguousarray(images.features), images.minibatches(np.random.default_rng(3), 10, 4)
    theirs = textbook.softmax_descent(X, images.targets, w, 0.3, batches)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_textbook_rounds_are_simulate_s():
    """With the full batch, where nothing is drawn."""
    federation = fgmp.make_sparse_regression(4, 40, 60, 3, rng=0)
    data = [(np.ascontiguousarray(c.features), c.targets) for c in federation.clients]
    rng = np.random.default_rng(0)
    x, history = textbook.gradient_matching_pursuit_rounds(data, federation.truth, 3, 2, 2, 40, rng)
    result = fgmp.simulate(fgmp.FedGradMP(3, local_iterations=2), federation, 2, rng=0)
    np.testing.assert_allclose(x, result.x, atol=1e-12)
    errors, objectives = zip(*history, strict=True)
    np.testing.assert_allclose(errors, result.history["relative_error"][1:], rtol=1e-6, atol=1e-14)
    np.testing.assert_allclose(objectives, result.history["objective"][1:], rtol=1e-6, atol=1e-14)


def test_the_textbook_pursuit_on_images_is_the_library_s(images):
    """With the full batch, where nothing is drawn."""
    w = np.where(np.arange(40)[:, None] % 8 == np.arange(4), np.float32(0.1), np.float32(0))
    method = fgmp.FedGradMP(5, local_iterations=3, solver=fgmp.SGD(steps=2, learning_rate=0.3))
    ours = method.at_client(images, SparseModel.of(w), np.random.default_rng(3)).dense()
    X = np.ascontiguousarray(images.features)
    theirs = textbook.softmax_pursuit(X, images.targets, w, 5, 0.3, [[np.arange(30)] * 3] * 3)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_floor_counts_every_multiplication():
    """Of n=8, m=5, b=4, tau=2: gradient, residual, normal matrix, right-hand sides, factor, solves."""
    assert floors.must_multiply(8, 5, 4, 2) == 32 + 10 + 105 + 90 + 36 + 72
    rows, columns = np.full((2, 3), 2.0), np.full((2, 2), 3.0)
    assert floors.must_read(rows, columns) == 6 * 4 + 4 * 9


def test_an_interruption_keeps_what_is_finished_and_what_breaks_says_so(tmp_path):
    records, said, done, found = Records(tmp_path), [], [], Finding([Row(1, "a", [1.0, 2.0, 3.0], (AT_MOST, 2.5))])

    def interrupted(scale):
        raise KeyboardInterrupt

    def broken(scale):
        raise OSError("no such thing")

    benchmarks = {"bad": broken, "first": lambda scale: found, "second": interrupted, "third": lambda scale: found}
    assert not run_all(benchmarks, QUICK, records, tell=said.append) and "--resume" in said[-1]
    assert records.read("bad")[0].rows[0].note == "failed with OSError: no such thing"
    assert records.read("first")[0] == found
    assert records.read("second") is None and records.read("third") is None
    benchmarks = {name: lambda scale, name=name: done.append(name) or found for name in benchmarks}
    assert run_all(benchmarks, QUICK, records, resume=True, tell=said.append)
    assert done[-2:] == ["second", "third"] and "first" not in done
    assert run_all(benchmarks, Scale("full"), records, resume=True, tell=said.append)
    assert done[-4:] == ["bad", "first", "second", "third"]  # another scale
    records.forget()
    assert records.read("first") is None


def test_a_quick_benchmark_runs_through():
    assert all(row.values for row in run.BENCHMARKS["precision"](QUICK).rows)


def test_the_figures_and_files_that_the_readme_names_are_there():
    links = re.findall(r"\]\(([^)]+)\)", (run.HERE / "README.md").read_text())
    assert "figures/targets.png" in links
