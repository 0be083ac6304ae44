"""Runs that are interrupted, killed or out of disk: nothing that was finished is lost."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import one_run
import pytest
from one_run import bits, number_in

import fgmp
from fgmp.running.processes import shared_folder

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
    """The finished rounds on disk; while a round is being put in its place, only `.previous` is there."""
    for file in (str(path), f"{path}.previous"):
        try:
            return number_in(file)
        except FileNotFoundError:
            pass
    return 0


def test_a_run_that_is_killed_goes_on_to_the_same_bits(path):
    """SIGKILL at random moments after the first file of each: a tenth of a second is some thirty rounds and files."""
    kills, moments, numbers = 30 if os.environ.get("FGMP_SOAK") else 3, np.random.default_rng(0), [0]
    for _ in range(kills):
        process = start(path, 10**6, 1, 1)
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
    process = start(path, 9, 1, 1, event)
    out, err = process.communicate(timeout=120)
    folder.chmod(0o755)
    assert out == "finished 9\n", err
    reason = "File too large" if event == "disk_full" else "Permission denied"
    assert err.count("CheckpointWarning: the checkpoint of round") == 1
    assert f"the checkpoint of round 6 could not be written to '{path}' ({reason}); the run goes on" in err
    assert "and the one of round 5 is still there" in err
    assert number_in(path) == 5 and sorted(file.name for file in folder.iterdir()) == ["run.fgmp", "run.fgmp.previous"]
    assert resumed(path, 12) == expected(12)


def test_a_real_disk_that_is_full(tmp_path):
    """A file system of 16 kB: the first checkpoints fit, the later ones, with longer histories, do not."""
    file, folder = tmp_path / "run.fgmp", os.path.dirname(one_run.__file__)
    number = f"import one_run; print('kept', one_run.number_in('{file}'))"
    script = f"""mount -t tmpfs -o size=16k tmpfs {tmp_path} && cd {folder}
        {sys.executable} one_run.py {file} 60 1 1 2>&1; ls {tmp_path}; {sys.executable} -c "{number}" """
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no private mounts here")
    private = ["unshare", "-rm", "sh", "-c", script]
    out = subprocess.run(private, capture_output=True, text=True, timeout=120, env=ENVIRONMENT).stdout
    assert "(No space left on device); the run goes on" in out and "finished 60" in out
    assert "partial" not in out and int(out.split("kept ")[1]) > 0


def test_ctrl_c_of_a_process_saves_first(path):
    process = start(path, 9, "None", 1, "interrupt")
    out, err = process.communicate(timeout=120)
    assert out == "interrupted 5\n" and "InterruptedWarning: Ctrl-C ended the run after round 5 of 9" in err
    assert resumed(path, 9) == expected(9)


# Worker processes: nothing of them stays.


def family(process):
    """The process and all that descends from it, by number."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat") as file:
                    parents[int(entry.name)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    found = {process.pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def living(numbers):
    """Those that still run; a zombie, which nobody has waited for yet, does not."""
    left = set()
    for number in numbers:
        try:
            with open(f"/proc/{number}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                    left.add(number)
        except OSError:
            pass
    return left


def wait_for(condition, seconds):
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")


@on_linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_parent_that_is_killed(number, tmp_path, monkeypatch):
    """Soon no process, no folder, and no memory that joblib shares; the checkpoint is there."""
    shared = set(os.listdir("/dev/shm"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setitem(ENVIRONMENT, "TMPDIR", str(temporary))
    process = start(tmp_path / "run.fgmp", 10**6, 1, 2)
    assert wait_for(lambda: (tmp_path / "run.fgmp.previous").exists(), 120)  # the first round is over
    relatives = family(process)
    assert len(relatives) >= 3 and len(list(temporary.glob("fgmp-*"))) == 1
    process.send_signal(number)
    process.wait()
    gone = wait_for(lambda: not living(relatives), 60)
    for left in living(relatives):
        os.kill(left, signal.SIGKILL)
    assert gone
    assert not list(temporary.glob("fgmp-*"))
    assert wait_for(lambda: not [name for name in set(os.listdir("/dev/shm")) - shared if str(process.pid) in name], 60)
    assert number_in(tmp_path / "run.fgmp") > 0
    process.stdout.close(), process.stderr.close()


@on_linux
def test_what_a_dead_run_left_is_removed_at_the_next_start(tmp_path, monkeypatch):
    """Where its workers were killed too. The folder of a run that lives stays, and so do a user's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, own = tmp_path / "fgmp-dead", tmp_path / "fgmp-results"
    for folder in (dead, own):
        folder.mkdir()
        (folder / "file").touch()
    (dead / "fgmp.lock").touch()
    with shared_folder() as living_run:
        fgmp.simulate(fgmp.FedAvg(**RATE), FED, 1, rng=0, workers=2)
        assert sorted(tmp_path.iterdir()) == sorted([living_run, own])
    assert list(tmp_path.iterdir()) == [own]


@on_linux
def test_workers_go_on_after_ctrl_c(path):
    def stop(history):
        if history["round"][-1] == 2:
            signal.raise_signal(signal.SIGINT)

    method = fgmp.FedAvg(**RATE)
    with pytest.warns(fgmp.InterruptedWarning):
        fgmp.simulate(method, FED, 5, rng=0, checkpoint=path, workers=2, callback=stop)
    assert number_in(path) == 2
    whole = fgmp.simulate(method, FED, 5, rng=0)
    assert bits(fgmp.simulate(method, FED, 5, rng=0, checkpoint=path, workers=2)) == bits(whole)
