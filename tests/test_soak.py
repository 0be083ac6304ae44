"""Long runs, for `make soak`: memory and time per round stay where they are. It prints what it measured."""

import os
import subprocess
import sys

import long_run
import numpy as np
import pytest

import fgmp

pytestmark = pytest.mark.skipif(
    not (os.environ.get("FGMP_SOAK") and os.path.exists("/proc/self/statm")), reason="make soak, on Linux"
)
ROUNDS = 20_000


@pytest.mark.parametrize("name", long_run.METHODS)
def test_memory_and_time_per_round_are_flat(name, tmp_path, capsys):
    """From the first tenth of 20,000 rounds, with faults, history and a checkpoint every 100, to the last."""
    environment = os.environ | {
        "PYTHONPATH": os.path.dirname(os.path.dirname(fgmp.__file__)),
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, long_run.__file__, str(tmp_path / "run.fgmp"), str(ROUNDS), name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    number, memory, seconds = np.array([line.split() for line in done.stdout.splitlines()], float).T
    assert len(number) == 40 and number[-1] == ROUNDS
    each = np.diff(seconds) / np.diff(number)
    growth, slowing = memory[-1] / memory[3], np.median(each[-10:]) / np.median(each[3:13])
    with capsys.disabled():
        print(
            f"\n{name}: {memory[3]:.1f} MB after a tenth, {memory[-1]:.1f} at the end ({growth - 1:+.1%}) "
            f"and {memory.max():.1f} at most; {1e3 * np.median(each[3:13]):.2f} ms a round in the first "
            f"quarter, {1e3 * np.median(each[-10:]):.2f} in the last ({slowing - 1:+.1%}), of processor time"
        )
    assert memory.max() / memory[3] < 1.05
    assert slowing < 1.25  # far above what a busy machine adds, far below what a cost that grows with the rounds does
