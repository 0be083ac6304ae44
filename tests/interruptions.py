"""Ctrl-C at a place that a test chooses: at a line of fgmp, counted, and the same in each run."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fgmp

PACKAGE = str(Path(fgmp.__file__).parent)


class _Count:
    n_lines = 0


@contextmanager
def interrupted_at(line: int | None) -> Iterator[_Count]:
    """Raise KeyboardInterrupt before the n-th line of fgmp that is run; None counts them."""
    count = _Count()

    def on_line(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            count.n_lines += 1
            if count.n_lines == line:
                raise KeyboardInterrupt
        return on_line

    def on_call(frame: Any, event: str, argument: Any) -> Any:
        return on_line if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield count
    finally:
        sys.settrace(before)


def lines_of(call: Callable[[], object], n_places: int, n_last: int) -> list[int]:
    """Return places in a call that are spread evenly, and each of its last lines."""
    with interrupted_at(None) as count:
        call()
    spread = range(1, count.n_lines, max(count.n_lines // n_places, 1))
    return sorted({*spread, *range(count.n_lines - n_last, count.n_lines + 1)})
