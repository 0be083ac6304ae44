"""Execute the notebooks, one on each core, and list the claims they make.

    run_notebooks.py                                     into build/notebooks
    run_notebooks.py 03_linear_convergence               one of them
    run_notebooks.py --parameters notebooks/paper.yaml   those named there, into build/paper (the name of the file)
    run_notebooks.py --in-place [NAME ...]               renew the committed pairs and all that is made from them

With --in-place the .py half of a pair is the source; the .ipynb half is written anew from it, with the records of its
claims, CLAIMS.md, the totals in README.md, and the pictures at the top of the notebooks and the README.

A run that was interrupted, or in which a notebook failed, goes on from there with the same command: what ran through
is kept, unless the notebook, its parameters or fgmp have changed. A notebook that fails leaves what came before.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import finished
import headlines
import jupytext
import ledger
import nbformat
import yaml
from joblib.externals.loky import cpu_count  # joblib's own says 1 where it may start no processes
from jupytext.config import load_jupytext_config
from normalise import normalise, printed

from fgmp.book.claims import printed_claims, read_claims, summary
from fgmp.running.processes import watch_parent
from fgmp.sweeping import execution
from fgmp.sweeping.sources import check_parameters, parameters_of

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build"
MOST_AT_A_TIME = 8  # a notebook takes up to 1.5 GB


@dataclass(frozen=True)
class Job:
    """One notebook to execute."""

    name: str
    source: Path
    output: Path
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What its outcome depends on."""
        return finished.key_of(self.source, self.parameters)


def execute(job: Job) -> bool:
    """Execute one notebook; print a line at the start and one at the end; True if it ran through."""
    print(f"start   {job.name}", flush=True)
    start, key = time.monotonic(), job.key
    notebook = jupytext.read(job.source)
    normalise(notebook)
    problem = execution.execute(notebook, job.output, job.parameters, NOTEBOOKS, {"FGMP_NOTEBOOK": job.name})
    seconds = time.monotonic() - start
    if not problem:
        finished.mark(job.output, key)
    print(f"{'FAILED' if problem else 'done':7} {job.name}  {seconds:.1f} s  {problem}".rstrip(), flush=True)
    return not problem


def begin(parent: int, keep_to_one_process: bool) -> None:
    """In a process that executes notebooks: end with the parent; where other notebooks use the other cores, use one."""
    watch_parent(parent)
    if keep_to_one_process:
        os.environ.setdefault("JOBLIB_MULTIPROCESSING", "0")


def run_all(jobs: list[Job], at_a_time: int | None = None) -> list[bool]:
    """Execute what an interrupted run has not finished, and say for each job whether it ran through."""
    at_a_time = at_a_time or min(cpu_count(), MOST_AT_A_TIME)
    done = {job.name: finished.is_done(job.output, job.key) for job in jobs}
    for job in jobs:
        if done[job.name]:
            print(f"kept    {job.name}  finished before the interruption", flush=True)
    left = [job for job in jobs if not done[job.name]]
    if left:
        start = os.getpid(), len(left) > at_a_time
        anew = multiprocessing.get_context("spawn")  # a copy of a process with threads may wait for them forever
        with ProcessPoolExecutor(at_a_time, anew, initializer=begin, initargs=start) as pool:
            try:
                done |= zip([job.name for job in left], pool.map(execute, left), strict=True)
            except KeyboardInterrupt:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    if all(done.values()):
        for folder in {job.output.parent for job in jobs}:
            finished.forget(folder)
    return [done[job.name] for job in jobs]


def plan(
    names: list[str], in_place: bool, parameters: dict[str, dict[str, Any]] | None, folder: Path | None = None
) -> list[Job]:
    """The jobs that the arguments ask for; a message and exit where they do not fit the notebooks."""
    found = {path.stem: path for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}
    if in_place:
        # Where the pair has a .py half it comes second here, and wins.
        found |= {path.stem: path for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))}
    wanted = [Path(name).stem for name in names] or list(found if parameters is None else parameters)
    if unknown := [name for name in wanted if name not in found]:
        sys.exit(f"no such notebook: {', '.join(unknown)}; there are: {', '.join(found) or 'none'}")
    folder = folder or BUILD / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for name in sorted(wanted):
        values = (parameters or {}).get(name) or {}
        if values:
            try:
                check_parameters(name, parameters_of(jupytext.read(found[name])), values)
            except ValueError as error:
                sys.exit(str(error))
        jobs.append(Job(name, found[name], folder / f"{name}.ipynb", values))
    return jobs


def commit_pair(job: Job) -> None:
    """Write both halves of the pair from the executed notebook."""
    notebook = nbformat.read(job.output, as_version=4)
    normalise(notebook)
    pair = NOTEBOOKS / f"{job.name}.ipynb"
    nbformat.write(notebook, pair)
    jupytext.write(notebook, pair.with_suffix(".py"), fmt="py:percent", config=load_jupytext_config(str(pair)))


def commit_claims(job: Job, folder: Path) -> None:
    """Write the records of a notebook's claims beside those of the kept runs, in the order of printing."""
    records = {claim.id: claim for claim in read_claims(folder) if claim.notebook == job.name}
    order = [claim.id for claim in printed_claims(printed(nbformat.read(job.output, as_version=4)))]
    ledger.write(ledger.RESULTS / f"{job.name}.json", job.name, [records[id] for id in order])


def forget_claims(folder: Path, names: set[str] | None) -> None:
    """Remove the records that a run of these notebooks (None: of all) will write anew."""
    if names is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for claim in read_claims(folder):
        if claim.notebook in names:
            (folder / f"{claim.id}.json").unlink()


def main() -> int:
    """Do what the command line says; 1 if a notebook failed to run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks, by name or path; default: all")
    parser.add_argument("--in-place", action="store_true", help="renew the committed notebooks and CLAIMS.md")
    parser.add_argument("--parameters", type=Path, metavar="FILE", help="YAML: notebook -> parameter -> value")
    arguments = parser.parse_args()
    if arguments.in_place and arguments.parameters:
        parser.error("committed notebooks show the default parameters: --in-place and --parameters exclude each other")
    parameters = yaml.safe_load(arguments.parameters.read_text()) or {} if arguments.parameters else None

    folder = BUILD / ("notebooks" if parameters is None else arguments.parameters.stem)
    jobs = plan(arguments.names, arguments.in_place, parameters, folder)
    claims = BUILD / "claims" if parameters is None else folder / "claims"
    os.environ["FGMP_CLAIMS"] = str(claims)
    if "FGMP_DATA" in os.environ:  # notebooks run in a folder of their own
        os.environ["FGMP_DATA"] = os.path.abspath(os.environ["FGMP_DATA"])
    kept = {job.name for job in jobs if finished.is_done(job.output, job.key)}
    forget_claims(claims, {job.name for job in jobs} - kept if arguments.names or kept else None)
    shutil.copytree(headlines.PICTURES, folder / headlines.PICTURES.name, dirs_exist_ok=True)  # what titles link to
    try:
        ran = run_all(jobs)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    if arguments.in_place:
        for job, fine in zip(jobs, ran, strict=True):
            if fine:
                commit_pair(job)
                commit_claims(job, claims)
        ledger.main()
        headlines.main()
    print()
    print(summary(read_claims(claims)))
    failed = [job.name for job, fine in zip(jobs, ran, strict=True) if not fine]
    print(f"{len(jobs) - len(failed)} of {len(jobs)} notebooks ran through")
    for job in jobs:
        if job.name in failed:
            print(f"failed: {job.name}; as far as it came: {os.path.relpath(job.output)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
