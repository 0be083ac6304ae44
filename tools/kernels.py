"""Compare the committed notebooks on others' processors, with the oldest NumPy, without Numba, on shaken data.

    kernels.py                      all of them
    kernels.py Haswell oldest       some
    kernels.py plain                as here, without the loops that Numba compiles
    kernels.py shaken-1             as here, with the last bit of all data shaken (tools/shake.py)
    kernels.py --notebooks 07_gaussian_dictionary_digits ...

OpenBLAS chooses its kernels by the processor; OPENBLAS_CORETYPE makes it choose those of another one, which add in
another order. Some names load the same kernels on a machine; these are compared once. A table says for each which cells
print something else; build/kernels.txt keeps it, with the verdict.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build" / "kernels"
CORES = ("Haswell", "Sandybridge", "SkylakeX", "Zen")
OLDEST, PLAIN, SHAKEN = "oldest", "plain", ("shaken-1", "shaken-2")
EVERY = (*CORES, OLDEST, PLAIN, *SHAKEN)
LOADED = "import numpy, scipy.linalg, threadpoolctl; print(threadpoolctl.threadpool_info()[0]['architecture'])"


def oldest_environment() -> Path:
    """The Python of an environment with the lower bounds of NumPy and SciPy; made where it is missing."""
    folder = ROOT / ".venv" / OLDEST
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        bounds = {Requirement(line).name: Requirement(line).specifier for line in project["dependencies"]}
        lowest = {name: min(s.version for s in bounds[name] if s.operator == ">=") for name in ("numpy", "scipy")}
        pins = [f"{name}=={version}" for name, version in lowest.items()]
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        extras = f"{ROOT}[notebooks,fast,video,femnist,secure,privacy,test,bench]"
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins, "-e", extras]
        subprocess.run(install, check=True)
        (folder / "installed").touch()
    return python


def prepared(name: str) -> tuple[Path, dict[str, str], str]:
    """The Python and the environment for a name, and the kernels that are loaded there."""
    python = Path(sys.executable)
    # As `make test` has it: two notebooks at a time, each in one process.
    environment = dict(os.environ, FGMP_CLAIMS=str(BUILD / name / "claims"), JOBLIB_MULTIPROCESSING="0")
    if name == OLDEST:
        python = oldest_environment()
    elif name == PLAIN:
        environment["FGMP_NUMBA"] = "0"
    elif name in SHAKEN:
        startup = BUILD / name / "ipython" / "profile_default" / "startup"
        startup.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tools" / "shake.py", startup)
        environment |= {"IPYTHONDIR": str(startup.parents[1]), "FGMP_SHAKEN": name[-1]}
    else:
        environment["OPENBLAS_CORETYPE"] = name
    environment["JUPYTER_PATH"] = str(python.parents[1] / "share" / "jupyter")
    loaded = subprocess.run([python, "-c", LOADED], env=environment, capture_output=True, text=True).stdout.strip()
    return python, environment, loaded


def compare(name: str, notebooks: list[Path], python: Path, environment: dict[str, str]) -> tuple[int, list[str]]:
    """How many cells were compared, and those that differ."""
    report = BUILD / f"{name}.xml"
    options = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", str(NOTEBOOKS / "sanitize.cfg")]
    command = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadscope", f"--junitxml={report}", *options]
    with (BUILD / f"{name}.log").open("w") as log:
        subprocess.run([*command, *notebooks], env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
    cases = list(ElementTree.parse(report).iter("testcase"))
    differ = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return len(cases), [_cell(case) for case in differ]


def _cell(case: ElementTree.Element) -> str:
    where = f"{case.get('classname', '')} {case.get('name', '')}"
    notebook, cell = re.search(r"(\d\d)_\w+", where), re.search(r"[Cc]ell (\d+)", where)
    return f"{notebook[1] if notebook else '??'}:{cell[1] if cell else where}"


def main() -> int:
    """Print and keep the table; 1 where a cell differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*EVERY, []], help="all if none")
    parser.add_argument("--notebooks", nargs="*", default=[], help="names of notebooks; all if none")
    given = parser.parse_args()
    notebooks = [NOTEBOOKS / f"{name}.ipynb" for name in given.notebooks] or [
        path
        for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))
        if path.stem != "14_flower"  # it needs an extra
    ]
    BUILD.mkdir(parents=True, exist_ok=True)
    lines = [f"{'asked for':<12} {'loaded':<12} {'cells':>5}  cells that differ (notebook:cell)"]
    print(lines[0], flush=True)
    failed, done = False, {}
    for name in given.names or EVERY:
        python, environment, loaded = prepared(name)
        same = python, loaded, name if name in (PLAIN, *SHAKEN) else None
        if same not in done:
            done[same] = compare(name, notebooks, python, environment)
        count, differ = done[same]
        failed |= bool(differ) or not count
        lines.append(f"{name:<12} {loaded:<12} {count:>5}  {', '.join(differ) or 'none'}")
        print(lines[-1], flush=True)
    lines.append("differences" if failed else "the same everywhere")
    (BUILD.parent / "kernels.txt").write_text("\n".join(lines) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
