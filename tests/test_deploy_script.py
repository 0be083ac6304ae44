"""examples/hospitals/deploy.sh: what it starts it ends, and it stops at the first error.

Everything that it calls is a stand-in here; tests/flower/test_hospitals.py deploys in earnest.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

EXAMPLE = Path(__file__).parents[1] / "examples" / "hospitals"
SCRIPT = (EXAMPLE / "deploy.sh").read_text(encoding="utf-8")
SERVICES = yaml.safe_load((EXAMPLE / "compose.yaml").read_text(encoding="utf-8"))["services"]
HOSPITALS = ["cleveland", "budapest", "switzerland", "long_beach"]
# Each command writes down that it was called, and, if it lasts, the number of its process.
STAND_IN = """#!/bin/bash
name=$(basename "$0")
echo "$name $*" >> calls
case "$name $*" in *"$FAILING"*) exit 3 ;; esac
case "$name $1" in
    "python make_data.py") mkdir -p data; touch data/{cleveland,budapest,switzerland,long_beach}.csv ;;
    "python superlink.py") echo $$ >> processes; exec "$PYTHON" -c "$LISTENER" "$6" ;;
    "python node.py") sleep 600 & echo $$ $! >> processes; wait ;;
    "flwr build") touch hospitals.hospitals.1-0-0.x.fab ;;
    "flwr run") sleep 1; [ -n "$WITHOUT_MODEL" ] || echo {} > model.json ;;
    "ssh-keygen -q") touch "${@: -1}"; echo ssh-ed25519 abc > "${@: -1}.pub" ;;
esac
"""
LISTENER = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(600)
"""


def free_port():
    """Return a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
    return port


@pytest.fixture
def folder(tmp_path):
    """The script, and stand-ins for all that it calls."""
    shutil.copy(EXAMPLE / "deploy.sh", tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("python", "flwr", "openssl", "ssh-keygen"):
        command = tmp_path / "bin" / name
        command.write_text(STAND_IN)
        command.chmod(0o700)
    return tmp_path


def run(folder, failing="nothing at all", arguments=("all",), **variables):
    variables |= {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PORT": str(free_port()),
        "PYTHON": sys.executable,
        "LISTENER": LISTENER,
        "FAILING": failing,
    }
    return subprocess.run(
        ["bash", folder / "deploy.sh", *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


def living(folder):
    """Return the processes that the script has started, and that still run after a moment."""
    written = folder / "processes"
    started = written.read_text().split() if written.exists() else []
    left = started
    for _ in range(50 if started else 0):
        listed = subprocess.run(
            ["ps", "-o", "pid=,stat=", "-p", ",".join(started)],
            capture_output=True,
            text=True,
        )
        left = [line for line in listed.stdout.splitlines() if "Z" not in line]
        if not left:
            break
        time.sleep(0.1)
    return left


def test_whole_deployment_runs_in_its_order_and_leaves_no_process(folder):
    """Tables, keys, signatures, server, four nodes, one run, and measures at each hospital."""
    done = run(folder)
    assert done.returncode == 0, done.stderr
    calls = (folder / "calls").read_text()
    steps = [
        "python make_data.py",
        "openssl",
        "flwr build",
        "python sign.py",
        "python superlink.py",
        "flwr supernode register",
        "flwr run",
        "python measure.py",
    ]
    places = [calls.index(step) for step in steps]
    assert places == sorted(places)
    for name in HOSPITALS:
        assert f"keys/{name}.sign {name}\n" in calls and f"data={folder}/" in calls.replace("'", "")
        assert (folder / "logs" / f"measure_{name}.log").exists()
    assert len((folder / "processes").read_text().split()) == 9
    assert living(folder) == []
    assert "All processes have ended." in done.stdout


@pytest.mark.parametrize(
    "failing, never, words",
    [
        ("python make_data.py", "openssl", ""),
        ("python sign.py", "superlink.py", ""),
        ("python superlink.py", "supernode register", "see logs/server.log"),
        ("supernode register keys/budapest", "name='budapest'", ""),
        ("name='switzerland'", "measure.py", "see logs/node_switzerland.log"),
        ("flwr run", "measure.py", "the run has failed"),
    ],
)
def test_first_error_ends_the_whole_deployment(folder, failing, never, words):
    """Nothing is called after it, and what had been started has ended."""
    done = run(folder, failing)
    assert done.returncode == (1 if words else 3)
    assert words in done.stderr
    assert never not in (folder / "calls").read_text()
    assert living(folder) == []


def test_run_without_a_model_is_an_error(folder):
    """Flower's command may end well although the run did not."""
    done = run(folder, WITHOUT_MODEL="yes")
    assert done.returncode == 1
    assert "the run has written no model.json" in done.stderr
    assert living(folder) == []


def test_port_in_use_is_said_before_anything_is_made(folder):
    """Perhaps by a deployment that goes on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            ["bash", folder / "deploy.sh", "all"],
            env=os.environ | {"PORT": port},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert f"something listens at port {port} already" in done.stderr
    assert not (folder / "calls").exists()


def test_old_app_beside_the_new_one_is_said_before_anything_is_signed(folder):
    """A hospital copies each app into one folder."""
    (folder / "shelf").mkdir()
    for name in ("new.fab", "old.fab"):
        (folder / "shelf" / name).touch()
    done = run(folder, arguments=("sign", "cleveland"))
    assert done.returncode == 1
    assert "expected one app in shelf/, and there are 2" in done.stderr
    assert not (folder / "calls").exists()


def test_container_of_no_hospital_ends_and_says_which_there_are(folder):
    """A variable is missing in the file .env, and starting again and again does not help."""
    assert not any("restart" in service for service in SERVICES.values())
    words = shlex.split(SERVICES["node"]["command"].replace("${HOSPITAL:-}", ""))
    done = run(folder, arguments=words[2:])
    assert done.returncode == 1
    assert "'' is no hospital; expected one of cleveland" in done.stderr


def test_commands_of_the_pages_are_those_of_the_script():
    """Of README, of the page for a hospital, and of the compose file."""
    (listed,) = re.findall(r"^    (all \|.*)\) \"\$@\"", SCRIPT, re.MULTILINE)
    commands = set(listed.split(" | "))
    texts = [service["command"] for service in SERVICES.values()]
    texts += [path.read_text(encoding="utf-8") for path in EXAMPLE.glob("*.md")]
    named = {name for text in texts for name in re.findall(r"deploy\.sh ([a-z]+)", text)}
    assert named == commands
