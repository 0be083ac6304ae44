"""examples/hospitals in deployment mode on loopback, by the commands of its README.

TLS, keys, a stranger, a signed app, an app that steals rows, a kill.
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
import pytest
from sklearn.datasets import load_breast_cancer

import fgmp
from fgmp.estimators import model_from_json

EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals"
BLOCKS = re.findall(r"```bash\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)


def block(words):
    """The one block of the README with these words."""
    (found,) = [text for text in BLOCKS if words in text]
    return found


class Machine:
    """A copy of the example, in which the lines of its README run as they stand."""

    def __init__(self, folder):
        self.folder, self.started = folder, {}
        shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
        for name, words in (
            ("server", ", secure=True"),
            ("client", ", masked_only=True"),
        ):  # four times as fast
            path = folder / "hospitals" / f"{name}.py"
            assert words in path.read_text()
            path.write_text(path.read_text().replace(words, ""))
        quiet = block("export FLWR_TELEMETRY_ENABLED").split()[1:]
        given = dict(word.replace("$PWD", str(folder)).split("=", 1) for word in quiet)
        assert given["FLWR_TELEMETRY_ENABLED"] == "0"
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        here = {"PATH": path, "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(EXAMPLE.parents[1])}
        self.environment = os.environ | given | here

    def run(self, text):
        """The lines of a block, one after another."""
        command, there = ["bash", "-euc", text], {"cwd": self.folder, "env": self.environment}
        done = subprocess.run(command, **there, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, name, line):
        """A line that does not end by itself."""
        command, there = (
            ["bash", "-c", f"exec {line}"],
            {"cwd": self.folder, "env": self.environment},
        )
        with open(self.folder / f"{name}.log", "w") as log:
            streams = {"stdout": log, "stderr": subprocess.STDOUT}
            self.started[name] = subprocess.Popen(
                command, **there, **streams, start_new_session=True
            )
        return self.started[name]

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def wait_for(self, what, seconds=1800):  # each message starts a process, which waits for a core
        ends = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < ends, "\n".join(
                f"--- {name}\n{self.log(name)[-3000:]}" for name in self.started
            )
            time.sleep(0.1)

    def trained(self):
        """The model that a run has written."""
        written = self.folder / "model.json"
        self.wait_for(written.exists)
        self.wait_for(
            lambda: "worst_" in self.log([*self.started][-1])
        )  # printed once it is written
        return model_from_json(written.read_text())

    def tables(self):
        """The rows of all hospitals, as one table."""
        rows = {name: np.genfromtxt(self.folder / "data" / f"{name}.csv", delimiter=",", skip_header=1, dtype=str)
                for name in ("north", "coast", "valley")}  # fmt: skip
        whole = np.concatenate(list(rows.values()))
        groups = np.repeat(np.arange(3), [len(own) for own in rows.values()])
        return whole[:, :-1].astype(float), whole[:, -1], groups

    def end(self):
        """By their ids: what was started here, with all that it has started, in sessions of their own or not."""
        family = set()
        for process in self.started.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                leader = psutil.Process(process.pid)
                family |= {leader, *leader.children(recursive=True)}
        for each in (signal.SIGTERM, signal.SIGKILL):
            for (
                process
            ) in self.started.values():  # those whose parent was killed are still of its group
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, each)
            for member in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.send_signal(each)
            psutil.wait_procs(family, 3)
        assert all(process.wait(3) is not None for process in self.started.values())
        assert not [
            member
            for member in family
            if member.is_running() and member.status() != psutil.STATUS_ZOMBIE
        ]


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path / "hospitals")
    try:
        yield made
    finally:
        made.end()


def is_open(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


# An app of somebody who may start a run: its clients send the file that they can read.
THIEVES = {
    "client": """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
app = ClientApp()
@app.query()
def query(message, context):
    rows = open(context.node_config["data"]).read()[:5000]
    return Message(RecordDict({"stolen": ConfigRecord({"rows": rows})}), reply_to=message)
""",
    "server": """
