"""Compare the committed notebooks with runs in other environments.

kernels.py                      all of them, every notebook
kernels.py Haswell oldest+plain some; what is joined by + holds at the same time
kernels.py --fast               two of them, the notebooks of FAST, with loops as compiled here

OpenBLAS chooses its kernels by the processor, and Numba compiles for it. With OPENBLAS_CORETYPE and
NUMBA_CPU_NAME they take those of another, which add in another order. "oldest" has the oldest NumPy
and SciPy that are allowed, and "plain" runs without Numba. "shaken-SEED" moves every entry of the
features of a federation up or down by its last bit, or leaves it.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "kernels"
# A core of OpenBLAS, and the processor for which Numba compiles beside it.
PROCESSORS = {
    "Haswell": "haswell",
    "Sandybridge": "generic",
    "SkylakeX": "skylake-avx512",
    "Zen": "haswell",
    "Prescott": "generic",
}
# A notebook that is the same under two changes at once is the same under each.
ENVIRONMENTS = (
    "Sandybridge",
    "Prescott",
    "Haswell+shaken-1",
    "Zen+shaken-2",
    "SkylakeX+shaken-3",
    "oldest+plain",
)
# What `--fast` runs: two cores, one of them with changed bits, and the notebooks that print most
# numbers for the seconds that they take.
FAST_ENVIRONMENTS = ("Sandybridge", "Prescott+shaken-1")
FAST = ("00", "05", "10", "18")
EXTRAS = "notebooks,fast,video,femnist,secure,privacy,test"
# What the kernel of each notebook runs before its first cell.
WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None"
SHAKE = """
import zlib, numpy as np, fgmp
def shaken(A, seed={seed}):
    if not isinstance(A, np.ndarray) or A.dtype.kind != "f":
        return A
    rng = np.random.default_rng((seed, zlib.crc32(np.ascontiguousarray(A))))
    return (A * (1 + rng.integers(-1, 2, A.shape) * np.finfo(A.dtype).eps)).astype(A.dtype)
as_given = fgmp.Federation.from_arrays.__func__
fgmp.Federation.from_arrays = classmethod(lambda cls, As, *given, **named: as_given(
    cls, shaken(As) if isinstance(As, np.ndarray) else [shaken(A) for A in As], *given, **named))
"""


class Outcome(NamedTuple):
    """What nbval found in one environment: how many cells, those that differ, and the verdicts in them."""

    cells: int
    different: list[str]
    verdicts: int


def oldest_python() -> Path:
    """Return the Python of an environment with the oldest NumPy and SciPy; make it if missing."""
    python = ROOT / ".venv" / "oldest" / "bin" / "python"
    if python.exists():
        return python
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = [
        re.sub(r">=([\d.]+).*", r"==\1", requirement)
        for requirement in project["dependencies"]
        if re.match(r"(numpy|scipy)\b", requirement)
    ]
    install = ["-m", "pip", "install", "--quiet", *pins, "-e", f"{ROOT}[{EXTRAS}]"]
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    subprocess.run([python, *install], check=True)
    return python


def variables_of(name: str, python: Path, fast: bool) -> dict[str, str]:
    """Return the environment variables under which the notebooks run.

    To compile all loops for another processor takes as long as the notebooks of FAST.
    """
    variables = {
        # As `make test` has it: two notebooks at a time, each in one process.
        "JOBLIB_MULTIPROCESSING": "0",
        "JUPYTER_PATH": str(python.parents[1] / "share" / "jupyter"),
    }
    runs_first = []
    for part in name.split("+"):
        if part in PROCESSORS:
            variables["OPENBLAS_CORETYPE"] = part
            if not fast:
                variables["NUMBA_CPU_NAME"] = PROCESSORS[part]
        elif part == "plain":
            runs_first.append(WITHOUT_NUMBA)
        elif re.fullmatch(r"shaken-\d+", part):
            runs_first.append(SHAKE.format(seed=part.partition("-")[2]))
        elif part != "oldest":
            known = ", ".join((*PROCESSORS, "plain", "oldest", "shaken-SEED"))
            raise ValueError(f"{part!r} is no environment; expected some of {known}")
    if runs_first:
        variables["IPYTHONDIR"] = str(profile_that_runs("\n".join(runs_first), name))
    return variables


def profile_that_runs(source: str, name: str) -> Path:
    """Write an IPython profile that runs some lines at the start of a kernel; return its folder."""
    folder = BUILD / name
    startup = folder / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "first.py").write_text(source, encoding="utf-8")
    return folder


def compare(name: str, notebooks: list[Path], fast: bool) -> Outcome:
    """Run nbval on some notebooks in an environment."""
    python = oldest_python() if "oldest" in name.split("+") else Path(sys.executable)
    BUILD.mkdir(parents=True, exist_ok=True)
    report = BUILD / f"{name}.xml"
    report.unlink(missing_ok=True)
    pytest = [str(python), "-m", "pytest", "-q", "--tb=short", "-n", "2", "--dist", "loadscope"]
    pytest += ["--no-loadscope-reorder", f"--junitxml={report}"]
    nbval = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", "notebooks/sanitize.cfg"]
    with (BUILD / f"{name}.log").open("w", encoding="utf-8") as log:
        subprocess.run(
            [*pytest, *nbval, *map(str, notebooks)],
            env=os.environ | variables_of(name, python, fast),
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    cells = list(ElementTree.parse(report).iter("testcase"))
    different = [
        cell for cell in cells if cell.find("failure") is not None or cell.find("error") is not None
    ]
    verdicts = sum(int(one.attrib["value"]) for cell in different for one in cell.iter("property"))
    places = [f"{cell.attrib['classname']} {cell.attrib['name']}".strip() for cell in different]
    return Outcome(len(cells), places, verdicts)


def main(arguments: list[str]) -> int:
    """Compare in all environments that are named, print the table, and return 1 if anything differs."""
    fast = arguments[:1] == ["--fast"]
    names = arguments[fast:] or (FAST_ENVIRONMENTS if fast else ENVIRONMENTS)
    begin_first = {number: place for place, number in enumerate(longest_first())}
    notebooks = sorted(
        (path for path in ROOT.glob("notebooks/[0-9]*.ipynb") if "flower" not in path.name),
        key=lambda path: begin_first.get(path.stem[:2], len(begin_first)),
    )
    if fast:
        notebooks = [path for path in notebooks if path.stem[:2] in FAST]
    print("| environment | cells | cells that differ | verdicts that differ |\n|---|---|---|---|")
    is_green = True
    for name in names:
        found = compare(name, notebooks, fast)
        print(f"| {name} | {found.cells} | {len(found.different)} | {found.verdicts} |", flush=True)
        for place in found.different:
            print(f"    {place}  (see {BUILD / name}.log)", flush=True)
        is_green &= found.cells > 0 and not found.different
    return int(not is_green)


def longest_first() -> list[str]:
    """Return the numbers of the notebooks in the order in which the Makefile begins them."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (numbers,) = re.findall(r"^LONGEST := \$\(foreach number,([\d ]+),", makefile, re.MULTILINE)
    return numbers.split()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
