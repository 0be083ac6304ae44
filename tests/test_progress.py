"""Progress: nothing for short work, one line on a terminal for long work, and lines if asked for."""

import io
import re
import sys
import time

import numpy as np
import pytest
from cases import table_in_several_units

import fgmp
from fgmp._support import progress

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def written(verbose, stream, monkeypatch, patience=0.0):
    """Return what two steps of a fit write, and what is written when the line was taken away."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    with progress.progress_line(verbose, "fit") as show_step:
        show_step("round 0")
        time.sleep(0.15)  # tqdm rewrites a line ten times a second
        show_step("round 1")
        shown = stream.getvalue()
    return shown, stream.getvalue()


def test_short_work_shows_nothing_on_a_terminal(monkeypatch):
    """It ends before the patience does."""
    assert written("auto", Terminal(), monkeypatch, patience=60.0) == ("", "")


def test_long_work_shows_one_line_and_takes_it_away(monkeypatch):
    """No line feed is written, and the last thing is that the line is cleared."""
    shown, after = written("auto", Terminal(), monkeypatch)
    assert "fit, 00:00, round 1" in shown
    assert "\n" not in after
    assert after.endswith("\r") and not after.rstrip("\r").rpartition("\r")[2].strip()


def test_where_no_terminal_is_long_work_shows_nothing_unless_asked(monkeypatch):
    """In a notebook, a file or a pipe a line that is rewritten would stay."""
    assert written("auto", io.StringIO(), monkeypatch) == ("", "")
    assert written(False, Terminal(), monkeypatch) == ("", "")
    shown, _ = written(True, io.StringIO(), monkeypatch)
    assert re.fullmatch(r"fit, 0\.\d s: round 1", shown.splitlines()[1])


@pytest.mark.parametrize("sparsity", [2, "cv", "all"])
def test_verbose_fit_says_its_stages_and_rounds(sparsity, capsys):
    """On the standard error, and the model is the same as without."""
    X, y, groups = table_in_several_units()
    # With few features folds begin from all of them, and run no rounds.
    X = np.hstack([X, np.random.default_rng(0).standard_normal((len(X), 60))])
    settings = {"sparsities": [1, 3], "n_folds": 2, "random_state": 0}
    quiet = fgmp.FedGradMPRegressor(sparsity, **settings).fit(X, y, groups % 4)
    assert capsys.readouterr().err == ""
    model = fgmp.FedGradMPRegressor(sparsity, verbose=True, **settings).fit(X, y, groups % 4)
    lines = capsys.readouterr().err.splitlines()
    np.testing.assert_array_equal(model.coef_, quiet.coef_)
    said = [line.partition(": ")[2] for line in lines]
    assert said[0] == "sums for common units"
    assert {"Newton steps on the features that were found", "sums for standard errors"} <= set(said)
    has_rounds = any(words.startswith("all rows, round 1: loss ") for words in said)
    assert has_rounds == (sparsity != "all")
    has_folds = any(words.startswith("without fold 2 of 2, round") for words in said)
    assert has_folds == (sparsity == "cv")


def test_private_fit_says_its_rounds_without_a_loss(capsys):
    """None is computed of the clients' data in the clear."""
    X, y, groups = table_in_several_units()
    model = fgmp.FedGradMPRegressor(
        2,
        private=fgmp.GaussianNoise(1.0, 1.0, 0.1),
        standardize=False,
        fit_intercept=False,
        polish=False,
        rounds=1,
        verbose=True,
    )
    model.fit(X, y, groups % 4)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].endswith(": all rows, round 1")


@pytest.mark.parametrize("over", ["groups", "rows"])
def test_verbose_bootstrap_counts_its_resamples(over, capsys):
    """With a bar; the fits inside are silent."""
    X, y, groups = table_in_several_units()
    model = fgmp.FedGradMPRegressor(2, random_state=0).fit(X, y, groups % 4)
    quiet = model.bootstrap(3, over=over, random_state=0)
    assert capsys.readouterr().err == ""
    model.verbose = True
    loud = model.bootstrap(3, over=over, random_state=0)
    lines = capsys.readouterr().err
    assert "3/3" in lines
    assert "round" not in lines
    np.testing.assert_array_equal(loud.coef, quiet.coef)


def test_line_of_work_that_fails_is_taken_away(monkeypatch):
    """The error follows on a clean line."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with (
        pytest.raises(ValueError, match="no more"),
        progress.progress_line("auto", "fit") as show_step,
    ):
        show_step("round 0")
        raise ValueError("no more")
    assert not terminal.getvalue().rstrip("\r").rpartition("\r")[2].strip()


def test_verbose_of_another_kind_is_an_error():
    """It names the argument."""
    with pytest.raises(ValueError, match="verbose is 2"):
        fgmp.FedGradMPRegressor(1, verbose=2).fit(np.eye(20), np.arange(20.0))
