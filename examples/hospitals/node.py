"""At a hospital: a node whose answers do not wait for a start of Python.

    node.py flower-supernode ...

Flower starts a process, `flwr-clientapp`, for each message, and that process first imports Flower
and fgmp: about four seconds of a processor, where the answer takes a tenth of one. Here a helper
imports them once. What Flower starts in place of its own command asks the helper for a copy of
itself (a fork), and the copy answers the message as Flower's command does. Each message still has a
process of its own, which ends with it, and the app that it runs is the one whose signature the node
has checked. For Linux and macOS, which can copy processes.
"""

import importlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path

COMMAND = "flwr-clientapp"
STAND_IN = """#!{python} -IS
import json, socket, sys
with socket.socket(socket.AF_UNIX) as helper:
    helper.connect({address!r})
    helper.sendall(json.dumps(sys.argv[1:]).encode())
"""
MODULES = (
    "cryptography.hazmat.primitives.asymmetric.x25519",
    "cryptography.hazmat.primitives.ciphers.aead",
    "fgmp.estimators.csv_tables",
    "fgmp.flower",
    "flwr.supernode.cli",
    "sklearn.utils",
)
SECONDS_BETWEEN_LOOKS = 1.0  # whether the node has ended


def main(line):
    """Become the node of a command line, beside a helper that lasts as long as the node."""
    folder = Path(tempfile.mkdtemp())  # nobody else may enter it
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "helper"))
    listener.listen()
    stand_in = folder / COMMAND
    stand_in.write_text(STAND_IN.format(python=sys.executable, address=str(folder / "helper")))
    stand_in.chmod(0o700)

    node = os.getpid()
    if os.fork() == 0:
        os._exit(help_node(node, listener, folder))
    listener.close()
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    os.execvp(line[0], line)


def help_node(node, listener, folder):
    """Answer each message of a node in a copy of this process, until the node has ended."""
    import_what_answers_need()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # copies that have ended leave nothing behind
    listener.settimeout(SECONDS_BETWEEN_LOOKS)
    while os.getppid() == node:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        with connection, connection.makefile("rb") as received:
            arguments = json.loads(received.read())
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            os._exit(answer(arguments))
    shutil.rmtree(folder)
    return 0


def import_what_answers_need():
    """Import what each answer would have to import."""
    for module in MODULES:
        importlib.import_module(module)


def answer(arguments):
    """Answer one message as Flower's command does, and return the exit status."""
    from flwr.supernode.cli import flwr_clientapp

    sys.argv = [COMMAND, *arguments]
    try:
        flwr_clientapp()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
