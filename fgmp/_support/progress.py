"""Progress of long work on the standard error: one line that is rewritten, or a line each step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

# Seconds until a line appears on a terminal: shorter work shows nothing.
PATIENCE = 2.0
# Seconds between two rewritings.
_PAUSE = 0.1
_CLEARED = "\r\x1b[K"


class ProgressLine:
    """Show what is under way.

    Parameters
    ----------
    verbose : {"auto", True, False}
        ``"auto"`` shows one line on a terminal, from two seconds on, and takes it away at the end.
        True prints each step on a line of its own, with the seconds so far, wherever the output
        goes. False shows nothing.
    title : str
        What the lines begin with.
    stream : file, optional
        By default the standard error.
    clock : callable, default time.monotonic
        Returns seconds.

    Examples
    --------
    >>> import sys
    >>> from fgmp._support.progress import ProgressLine
    >>> line = ProgressLine(True, "fit", sys.stdout, clock=lambda: 7.0)
    >>> line.show("round 1")
    fit, 0.0 s: round 1
    """

    def __init__(
        self,
        verbose: bool | str,
        title: str,
        stream: Any = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.verbose = verbose
        self.title = title
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self.began = clock()
        self._written: float | None = None  # when the line was last rewritten

    def show(self, words: str) -> None:
        """Show a step."""
        if self.verbose is False:
            return
        now = self.clock()
        line = f"{self.title}, {now - self.began:.1f} s: {words}"
        if self.verbose is True:
            print(line, file=self.stream, flush=True)
        elif self._is_due(now):
            self.stream.write(_CLEARED + line)
            self.stream.flush()
            self._written = now

    def close(self) -> None:
        """Take the line away, if there is one."""
        if self._written is not None:
            self.stream.write(_CLEARED)
            self.stream.flush()
            self._written = None

    def _is_due(self, now: float) -> bool:
        """Return whether a terminal is there, and the work is long enough for a line."""
        if not self.stream.isatty() or now - self.began < PATIENCE:
            return False
        return self._written is None or now - self._written >= _PAUSE
