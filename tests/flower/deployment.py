"""A deployment of examples/hospitals on loopback, by the commands of its deploy.sh.

An app without masks and without the refit runs: it sends fewer messages, and Flower starts a
process for each.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil

from fgmp.estimators import model_from_json

EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals"
HOSPITALS = ("cleveland", "budapest", "switzerland", "long_beach")

# Of the server, and of the four nodes and one more.
PORTS = (8443, 9101, 9102, 9103, 9104, 9105)

_BLOCKS = re.findall(r"```bash\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)

# What replaces what: a run takes fewer messages, and there is a node whose key is not registered.
_CHANGES = {
    "hospitals/server.py": (", secure=True", ", polish=False"),
    "hospitals/client.py": (", masked_only=True", ""),
    "deploy.sh": ('switzerland long_beach"', 'switzerland long_beach stranger"'),
}


def block_of_readme(words):
    """Return the one block of the README with these words."""
    (found,) = [block for block in _BLOCKS if words in block]
    return found


def is_open(port):
    """Whether something listens at a port of this machine."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


class Deployment:
    """A copy of the example, in which commands of its README and its deploy.sh run as they stand.

    Attributes
    ----------
    folder : Path
    processes : dict of str to Popen
        What was started and does not end by itself, by name.
    """

    def __init__(self, folder):
        self.folder = folder
        self.processes = {}
        shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
        for name, (words, replacement) in _CHANGES.items():
            path = folder / name
            assert words in path.read_text()
            path.write_text(path.read_text().replace(words, replacement))
        self.environment = os.environ | self._variables_of_script() | self._variables_of_python()

    def _variables_of_script(self):
        (line,) = re.findall(
            r"^export (.*)$", (self.folder / "deploy.sh").read_text(), re.MULTILINE
        )
        words = line.split()
        variables = dict(word.replace("$PWD", str(self.folder)).split("=", 1) for word in words)
        assert variables["FLWR_TELEMETRY_ENABLED"] == "0"
        return variables

    def _variables_of_python(self):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {"PATH": path, "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(EXAMPLE.parents[1])}

    def run(self, lines):
        """Run the lines of a block, one after another, and return what they print."""
        done = subprocess.run(
            ["bash", "-euc", lines],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, name, line):
        """Start a line that does not end by itself."""
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes[name] = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self, name):
        """Return what a process has printed so far."""
        return (self.folder / f"{name}.log").read_text()

    def wait_for(self, condition, seconds=1800):
        """Wait until a condition holds: each message starts a process, which waits for a core."""
        ends = time.monotonic() + seconds
        while not condition():
            logs = [f"--- {name}\n{self.log(name)[-3000:]}" for name in self.processes]
            assert time.monotonic() < ends, "\n".join(logs)
            time.sleep(0.1)

    def wait_for_model(self, run):
        """Return the model that a run has written, which says so afterwards."""
        written = self.folder / "model.json"
        self.wait_for(written.exists)
        self.wait_for(lambda: "written: " in self.log(run))
        return model_from_json(written.read_text())

    def tables(self):
        """Return the rows of all hospitals as one table: X, y and the hospital of each row."""
        rows = [self._table(name) for name in HOSPITALS]
        whole = np.concatenate(rows)
        groups = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
        return whole[:, :-1].astype(float), whole[:, -1], groups

    def _table(self, name):
        path = self.folder / "data" / f"{name}.csv"
        return np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str)

    def end(self):
        """End, by their ids, the processes that were started and all that these have started."""
        family = set()
        for process in self.processes.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                leader = psutil.Process(process.pid)
                family |= {leader, *leader.children(recursive=True)}
        for sent in (signal.SIGTERM, signal.SIGKILL):
            # Processes whose parent was killed are still of its group.
            for process in self.processes.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, sent)
            for member in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.send_signal(sent)
            psutil.wait_procs(family, 3)
        assert all(process.wait(3) is not None for process in self.processes.values())
        assert not [member for member in family if _runs(member)]


def _runs(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
