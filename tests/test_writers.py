"""The runs behind the maps of notebooks 09 and 10: kept once, gathered in a table, and compared seed by seed."""

import inspect
from dataclasses import dataclass, replace

import numpy as np
import pytest

import fgmp
from book.maps import signed
from book.store import stored
from book.writers import Accuracies, Learning, cell_of, coded_digits, learn, table_of

JOB = Learning(
    method="FedGradMP",
    learning_rate=0.1,
    sparsity=8,
    rounds=4,
    cohort_size=2,
    batch_size=10,
    local_iterations=2,
    sgd_steps=2,
    every=1,
    dataset="digits",
    n_train=3,
    n_test=2,
    n_samples=20,
)


@dataclass(frozen=True)
class Toy:
    """A job of one number."""

    x: int


def test_stored_run_is_computed_once_for_each_job(tmp_path):
    """A second call reads the file, and another job is another file."""
    calls = []

    def square(job):
        calls.append(job.x)
        return {"square": job.x**2}

    found = [stored(square, Toy(x), tmp_path) for x in (3, 3, 4)]
    assert found == [{"square": 9}, {"square": 9}, {"square": 16}]
    assert calls == [3, 4]
    assert len(list(tmp_path.iterdir())) == 2


def test_stored_run_of_another_text_of_its_module_is_computed_again(tmp_path, monkeypatch):
    """Who edits the experiment gets no result of the text before."""

    def square(job):
        return {"square": job.x**2}

    stored(square, Toy(3), tmp_path)
    text = inspect.getsource(inspect.getmodule(square))
    monkeypatch.setattr(inspect, "getsource", lambda module: text + "# edited")
    stored(square, Toy(3), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_stored_run_that_failed_leaves_no_file(tmp_path):
    """The next call computes it."""

    def fails(job):
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        stored(fails, Toy(1), tmp_path)
    assert not list(tmp_path.iterdir())


def test_table_has_the_mean_of_three_records_for_each_seed():
    """A run that ended before a round has no value there."""
    jobs = [replace(JOB, seed=0), replace(JOB, seed=1, rounds=2)]
    accuracies = [0.0, 0.1, 0.4, 0.7, 0.9]
    common = {"nonzeros": 5, "seconds": 1.0}
    records = [
        {"round": [0, 1, 2, 3, 4], "unseen": accuracies, "training": accuracies, "bytes": [0, 8]},
        {"round": [0, 1, 2], "unseen": [0, 0, 0.3], "training": [0, 0, 0], "bytes": [0, 8]},
    ]
    table = table_of(jobs, [one | common for one in records], (2, 4))
    cell = cell_of("FedGradMP", 0.1, 8)
    assert list(table) == [cell]
    assert table[cell]["unseen 2"] == pytest.approx([0.5 / 3, 0.1], abs=1e-5)
    assert table[cell]["unseen 4"] == pytest.approx([2.0 / 3], abs=1e-5)


def test_lead_is_paired_on_the_seeds_that_both_have():
    """Values beyond the shorter list have no partner; a cell that nobody ran has none at all."""
    table = Accuracies({"ours": {"unseen 9": [0.9, 0.8, 0.7]}, "theirs": {"unseen 9": [0.5, 0.6]}})
    assert table.lead("ours", "theirs", 9) == pytest.approx([0.4, 0.2])
    assert len(table.lead("ours", "nobody", 9)) == 0


def test_codings_of_pixels_are_what_their_names_say():
    """Ink and paper add up to one, and rows of length one have that length."""
    ink, paper, unit = (
        coded_digits(coding, "digits", 3, 2, 20, 0, 1.0).train.clients[1].features
        for coding in ("ink = 1", "paper = 1", "length 1")
    )
    np.testing.assert_allclose(ink + paper, 1)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(unit * np.linalg.norm(ink, axis=1, keepdims=True), ink, atol=1e-6)


def test_learning_is_the_run_of_the_library():
    """The last record is the accuracy of the model that `simulate` returns."""
    record = learn(JOB)
    digits = fgmp.digits_by_writer("digits", 3, 2, 20, rng=0)
    solver = fgmp.SGD(0.1, 2, 10)
    method = fgmp.FedGradMP(8, local_iterations=2, batch_size=10, solver=solver, radius=1e5)
    result = fgmp.simulate(method, digits.train, 4, cohort_size=2, rng=0)
    assert record["round"] == [0, 1, 2, 3, 4]
    assert record["unseen"][-1] == fgmp.accuracy_on(digits.test)(result.x)
    assert record["nonzeros"] == np.count_nonzero(result.x)


@pytest.mark.parametrize(
    "value, text", [(0.0154, "+.015"), (-0.1, "-.100"), (0.0002, ".000"), (-0.0002, ".000")]
)
def test_difference_is_written_with_its_sign(value, text):
    """Unless it rounds to nothing."""
    assert signed(value) == text
