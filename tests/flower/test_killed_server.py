"""A server that was killed goes on from its last finished round, with clients that know nothing of it any more."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from here import assert_same_run, over

import fgmp

FED = fgmp.make_sparse_regression(5, 40, 30, 3, rng=0)
METHOD = fgmp.SharedSupportGradMP(3)
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import fgmp
from here import over
from test_killed_server import FED, METHOD

def kill(run):
    if run.step.round == 3:
        os.kill(os.getpid(), signal.SIGKILL)

fgmp.simulate(METHOD, over(FED), 6, 3, rng=4, watch=[fgmp.Checkpoint(sys.argv[2], every=1), kill])
"""


def test_it_goes_on_to_the_same_bits(tmp_path):
    path = tmp_path / "run.fgmp"
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(path)]
    assert subprocess.run(command, env=dict(os.environ), timeout=120, check=False).returncode == -signal.SIGKILL
    channel = over(FED)
    there = fgmp.simulate(METHOD, channel, 6, 3, rng=4, watch=fgmp.Checkpoint(path))
    assert_same_run(there, fgmp.simulate(METHOD, FED, 6, 3, rng=4))
    assert {asked["round"] for _, asked in channel.post.grid.asked if asked["ask"] == "answer"} == {4, 5, 6}


@pytest.mark.parametrize("given", [{"n_clients": 4}, {"settings": {"part": "training"}}])
def test_other_clients_or_settings_are_refused(tmp_path, given):
    path = tmp_path / "run.fgmp"
    fgmp.simulate(METHOD, over(FED), 2, rng=4, watch=fgmp.Checkpoint(path))
    other = over(FED.part(range(given.get("n_clients", 5))), settings=given.get("settings"))
    with pytest.raises(ValueError, match="is of another run: .*(shape.rows is 4 of them|settings is )"):
        fgmp.simulate(METHOD, other, 4, rng=4, watch=fgmp.Checkpoint(path))