import time
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()
@app.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 3:
        time.sleep(1)
    replies = grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes])
    said = [str(r.content["stolen"]["rows"]) if r.has_content() else r.error.reason for r in replies]
    with open(context.run_config["model"], "w") as file:
        file.write("|".join(said))
""",
}


def assert_that_no_row_is_stolen(machine, run, name):
    """Every hospital answers that it does not run the app."""
    stolen = machine.folder / f"{name}.txt"
    machine.start(name, run.replace("$PWD/model.json", str(stolen)))
    machine.wait_for(stolen.exists)
    machine.wait_for(stolen.read_text)
    assert stolen.read_text().split("|") == ["The FAB could not be verified."] * 3


def test_the_readme_trains_with_one_hospital_killed_and_a_stranger_refused_and_trains_again(
    machine,
):
    assert not [port for port in (8443, 8444, 9101, 9102, 9103, 9104) if is_open(port)], (
        "something listens there"
    )
    for words in ("make_data.py", "openssl", "-t ecdsa", "flwr build", "sign.py"):
        machine.run(block(words))
    machine.run(block("-t ecdsa"))  # again, which leaves the keys as they are
    machine.start("shelf", block("python shelf.py").strip())
    machine.wait_for(lambda: is_open(8444))
    machine.run('ssh-keygen -q -t ecdsa -b 384 -N "" -C stranger -f keys/stranger')
    machine.start("superlink", block("flower-superlink").strip())
    machine.wait_for(lambda: is_open(8443))
    machine.run(block("supernode register"))

    lines = dict(
        zip(
            ("north", "coast", "valley"),
            block("flower-supernode").strip().splitlines(),
            strict=True,
        )
    )
    for name, line in lines.items():
        machine.start(name, line)
    stranger = lines["north"].replace("private-key keys/north", "private-key keys/stranger")
    refused = machine.start("stranger", stranger.replace("--port 9101", "--port 9104"))

    line = block("flwr run").strip()
    thieves = machine.folder / "thieves" / "hospitals"
    shutil.copytree(EXAMPLE, thieves)
    for name, code in THIEVES.items():
        (thieves / "hospitals" / f"{name}.py").write_text(code)
    unsigned = line.replace("@hospitals/hospitals==1.0.0", str(thieves))
    assert_that_no_row_is_stolen(machine, unsigned, "unsigned")
    (signed,) = (machine.folder / "shelf").glob("*.fab")
    kept = signed.read_bytes()
    machine.run(
        f"flwr build --app {thieves} && mv hospitals.*.fab {signed}"
    )  # under the signatures of another app
    assert_that_no_row_is_stolen(machine, line, "falsely_signed")
    signed.write_bytes(kept)

    machine.start("run", line)
    machine.wait_for(lambda: "all rows, round 1: loss" in machine.log("run"))
    os.kill(machine.started["valley"].pid, signal.SIGKILL)
    model = machine.trained()
    assert "; missing: valley" in machine.log("run")
    assert len(model.support_) == 5
    assert model.groups_.tolist() == ["north", "coast"] and model.missing_.tolist() == ["valley"]

    predicted = machine.run(block("fgmp predict")).splitlines()
    assert (
        predicted[0] == "prediction,probability of benign,probability of malignant"
        and len(predicted) == 11
    )
    table, own = load_breast_cancer(), np.random.default_rng(0).permutation(569)[-10:]
    names = table.target_names[table.target[own]]
    assert sum(line.startswith(name) for line, name in zip(predicted[1:], names, strict=True)) >= 9
    machine.wait_for(lambda: refused.poll() is not None or "not" in machine.log("stranger").lower())
    assert "SuperNode ID" not in machine.log("stranger")

    assert machine.log("superlink").count("Activated node_id") == 3
    machine.start("valley again", lines["valley"])
    machine.wait_for(lambda: machine.log("superlink").count("Activated node_id") > 3)
    (machine.folder / "model.json").unlink()
    machine.start("run again", line)
    again = machine.trained()
    assert "missing" not in machine.log("run again")
    X, y, groups = machine.tables()
    here = fgmp.FedGradMPClassifier(5, rounds=4, random_state=0).fit(X, y, groups)
    np.testing.assert_array_equal(again.coef_, here.coef_)
