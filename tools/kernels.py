"""Compare the committed notebooks with runs in other environments.

kernels.py                      all of them
kernels.py Haswell oldest       some: an OpenBLAS core, oldest, plain, shaken-1 or shaken-2

OpenBLAS chooses its kernels by the processor. With OPENBLAS_CORETYPE it chooses those of another
processor, which add in another order. "oldest" has the oldest NumPy and SciPy that are allowed, and
"plain" runs without Numba. "shaken" moves every entry of the features of a federation up or down by
its last bit, or leaves it.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "kernels"
ENVIRONMENTS = (
    "Haswell",
    "Sandybridge",
    "SkylakeX",
    "Zen",
    "oldest",
    "plain",
    "shaken-1",
    "shaken-2",
)
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


def variables_of(name: str, python: Path) -> dict[str, str]:
    """Return the environment variables under which the notebooks run."""
    variables = {
        # As `make test` has it: two notebooks at a time, each in one process.
        "JOBLIB_MULTIPROCESSING": "0",
        "JUPYTER_PATH": str(python.parents[1] / "share" / "jupyter"),
    }
    if name == "plain":
        variables["IPYTHONDIR"] = str(profile_that_runs(WITHOUT_NUMBA, name))
    elif name.startswith("shaken"):
        variables["IPYTHONDIR"] = str(profile_that_runs(SHAKE.format(seed=name[-1]), name))
    elif name != "oldest":
        variables["OPENBLAS_CORETYPE"] = name
    return variables


def profile_that_runs(source: str, name: str) -> Path:
    """Write an IPython profile that runs some lines at the start of a kernel; return its folder."""
    folder = BUILD / name
    startup = folder / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "first.py").write_text(source, encoding="utf-8")
    return folder


def agrees(name: str) -> bool:
    """Run nbval in an environment, print the cells that differ, and return whether none does."""
    python = oldest_python() if name == "oldest" else Path(sys.executable)
    notebooks = sorted(ROOT.glob("notebooks/[0-9]*.ipynb"))
    pytest = [str(python), "-m", "pytest", "-q", "--tb=no", "-n", "2", "--dist", "loadscope"]
    nbval = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", "notebooks/sanitize.cfg"]
    done = subprocess.run(
        pytest + nbval + [str(path) for path in notebooks if "flower" not in path.name],
        env=os.environ | variables_of(name, python),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    summary = done.stdout.splitlines()[-1:]
    failures = re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.MULTILINE)
    print(f"{name}:", *summary, *failures, sep="\n  ")
    return done.returncode == 0


def main(names: list[str]) -> int:
    """Compare under all names, and return 1 if notebooks differ under one of them."""
    results = [agrees(name) for name in names or ENVIRONMENTS]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
