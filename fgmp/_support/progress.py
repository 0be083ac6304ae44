"""Progress of long work on the standard error: one line that is rewritten, or a line each step."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

# Seconds until a line, or a bar, appears on a terminal: shorter work shows nothing.
PATIENCE = 2.0


@contextmanager
def progress_line(verbose: bool | str, title: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a step, and take the line away at the end.

    Parameters
    ----------
    verbose : {"auto", True, False}
        ``"auto"`` shows one line on a terminal, from two seconds on, and takes it away at the end.
        True prints each step on a line of its own, with the seconds so far, wherever the output
        goes. False shows nothing.
    title : str
        What the lines begin with.
    """
    began = time.monotonic()

    def print_step(words: str) -> None:
        line = f"{title}, {time.monotonic() - began:.1f} s: {words}"
        print(line, file=sys.stderr, flush=True)

    def rewrite_line(words: str) -> None:
        line.set_postfix_str(words, refresh=False)
        line.update()

    if verbose is True:
        yield print_step
        return
    # Elsewhere than on a terminal each step would be a line that stays.
    is_off = None if verbose == "auto" else True
    form = "{desc}, {elapsed}{postfix}"
    with tqdm(desc=title, bar_format=form, delay=PATIENCE, leave=False, disable=is_off) as line:
        yield rewrite_line
