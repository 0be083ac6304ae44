"""The benchmarks compute what they should; no test measures time."""

import json

import numpy as np
import pytest
import run
import textbook
from harness import Finding, Records, Row, Scale

import fgmp
from fgmp.sparse_model import SparseModel


def test_textbook_rounds_agree_with_simulate():
    """The baseline of the benchmark has the iterates of the package."""
    federation = fgmp.make_sparse_regression(4, 40, 60, 3, rng=0)
    data = [(np.ascontiguousarray(c.features), c.targets) for c in federation.clients]
    rng = np.random.default_rng(0)
    x, history = textbook.gradient_matching_pursuit_rounds(data, federation.truth, 3, 2, 2, 40, rng)
    result = fgmp.simulate(fgmp.FedGradMP(3, local_iterations=2), federation, 2, rng=0)
    np.testing.assert_allclose(x, result.x, atol=1e-12)
    errors, objectives = zip(*history, strict=True)
    np.testing.assert_allclose(errors, result.history["relative_error"][1:], rtol=1e-6, atol=1e-14)
    np.testing.assert_allclose(objectives, result.history["objective"][1:], rtol=1e-6, atol=1e-14)


def test_textbook_pursuit_on_labels_agrees_with_simulate():
    """The model after a round of damped steps of one client, on the logistic loss."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((60, 40))
    y = np.sign(A[:, 0] - A[:, 5] + 0.5 * rng.standard_normal(60))
    federation = fgmp.Federation.from_arrays([A], [y], "logistic")
    ours = fgmp.simulate(fgmp.FedGradMP(3, local_iterations=4), federation, 1, rng=0).x
    theirs = textbook.logistic_pursuit(A, y, np.zeros(40), 3, 4)
    np.testing.assert_allclose(theirs, ours, atol=1e-12)


def test_textbook_pursuit_on_images_agrees_with_client_update():
    """The softmax baseline ends at the same sparse model."""
    rng = np.random.default_rng(0)
    X = rng.random((30, 40), dtype=np.float32)
    labels = rng.integers(0, 4, 30)
    client = fgmp.Federation.from_arrays([X], [labels], fgmp.SoftmaxLoss(4)).clients[0]
    w = np.where(np.arange(40)[:, None] % 8 == np.arange(4), np.float32(0.1), np.float32(0))
    method = fgmp.FedGradMP(5, local_iterations=3, solver=fgmp.SGD(steps=2, learning_rate=0.3))
    ours = method.client_update(client, SparseModel.of(w), np.random.default_rng(3)).dense()
    theirs = textbook.softmax_pursuit(X, labels, w, 5, 0.3, [[np.arange(30)] * 3] * 3)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("name", ["precision", "parts"])
def test_quick_benchmark_has_values(name):
    """A benchmark at its smallest scale runs, and finds the kernels that it calls."""
    assert all(row.values for row in run.BENCHMARKS[name](Scale("quick")).rows)


def test_benchmark_that_was_not_run_keeps_its_rows(tmp_path):
    """Those of the last results, if these are of the same scale."""
    old = [Row("old", [1.0], ("at most", 2), benchmark="whole"), Row("x", [3.0], benchmark="fits")]
    results = {"scale": "bench", "about": {"date": "then"}}
    results |= {"rows": [vars(row) | {"verdict": row.verdict} for row in old]}
    (tmp_path / "results.json").write_text(json.dumps(results))
    records = Records(tmp_path / "records")
    records.keep("fits", Finding([Row("new", [2.0])]), {"scale": "bench"})

    about, before = run.earlier(tmp_path, Scale("bench"))
    assert (about, before) == ({"date": "then"}, old)
    rows, kept, missing = run.collected(records, before)
    assert rows == [old[0], Row("new", [2.0], benchmark="fits")]
    assert kept == ["whole"]
    assert "steps" in missing
    assert run.earlier(tmp_path, Scale("quick")) == ({}, [])
