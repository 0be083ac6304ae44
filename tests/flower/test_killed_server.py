"""A server that was killed goes on from its last finished round, with clients that know nothing of it any more."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
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

def kill(history):
    if history["round"][-1] == 3:
        os.kill(os.getpid(), signal.SIGKILL)

fgmp.federate(METHOD, over(FED), 6, 3, rng=4, checkpoint=sys.argv[2], every=1, callback=kill)
"""


def test_it_goes_on_to_the_same_bits(tmp_path):
    path = tmp_path / "run.fgmp"
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(path)]
    assert subprocess.run(command, env=dict(os.environ), timeout=120, check=False).returncode == -signal.SIGKILL
    transport = over(FED)
    there = fgmp.federate(METHOD, transport, 6, 3, rng=4, checkpoint=path)
    assert_same_run(there, fgmp.simulate(METHOD, FED, 6, 3, rng=4, faults=[]))
    played = {asked["round"] for _, asked in transport.grid.asked if asked["ask"] == "answer"}
    assert played in ({"3", "4", "5", "6"}, {"4", "5", "6"})  # round 3 again, where its checkpoint was not yet written


def test_another_federation_is_refused(tmp_path):
    path = tmp_path / "run.fgmp"
    fgmp.federate(METHOD, over(FED), 2, rng=4, checkpoint=path)
    other = fgmp.Federation(FED.clients[:4], np.ones(4))
    with pytest.raises(ValueError, match=r"is of another run: .*n_clients is 4, not 5"):
        fgmp.federate(METHOD, over(other), 4, rng=4, checkpoint=path, objective_on=None)
