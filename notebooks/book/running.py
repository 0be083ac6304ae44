"""Notebooks executed by papermill, each in a process of its own, and sweeps of one over a grid."""

import csv
import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import jupytext
import nbformat
import numpy as np
import papermill
import yaml
from joblib import Parallel, delayed, parallel_config

from .pairs import claims, normalise, read

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def check_names(source: Path, names) -> None:
    """Stop where a notebook has no parameter of a name."""
    known = papermill.inspect_notebook(source.with_suffix(".ipynb"))
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{source.stem} has no parameter {', '.join(unknown)}; it has: {', '.join(known)}")


def command(source: Path, output: Path, parameters: dict, alone: bool) -> list[str]:
    """Write what is to be executed, and say how: it runs in the folder of the source, on one thread unless told."""
    output.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(normalise(jupytext.read(source)), output)
    variables = {name: os.environ.get(name, "1") for name in THREADS}
    variables["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as in Jupyter
    if "FGMP_DATA" in os.environ:
        variables["FGMP_DATA"] = os.path.abspath(os.environ["FGMP_DATA"])
    if not alone:  # other notebooks use the other cores
        variables["JOBLIB_MULTIPROCESSING"] = "0"
    call = ["env", *(f"{name}={value}" for name, value in variables.items()), sys.executable, "-m", "papermill"]
    options = ["--cwd", str(source.parent), "--kernel", "python3", "--no-progress-bar"]
    options += ["--parameters_yaml", yaml.safe_dump(parameters)] if parameters else []
    return [*call, str(output), str(output), *options]


def run_all(tasks, jobs: int = 1, address: str | None = None) -> Iterator[str]:
    """Execute (source, output, parameters) each; yields what stopped it, in one line, empty where it ran through.

    `address` is that of a Dask scheduler, whose workers share the tasks in place of `jobs` processes of this machine;
    they need to see the same files.
    """
    tasks = [(*task, command(*task, alone=len(tasks) <= jobs and address is None)) for task in tasks]
    calls = [delayed(subprocess.run)(call, capture_output=True, text=True) for *_, call in tasks]
    if address:
        from distributed import Client
    dask, threads = {"backend": "dask", "wait_for_workers_timeout": 60}, {"backend": "threading", "n_jobs": jobs}
    with Client(address) if address else nullcontext(), parallel_config(**(dask if address else threads)):
        done = Parallel(batch_size=1, return_as="generator")(calls)
        for (_, output, _, call), result in zip(tasks, done, strict=True):
            for _ in range(2):  # kernels that start at one moment may be given one port: the later dies at once
                if "Kernel died before replying" in result.stderr:
                    result = subprocess.run(call, capture_output=True, text=True)
            yield problem(read(output)) or result.stderr.strip().rpartition("\n")[2] if result.returncode else ""


def problem(notebook) -> str:
    """The error that stopped a notebook, in one line."""
    errors = [o for cell in notebook.cells for o in cell.get("outputs", []) if o.output_type == "error"]
    return "".join(" ".join(f"{one.ename}: {one.evalue}".split()) for one in errors[:1])


def sweep(source: Path, points: list[dict], out: Path, jobs=1, address=None, report=print) -> int:
    """Run a notebook at every point that has no result yet, and write all their claims to sweep.csv.

    The result of a point is KEY.ipynb, where KEY stands for the code and the parameters; a point that stops leaves
    KEY.failed.ipynb. Returns how many points have a result.
    """
    for point in points:
        check_names(source, point)
    files = [out / f"{key(source, point)}.ipynb" for point in points]
    left = [(point, file) for point, file in zip(points, files, strict=True) if not file.exists()]
    tasks = [(source, file.with_suffix(".failed.ipynb"), point) for point, file in left]
    problems = {}
    for (point, file), stopped in zip(left, run_all(tasks, jobs, address), strict=True):
        problems[file] = stopped
        report(f"{'FAILED' if stopped else 'done':7} {json.dumps(point)}  {stopped}".rstrip())
        if not stopped:
            file.with_suffix(".failed.ipynb").replace(file)
    write_table(points, files, problems, out / "sweep.csv")
    return sum(file.exists() for file in files)


def key(source: Path, point: dict) -> str:
    """Twelve digits that stand for the code of a notebook and its parameters."""
    code = [cell.source for cell in jupytext.read(source).cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps([code, point], sort_keys=True).encode()).hexdigest()[:12]


def write_table(points, files, problems, path: Path) -> None:
    """CSV with a row for each claim of each point, or for each part of one that measures several things."""
    rows = []
    for point, file in zip(points, files, strict=True):
        about = {name: value if isinstance(value, str) else json.dumps(value) for name, value in point.items()}
        about |= {"result": file.name if file.exists() else "", "problem": problems.get(file, "")}
        found = claims(read(file)) if file.exists() else []
        rows += [about | row for one in found for row in numbers(one)] or [about]
    with open(path, "w", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)


def numbers(claim: dict) -> Iterator[dict]:
    """The rows of one claim: verdict, median and range over the seeds, and all values."""
    parts = claim["measured"] if isinstance(claim["measured"], dict) else {"": claim["measured"]}
    for part, values in parts.items():
        row = {"claim": claim["id"], "part": part, "verdict": claim["verdict"], "unit": claim["unit"]}
        if not isinstance(values, str):
            values = values if isinstance(values, list) else [values]
            ends = np.quantile(np.array(values, float), [0, 0.5, 1]).tolist()
            row |= dict(zip(("min", "median", "max"), ends, strict=True))
            values = " ".join(map(str, values))
        yield row | {"values": values}


def grid(options: list[str]) -> list[dict]:
    """All combinations of options such as ``alpha=0.5,1``, the last name fastest."""
    named = [(name, number(yaml.safe_load(f"[{text}]"))) for name, _, text in (one.partition("=") for one in options)]
    return [dict(point) for point in itertools.product(*([(name, one) for one in values] for name, values in named))]


def number(value):
    """The value, or all in a list, where a text such as 1e-6 is the number that everybody but YAML takes it for."""
    if isinstance(value, list):
        return [number(one) for one in value]
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
