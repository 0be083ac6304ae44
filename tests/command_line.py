"""Run the command line of fgmp in this process."""

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

from fgmp.cli import main


class Done(NamedTuple):
    """What a command printed, and how it ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self):
        return self.stdout + self.stderr


def run_command(*arguments, input=""):
    """Run ``fgmp`` with arguments, and with text or bytes as its standard input."""
    raw = input if isinstance(input, bytes) else input.encode()
    stdin = io.TextIOWrapper(io.BytesIO(raw))
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        with patch("sys.stdin", stdin):
            code = main(list(arguments))
    return Done(code, out.getvalue(), err.getvalue())
