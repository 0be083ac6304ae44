"""Every point of a sweep in a folder of its own, and only those that are not finished."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..book.claims import Claim, read_claims
from .execution import execute
from .points import Point
from .sources import Source, check_parameters

__all__ = ["Outcome", "outcome_of", "outcomes_in", "run_sweep"]

NOTEBOOK, ABOUT, CLAIMS = "notebook.ipynb", "point.json", "claims"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Outcome:
    """What a folder of a sweep holds of one point.

    Attributes
    ----------
    point : Point
    state : str
        "done", "failed" or "not run".
    problem : str
        What stopped the notebook; empty unless it failed.
    claims : tuple of Claim
        Those of a finished point, by their ids.
    notebook : Path or None
        The executed notebook, or its part before the error.
    """

    point: Point
    state: str
    problem: str = ""
    claims: tuple[Claim, ...] = ()
    notebook: Path | None = None


def run_sweep(
    source: Source,
    points: Sequence[Point],
    out: Path,
    *,
    jobs: int = 1,
    address: str | None = None,
    again: bool = False,
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Run a notebook at every point that is not finished; a point that fails does not stop the others.

    Parameters
    ----------
    source : Source
        The notebook.
    points : sequence of Point
    out : Path
        The folder of the sweep. A finished point is the folder KEY in it, with the notebook, the claims and the
        parameters, which is renamed once it is whole; a failed one is KEY.failed, and is run anew next time.
    jobs : int, default 1
        Processes of this machine (joblib's loky). The results do not depend on it: every kernel has as many threads
        for linear algebra as this process is told to use, one unless it is told.
    address : str, optional
        The scheduler of a Dask cluster, ``tcp://host:8786``, whose workers then share the points in place of `jobs`.
        They need fgmp with its notebooks, and to see the same files.
    again : bool, default False
        Whether to run finished points too.
    report : callable, optional
        Called with the outcome of each point that was run, in their order.

    Returns
    -------
    list of Outcome
        One for each point.

    Raises
    ------
    ValueError
        Before anything runs: where the notebook lacks a parameter, or another sweep is at work in the folder.
    """
    for point in points:
        check_parameters(source.name, source.parameters, point.parameters)
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with _alone_in(out):
        left = [point for point in points if again or not (out / point.key).is_dir()]
        owner = os.getpid() if address is None else None
        tasks = [(_run_point, (source, point, out, _variables(source), owner)) for point in left]
        try:
            for point, _ in zip(left, _all(tasks, jobs, address), strict=True):
                report(outcome_of(point, out))
        finally:
            for draft in out.glob("*.part-*"):
                shutil.rmtree(draft, ignore_errors=True)
    return [outcome_of(point, out) for point in points]


def outcome_of(point: Point, out: Path) -> Outcome:
    """What a folder holds of a point."""
    done, failed = out / point.key, out / f"{point.key}.failed"
    if done.is_dir():
        return Outcome(point, "done", "", tuple(read_claims(done / CLAIMS)), done / NOTEBOOK)
    if failed.is_dir():
        return Outcome(point, "failed", json.loads((failed / ABOUT).read_text())["problem"], (), failed / NOTEBOOK)
    return Outcome(point, "not run")


def outcomes_in(out: Path) -> list[Outcome]:
    """All points that a folder of sweeps holds, finished or failed, by their keys."""
    found = []
    for about in sorted(out.glob(f"*/{ABOUT}")):
        key, _, ending = about.parent.name.partition(".")
        if ending in ("", "failed"):
            found.append(outcome_of(Point(json.loads(about.read_text())["parameters"], key), out))
    return found


def _variables(source: Source) -> dict[str, str]:
    """Variables of a kernel, wherever it runs. The last digits of a sum depend on the number of threads."""
    variables = {name: os.environ.get(name, "1") for name in _THREADS} | {"FGMP_NOTEBOOK": source.name}
    if "FGMP_DATA" in os.environ:  # notebooks run in a folder of their own
        variables["FGMP_DATA"] = os.path.abspath(os.environ["FGMP_DATA"])
    return variables


def _run_point(source: Source, point: Point, out: Path, variables: dict[str, str], owner: int | None) -> None:
    """Run a point in a folder aside, and rename that."""
    if owner is not None and os.getpid() != owner:
        _end_with(owner)
    target, failed = out / point.key, out / f"{point.key}.failed"
    draft = out / f"{point.key}.part-{uuid4().hex[:8]}"
    draft.mkdir()
    about = {"notebook": source.name, "parameters": point.parameters, "problem": ""}
    (draft / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    variables = variables | {"FGMP_CLAIMS": str(draft / CLAIMS)}
    about["problem"] = execute(source.notebook, draft / NOTEBOOK, point.parameters, source.folder, variables)
    if not (draft / ABOUT).is_file():  # swept away by a later sweep, which runs the point itself
        shutil.rmtree(draft, ignore_errors=True)
        return
    (draft / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    shutil.rmtree(failed, ignore_errors=True)
    if not about["problem"]:
        shutil.rmtree(target, ignore_errors=True)
    draft.rename(failed if about["problem"] else target)


@cache
def _end_with(owner: int) -> None:
    """End this worker when the sweep that started it is killed; its kernel sees that, and ends too."""

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _all(tasks: list[tuple[Callable[..., None], tuple[Any, ...]]], jobs: int, address: str | None) -> Iterator[None]:
    """Run the tasks here or on a cluster, each as soon as there is a process for it."""
    from joblib import Parallel, delayed, parallel_config

    calls = [delayed(function)(*arguments) for function, arguments in tasks]
    if address is None:
        yield from Parallel(n_jobs=jobs, batch_size=1, return_as="generator")(calls)
    elif calls:
        from distributed import Client

        with Client(address), parallel_config(backend="dask", wait_for_workers_timeout=60):
            yield from Parallel(n_jobs=-1, batch_size=1, return_as="generator")(calls)


@contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """Hold the lock of a folder, which ends with the process, however that ends; clear away what was cut off."""
    with open(out / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another sweep is at work in {out}; expected a folder for each, see --out") from None
        for draft in out.glob("*.part-*"):
            shutil.rmtree(draft, ignore_errors=True)
        yield
