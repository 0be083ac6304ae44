"""Progress: nothing for short work, one line on a terminal for long work, and lines if asked for."""

import io
import sys

import numpy as np
import pytest
from cases import table_in_several_units

import fgmp
from fgmp._support.progress import ProgressLine
from fgmp.estimators import bootstrap

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


class Clock:
    """A clock that goes on by a step whenever it is read."""

    def __init__(self, step):
        self.step = step
        self.seconds = 0.0

    def __call__(self):
        self.seconds += self.step
        return self.seconds


def written(verbose, stream, step, n_steps=4):
    """Return what a line of progress writes of a few steps that take `step` seconds each."""
    line = ProgressLine(verbose, "fit", stream, Clock(step))
    for number in range(n_steps):
        line.show(f"round {number}")
    shown = stream.getvalue()
    line.close()
    return shown, stream.getvalue()


def test_short_work_shows_nothing_on_a_terminal():
    """It ends before two seconds."""
    assert written("auto", Terminal(), 0.4) == ("", "")


def test_long_work_shows_one_line_from_two_seconds_on_and_takes_it_away():
    """No line feed is written, and the last thing is that the line is cleared."""
    shown, after = written("auto", Terminal(), 0.9)
    assert "round 1" not in shown and "round 2" in shown and "round 3" in shown
    assert "\n" not in after
    assert after.endswith("\r\x1b[K")


def test_line_is_not_rewritten_more_often_than_one_can_read():
    """Of a hundred steps in a second about ten are shown."""
    shown, _ = written("auto", Terminal(), 0.01, 400)
    assert 15 <= shown.count("fit, ") <= 25


def test_where_no_terminal_is_long_work_shows_nothing_unless_asked():
    """In a notebook, a file or a pipe a line that is rewritten would stay."""
    assert written("auto", io.StringIO(), 9.0) == ("", "")
    assert written(False, Terminal(), 9.0) == ("", "")
    shown, _ = written(True, io.StringIO(), 0.1)
    assert shown.splitlines()[1] == "fit, 0.2 s: round 1"


@pytest.mark.parametrize("sparsity", [2, "cv", "all"])
def test_verbose_fit_says_its_stages_and_rounds(sparsity, capsys):
    """On the standard error, and the model is the same as without."""
    X, y, groups = table_in_several_units()
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
@pytest.mark.parametrize("has_tqdm", [True, False])
def test_verbose_bootstrap_counts_its_resamples(over, has_tqdm, capsys, monkeypatch):
    """With a bar, or lines if there is no tqdm; the fits inside are silent."""
    if has_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    X, y, groups = table_in_several_units()
    model = fgmp.FedGradMPRegressor(2, random_state=0).fit(X, y, groups % 4)
    quiet = model.bootstrap(3, over=over, random_state=0)
    assert capsys.readouterr().err == ""
    model.verbose = True
    loud = model.bootstrap(3, over=over, random_state=0)
    lines = capsys.readouterr().err
    assert ("3/3" if has_tqdm else "3 of 3 resamples") in lines
    assert "round" not in lines
    np.testing.assert_array_equal(loud.coef, quiet.coef)


def test_line_of_a_bootstrap_that_fails_is_taken_away(monkeypatch):
    """The error follows on a clean line."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(
        bootstrap, "ProgressLine", lambda *title: ProgressLine(*title, clock=Clock(3))
    )

    def results():
        yield 1
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        bootstrap._run_with_line(results(), 2, "auto")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_verbose_of_another_kind_is_an_error():
    """It names the argument."""
    with pytest.raises(ValueError, match="verbose is 2"):
        fgmp.FedGradMPRegressor(1, verbose=2).fit(np.eye(20), np.arange(20.0))
