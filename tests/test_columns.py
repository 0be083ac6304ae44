"""The columns of a history, in memory and in files."""

import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import fgmp
from fgmp.running.columns import Column

FED = fgmp.make_sparse_regression(2, 5, 4, 1, rng=0)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("before", [0, 3, 100])
def test_what_was_written_is_what_is_there(dtype, before, monkeypatch):
    monkeypatch.setattr("fgmp.running.columns._ROOM", 2)
    monkeypatch.setattr("fgmp.running.columns._LONG", 16)
    expected = (1000 * np.random.default_rng(0).standard_normal(before + 100)).astype(dtype)
    column = Column(dtype, expected[:before]) if before else Column(dtype)
    views = {}
    for place in range(before, len(expected)):
        column.write(place, expected[place])
        views[place] = column.view(place + 1)
        if place % 7 == 0:
            column.release()
    assert column.map is not None
    for place, view in views.items():  # also those of a time before the column moved
        np.testing.assert_array_equal(view, expected[: place + 1])
        assert not view.flags.writeable


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="looks into /proc")
def test_a_long_column_is_in_a_file_without_a_name_and_not_in_memory():
    count = 2**20
    column = Column(np.float64, np.arange(count, dtype=float))
    assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob("fgmp-history-*"))
    column.release()
    assert resident("deleted") < 2**20
    assert column.view(count).sum() == count * (count - 1) / 2
    assert resident("deleted") >= 8 * count
    column.write(count - 1, 0.0)
    column.release()
    assert resident("deleted") < 2**20 and column.view(count)[-2:].tolist() == [count - 2, 0]


def resident(name):
    """Bytes in memory of maps with a name."""
    total, ours = 0, False
    with open("/proc/self/smaps") as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and ":" not in words[0]:
                ours = name in line
            elif ours and words[0] == "Rss:":
                total += 1024 * int(words[1])
    return total


@pytest.mark.skipif(sys.platform == "win32", reason="no such call")
def test_without_room_on_the_disk_a_column_stays_in_memory(monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    column = Column(np.int64, np.arange(10_000))
    assert column.map is None
    column.write(10_000, 7)
    np.testing.assert_array_equal(column.view(10_001), [*range(10_000), 7])


@pytest.mark.parametrize("how", ["as it is", "in files"])
def test_a_run_has_the_same_history_and_goes_on_from_it(how, tmp_path, monkeypatch):
    if how == "in files":
        monkeypatch.setattr("fgmp.running.columns._ROOM", 2)
        monkeypatch.setattr("fgmp.running.columns._LONG", 4)
    method, path = fgmp.FedAvg(learning_rate=0.1), tmp_path / "run.fgmp"
    whole = fgmp.simulate(method, FED, 60, rng=0)
    fgmp.simulate(method, FED, 30, rng=0, checkpoint=path, every=5, callback=fgmp.stop_when_stalled(50))
    parts = fgmp.simulate(method, FED, 60, rng=0, checkpoint=path)
    for name in set(whole.history) - {"seconds"}:
        np.testing.assert_array_equal(parts.history[name], whole.history[name])
        assert parts.history[name].flags.writeable  # the result has its own
