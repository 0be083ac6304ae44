"""Notebooks executed by papermill, each in a process of its own, and sweeps of one over a grid."""

import csv
import hashlib
import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import jupytext
import nbformat
import numpy as np
import papermill
import yaml
from joblib import Parallel, delayed
from jupyter_client import AsyncKernelManager
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from traitlets import Dict
from traitlets.config import Config

import fgmp

from . import variants, voting, writers
from .pairs import NOTEBOOKS, claims, find, normalise, read

Task = tuple[Path, Path, dict]  # the .py half, the notebook that is written, the parameters
# Modules of the book that compute what a notebook shows.
EXPERIMENTS = (variants, voting, writers)
# Notebooks that begin before the others, by number: the longest, so that all processes end together. The Makefile has
# the same list.
FIRST = tuple("03 01 14 02 12 13 11 17 09 04 15 07 19 10 06 18 16 08 00".split())
# How often a kernel is started that dies before its first reply.
TRIES = 3
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def check_names(source: Path, names) -> None:
    """Stop where a notebook has no parameter of a name."""
    known = papermill.inspect_notebook(source.with_suffix(".ipynb"))
    if unknown := [name for name in names if name not in known]:
        raise ValueError(
            f"{source.stem} has no parameter {', '.join(unknown)}; it has: {', '.join(known)}"
        )


def code_of(source: Path) -> list[str]:
    """The cells of code of a notebook."""
    cells = jupytext.read(source).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def code_of_run(source: Path) -> list[str]:
    """The cells of code of a notebook, and the modules of the experiments that it takes from the book."""
    cells = code_of(source)
    words = set(re.findall(r"\w+", "\n".join(cells)))
    modules = [module for module in EXPERIMENTS if words.intersection(module.__all__)]
    return cells + [Path(module.__file__).read_text(encoding="utf-8") for module in modules]


