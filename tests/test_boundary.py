"""Whatever comes, a public function answers, or raises a ValueError or TypeError of its own that names the argument."""

from __future__ import annotations

import inspect
import os
import re
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
from entry_points import ELSEWHERE, ENTRIES, NO_ARGUMENTS, RESULTS, Entry, public_names
from hostile import anything, near, picture
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fgmp

# Made anew for each call.
MADE = ("df", "ax")
HOUSE = str(Path(fgmp.__file__).parent)
# 100 that are the same every time, or so many new ones: `make test-boundary` takes 2,000.
EXAMPLES = int(os.environ.get("FGMP_EXAMPLES", "100"))
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True, scope="module")
def a_folder_of_its_own(tmp_path_factory):
    """Some functions write where they are told to, and any text is a path."""
    folder = tmp_path_factory.mktemp("boundary")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("FGMP_CLAIMS", str(folder / "claims"))
        yield


def test_every_public_name_is_here():
    known = set(ENTRIES) | RESULTS | NO_ARGUMENTS | set(ELSEWHERE)
    assert {name for name, _ in public_names()} <= known


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_point_answers_or_names_what_does_not_fit(name, capfd):
    @settings(max_examples=EXAMPLES, derandomize=EXAMPLES <= 100, suppress_health_check=list(HealthCheck))
    @given(examples_of(ENTRIES[name]))
    def look(example):
        fault = attempt(ENTRIES[name], *example)
        assert fault is None, f"{fault[0]}: {fault[1]}"

    look()
    written = capfd.readouterr()
    assert not written.err  # nor do LAPACK's complaints get through
    assert not written.out or name == "claim"


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_point_takes_what_fits(name):
    """Or else the test above would find only that its arguments never fit."""
    arguments = {key: value() if key in MADE else value for key, value in ENTRIES[name].given.items()}
    if name not in ("load_video", "fetch"):
        ENTRIES[name].then(ENTRIES[name].call(**arguments))


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_record_holds_what_it_is_given(name):
    """Results are made by functions; made by hand, they compute nothing, and what takes one checks it (`polish`)."""
    kind = dict(public_names())[name]
    fields = list(inspect.signature(kind).parameters)

    @settings(max_examples=max(EXAMPLES // 10, 1), derandomize=EXAMPLES <= 100, suppress_health_check=list(HealthCheck))
    @given(st.lists(anything(), min_size=len(fields), max_size=len(fields)))
    def look(values):
        before = picture(values)
        record = kind(*values)
        assert all(getattr(record, name) is value for name, value in zip(fields, values, strict=True))
        assert picture(values) == before

    look()


@st.composite
def examples_of(draw, entry: Entry):
    """Arguments of an entry point, of which one is spoiled, and its name."""
    names = [name for name in entry.given if name not in entry.never]
    arguments = {name: value() if name in MADE else value for name, value in entry.given.items()}
    name = draw(st.sampled_from(names))
    value = arguments[name]
    several = isinstance(value, list) and bool(value) and isinstance(value[0], np.ndarray)
    numeric = isinstance(value, (list, np.ndarray)) and not several and np.asarray(value).dtype.kind in "fi"
    if numeric and draw(st.booleans()):
        spoiled = draw(near(value))
    elif several and draw(st.booleans()):
        spoiled = list(value)
        spoiled[draw(st.integers(0, len(value) - 1))] = draw(near(value[0]) | anything())
    else:
        spoiled = draw(anything())
    if name in entry.at_most and isinstance(spoiled, (int, float)) and spoiled > entry.at_most[name]:
        spoiled = entry.at_most[name]
    return arguments | {name: spoiled}, {name: spoiled}


def attempt(entry: Entry, arguments, spoiled):
    """What is wrong with how an entry point takes its arguments; None where nothing is."""
    (name,) = spoiled
    before = picture(arguments)
    shown = repr(spoiled)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            entry.then(entry.call(**arguments))
    except (ValueError, TypeError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        frame = frames[-1]
        words, where = str(error), f"{Path(frame.filename).name}:{frame.lineno}"
        called = entry.called.get(name, rf"\b{re.escape(name)}\b")
        if any("sklearn" in frame.filename for frame in frames) or "estimators" in frame.filename:
            return None  # scikit-learn's own words, or words like them, for its estimators
        if callable(spoiled[name]) and not frame.filename.startswith(HOUSE):
            return None  # a callable of the caller's own, which raised an error of its own
        if not frame.filename.startswith(HOUSE):
            return f"{type(error).__name__} from {where}", words
        if not re.search(called, words):
            return f"{name} not named at {where}", words
        if "expected" not in words:
            return f"nothing expected at {where}", words
    except entry.raises:
        return None
    except AssertionError as error:
        return f"wrong result [{name}]", str(error)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        inner = [f for f in frames if f.filename.startswith(HOUSE)][-1:] or frames[-1:]
        return f"{type(error).__name__} in {Path(inner[0].filename).name}:{inner[0].lineno} [{name}]", str(error)
    after = picture(arguments)
    if before != after:
        return f"modified [{name}]", shown
    return None
