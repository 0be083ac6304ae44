"""Runs that are interrupted, killed or out of disk: nothing that was finished is lost."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import one_run
import pytest
from one_run import bits, number_in

import fgmp

FED = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
RATE = {"learning_rate": 0.05, "local_iterations": 2, "batch_size": 10}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.fgmp"


@pytest.mark.parametrize("place", ["broadcast", "answer", "combine", "callback"])
@pytest.mark.parametrize("record_every", [1, 2])
def test_ctrl_c_returns_what_there_is_and_the_run_goes_on(place, record_every, path):
    """The interrupted run is the one of as many rounds, wherever in its fourth round Ctrl-C came."""
    options = {"cohort_size": 4, "rng": 0, "record_every": record_every}

    def stop(history):
        if place == "callback" and history["round"][-1] == 4:
            signal.raise_signal(signal.SIGINT)

    method = fgmp.FedAvg(**RATE)
    with pytest.warns(fgmp.InterruptedWarning, match=r"Ctrl-C ended the run after round \d of 9; the result is what"):
        result = fgmp.simulate(Pressed(method, place, 4), FED, 9, **options, callback=stop, checkpoint=path)
    rounds = 4 if place == "callback" else 3
    assert result.interrupted and result.history["round"][-1] == rounds and number_in(path) == rounds
    shorter = fgmp.simulate(method, FED, rounds, **options)
    assert bits(result) == bits(shorter) and not shorter.interrupted
    finished = fgmp.simulate(Pressed(method, place, 0), FED, 9, **options, checkpoint=path)
    assert bits(finished) == bits(fgmp.simulate(method, FED, 9, **options))


class Pressed:
    """A method in which Ctrl-C comes at a place in a round; after 0 rounds, never."""

    def __init__(self, method, place, after):
        self.method, self.place, self._left = method, place, after

    def __getstate__(self):  # a checkpoint knows a method by what it is, not by what happened to it
        return {"method": self.method, "place": self.place}

    def __getattr__(self, name):
        return getattr(self.method, name)

    def exchanges(self):
        (exchange,) = self.method.exchanges()

        def at(place, function):
            def pressed(*arguments):
                self._left -= place == "broadcast"
                if self._left == 0 and place == self.place:
                    signal.raise_signal(signal.SIGINT)
                return function(*arguments)

            return pressed

        names = ("broadcast", "answer", "combine")
        return (exchange._replace(**{name: at(name, getattr(exchange, name)) for name in names}),)


def test_ctrl_c_goes_through_those_who_want_whole_runs():
    pressed = Pressed(fgmp.FedAvg(**RATE), "answer", 4)
    with pytest.raises(KeyboardInterrupt):
        fgmp.tune(lambda learning_rate: pressed, {"learning_rate": [0.1, 0.2]}, FED, rounds=9)


ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.path.dirname(os.path.dirname(fgmp.__file__)),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def wait_for(condition, seconds):
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def start(*arguments):
    """A process that runs `one_run.py`, up to its first round."""
    command = [sys.executable, one_run.__file__, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, env=ENVIRONMENT, **pipes)
    assert process.stdout.readline() == "started\n", process.stderr.read()
    return process


def expected(rounds):
    return bits(fgmp.simulate(one_run.METHOD, one_run.federation(), rounds, 5, 0))


def resumed(path, rounds):
    return bits(fgmp.simulate(one_run.METHOD, one_run.federation(), rounds, 5, 0, checkpoint=path))


def kept(path):
    """The finished rounds on disk."""
    return number_in(path) if path.exists() else 0


def test_a_run_that_is_killed_goes_on_to_the_same_bits(path):
    """SIGKILL at random moments after the first file of each: a tenth of a second is some thirty rounds and files."""
    kills, moments, numbers = 30 if os.environ.get("FGMP_SOAK") else 1, np.random.default_rng(0), [0]
    for _ in range(kills):
        process = start(path, 10**6, 1)
        assert wait_for(lambda: kept(path) != numbers[-1], 120)
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        numbers.append(kept(path))
    assert numbers == sorted(set(numbers))
    assert resumed(path, numbers[-1] + 3) == expected(numbers[-1] + 3)


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on files")
@pytest.mark.parametrize("event", ["disk_full", "read_only"])
def test_a_disk_that_fills_up_stops_no_run_and_keeps_the_last_good_file(event, tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    path = folder / "run.fgmp"
    process = start(path, 9, 1, event)
    out, err = process.communicate(timeout=120)
    folder.chmod(0o755)
    assert out == "finished 9\n", err
    reason = "File too large" if event == "disk_full" else "Permission denied"
    assert err.count("CheckpointWarning: the checkpoint of round") == 1
    assert f"the checkpoint of round 6 could not be written to '{path}' ({reason}); the run goes on" in err
    assert "and the one of round 5 is still there" in err
    assert number_in(path) == 5 and sorted(file.name for file in folder.iterdir()) == ["run.fgmp"]
    assert resumed(path, 12) == expected(12)