def digest(value) -> str:
    """Twelve digits that stand for a value of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def made_of(source: Path, parameters: dict) -> dict[str, str]:
    """What the outputs of a run depend on, by name, as digests. Text around the code is not among it."""
    shared = [NOTEBOOKS / "book" / f"{name}.py" for name in ("checks", "claims", "figures")]
    package = sorted(Path(fgmp.__file__).parent.rglob("*.py"))
    return {
        "its code": digest(code_of_run(source)),
        "its parameters": digest(parameters),
        "fgmp": digest([path.read_text(encoding="utf-8") for path in package]),
        "what the notebooks share": digest([path.read_text(encoding="utf-8") for path in shared]),
    }


def reason_to_run(source: Path, output: Path, parameters: dict) -> str:
    """Why a notebook is to be run, in a few words; empty where `output` ran through and all is as it was."""
    if not output.exists():
        return "it has no run"
    try:
        about = read(output).metadata
    except ValueError:  # killed while it was written
        return "its last run broke off"
    run = about.get("papermill", {})
    if run.get("exception"):
        return "its last run failed"
    if not run.get("end_time"):
        return "its last run broke off"
    before = about.get("made_of", {})
    changed = [name for name, now in made_of(source, parameters).items() if before.get(name) != now]
    return f"changed since its last run: {', '.join(changed)}" if changed else ""


class Kernel(AsyncKernelManager):
    """The process that executes a notebook, in its folder, with variables set before anything is imported."""

    variables = Dict(help="Variables of the environment, beside those that are set.").tag(
        config=True
    )

    async def _async_start_kernel(self, **options):
        environment = os.environ | self.variables
        # It greets each start with a warning about its port on this machine; errors of cells take another way.
        await super()._async_start_kernel(env=environment, stderr=subprocess.DEVNULL, **options)

    start_kernel = _async_start_kernel


def variables_of_kernel(alone: bool) -> dict[str, str]:
    """Variables of the environment of a notebook: one thread unless told, and one process beside other notebooks."""
    variables = {name: os.environ.get(name, "1") for name in THREADS}
    variables["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as in Jupyter
    if "FGMP_DATA" in os.environ:
        variables["FGMP_DATA"] = os.path.abspath(os.environ["FGMP_DATA"])
    if not alone:  # other notebooks use the other cores
        variables["JOBLIB_MULTIPROCESSING"] = "0"
    return variables


def unexecuted(source: Path, parameters: dict) -> NotebookNode:
    """A notebook as it is executed, with digests of what its outputs will depend on, which papermill keeps."""
    notebook = normalise(jupytext.read(source))
    notebook.metadata["made_of"] = made_of(source, parameters)
    return notebook


def execute(
    notebook: NotebookNode, folder: Path, output: Path, parameters: dict, alone: bool
) -> str:
    """Execute a notebook in a folder; say what stopped it, in one line, or nothing where it ran through.

    The output stands for a run that has begun, and is written again at the end alone: to write it after every cell
    took a tenth of the time of notebooks with many cells.
    """
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, output)
        papermill.execute_notebook(
            notebook,
            output,
            parameters,
            kernel_name="python3",
            progress_bar=False,
            request_save_on_cell_execute=False,
            kernel_manager_class=Kernel,
            # A kernel that ends in order takes 0.7 s for it, sometimes 3 s. Only that of a notebook which runs alone
            # has to: it ends the processes that joblib started.
            shutdown_kernel="graceful" if alone else "immediate",
            config=Config(Kernel={"variables": variables_of_kernel(alone)}),
            resources={"metadata": {"path": str(folder)}},
        )
    except PapermillExecutionError as error:
        return in_one_line(error.ename, error.evalue)
    except Exception as error:  # a kernel that died, a full disk: the other notebooks go on
        return in_one_line(type(error).__name__, error)
    return ""


def in_one_line(kind: str, what: object) -> str:
    """The name of an error and what it says."""
    return " ".join(f"{kind}: {what}".split())


def longest_first(tasks: list[Task]) -> list[Task]:
    """The tasks in the order in which they begin."""
    places = {number: place for place, number in enumerate(FIRST)}
    return sorted(tasks, key=lambda task: places.get(task[0].stem[:2], len(FIRST)))


def run_all(tasks: list[Task], jobs: int = 1) -> Iterator[str]:
    """Execute (source, output, parameters) each; yields what stopped it, in one line, empty where it ran through."""
    for _, output, _ in tasks:
        output.unlink(missing_ok=True)
    alone = len(tasks) <= jobs
    runs = (delayed(run)(*task, alone) for task in tasks)
    # Threads, each of which waits for the kernel of its notebook.
    yield from Parallel(jobs, batch_size=1, return_as="generator", backend="threading")(runs)


def run(source: Path, output: Path, parameters: dict, alone: bool = True) -> str:
    """Execute a notebook from its .py half; say what stopped it, in one line, or nothing where it ran through.

    Kernels that two processes start at one moment may be given one port: the later dies at once, and is tried again.
    """
    notebook = unexecuted(source, parameters)
    for _ in range(TRIES):
        stopped = execute(notebook, source.parent, output, parameters, alone)
        if "Kernel died before replying" not in stopped:
            break
    return stopped


def sweep(source: Path, points: list[dict], out: Path, jobs=1, report=print) -> int:
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
    for (point, file), stopped in zip(left, run_all(tasks, jobs), strict=True):
        problems[file] = stopped
        report(f"{'FAILED' if stopped else 'done':7} {json.dumps(point)}  {stopped}".rstrip())
        if not stopped:
            file.with_suffix(".failed.ipynb").replace(file)
    write_table(points, files, problems, out / "sweep.csv")
    return sum(file.exists() for file in files)


def key(source: Path, point: dict) -> str:
    """Twelve digits that stand for the code of a notebook and its parameters."""
    return digest([code_of_run(source), point])


def write_table(points, files, problems, path: Path) -> None:
    """CSV with a row for each claim of each point, or for each part of one that measures several things."""
    rows = []
    for point, file in zip(points, files, strict=True):
        about = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in point.items()
        }
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
        row = {
            "claim": claim["id"],
            "part": part,
            "verdict": claim["verdict"],
            "unit": claim["unit"],
        }
        if not isinstance(values, str):
            values = values if isinstance(values, list) else [values]
            ends = np.quantile(np.array(values, float), [0, 0.5, 1]).tolist()
            row |= dict(zip(("min", "median", "max"), ends, strict=True))
            values = " ".join(map(str, values))
        yield row | {"values": values}


def grid(options: Iterable[str]) -> list[dict]:
    """All combinations of options such as ``alpha=0.5,1``, the last name fastest."""
    named = {}
    for name, text in split_options(options, "-g"):
        values = loaded(f"[{text}]", f"-g {name}")
        if not values:
            raise ValueError(
                f"-g {name} has no values; expected NAME=VALUE,VALUE, such as alpha=0.5,1"
            )
        if twice := [one for place, one in enumerate(values) if one in values[:place]]:
            raise ValueError(f"-g {name} has {twice[0]!r} twice; expected different values")
        named[name] = values
    return [dict(zip(named, point, strict=True)) for point in itertools.product(*named.values())]


def values_of(options: Iterable[str], flag: str) -> dict:
    """The values of options such as ``alpha=0.5``, by name."""
    return {name: loaded(text, f"{flag} {name}") for name, text in split_options(options, flag)}


def split_options(options: Iterable[str], flag: str) -> list[tuple[str, str]]:
    """Names and texts of options such as ``alpha=0.5``, each name once."""
    found = {}
    for one in options:
        name, equals, text = one.partition("=")
        if not name or not equals or not text.strip():
            raise ValueError(
                f"{flag} {one} has no name or no value; expected NAME=VALUE, such as alpha=0.5"
            )
        if name in found:
            raise ValueError(f"{flag} {name} is given twice; expected each parameter once")
        found[name] = text
    return list(found.items())


def read_parameters(path: Path) -> dict[str, dict]:
    """The parameters in a file of YAML, by the full name of the notebook, which may stand there as its number."""
    found = {}
    for name, values in read_entries(path).items():
        stem = find(name).stem
        if stem in found:
            raise ValueError(f"{path} has {stem} twice; expected each notebook once")
        found[stem] = values
    return found


def read_entries(path: Path) -> dict[str, dict]:
    """The entries of a file of YAML, each with names and values of parameters."""
    file = loaded(path.read_text(encoding="utf-8"), str(path))
    if not isinstance(file, dict) or not file:
        raise ValueError(
            f"{path} holds no parameters; expected notebooks, each with names and values of its own"
        )
    found = {}
    for name, values in file.items():
        if not isinstance(values, dict):
            raise ValueError(
                f"{path} has no names and values of parameters under {name}; expected NAME: VALUE"
            )
        found[f"{name:02d}" if isinstance(name, int) else str(name)] = values
    return found


def loaded(text: str, where: str):
    """The value of a text of YAML, where numbers are read as everybody but YAML reads them."""
    try:
        return number(yaml.load(text, Loader=UniqueKeys), where)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(f"{where} is no YAML: {getattr(error, 'problem', error)}{at}") from None


class UniqueKeys(yaml.SafeLoader):
    """YAML in which a name may stand once; PyYAML would take the last."""

    def construct_mapping(self, node, deep=False):
        """The dict of a node."""
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := [name for place, name in enumerate(names) if name in names[:place]]:
            raise yaml.YAMLError(f"{twice[0]} stands there twice")
        return super().construct_mapping(node, deep)


def number(value, where: str = "the value"):
    """The value, where a text such as 1e-6 is a number; what no parameter can be is a ValueError."""
    if isinstance(value, list):
        return [number(one, where) for one in value]
    if isinstance(value, dict):
        return {name: number(one, f"{where}, {name}") for name, one in value.items()}
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise ValueError(
            f"{where} is a {type(value).__name__}, {value}; expected a number, a text or a list of them"
        )
    if not isinstance(value, str):
        return value
    try:
        read = float(value)
    except ValueError:
        return value
    return int(read) if "e" in value.lower() and read.is_integer() else read
