"""Compare the committed notebooks on others' processors, with the oldest NumPy, without Numba, on shaken data.

    kernels.py                      all of them
    kernels.py Haswell oldest       some: an OpenBLAS core, oldest, plain (no Numba), shaken-1 or shaken-2

OpenBLAS chooses its kernels by the processor; OPENBLAS_CORETYPE makes it choose those of another one, which add in
another order. Shaken: every entry of the features of a federation goes up or down by its last bit, or stays.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "kernels"
EVERY = ("Haswell", "Sandybridge", "SkylakeX", "Zen", "oldest", "plain", "shaken-1", "shaken-2")
# What each kernel of a notebook runs first.
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


def oldest_environment() -> str:
    """The Python of an environment with the lower bounds of NumPy and SciPy; made where it is missing."""
    python = ROOT / ".venv" / "oldest" / "bin" / "python"
    if not python.exists():
        lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        pins = [
            re.sub(r">=([\d.]+).*", r"==\1", line)
            for line in lines
            if re.match(r"(numpy|scipy)\b", line)
        ]
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        extras = f"{ROOT}[notebooks,fast,video,femnist,secure,privacy,test]"
        subprocess.run([python, "-m", "pip", "install", "--quiet", *pins, "-e", extras], check=True)
    return str(python)


def compare(name: str) -> bool:
    """Run nbval under one of the names, and print the cells that differ; whether none does."""
    # As `make test` has it: two notebooks at a time, each in one process.
    environment = os.environ | {"JOBLIB_MULTIPROCESSING": "0"}
    python = oldest_environment() if name == "oldest" else sys.executable
    environment["JUPYTER_PATH"] = str(Path(python).parents[1] / "share" / "jupyter")
    if name == "plain" or name.startswith("shaken"):
        startup = BUILD / name / "profile_default" / "startup"
        startup.mkdir(parents=True, exist_ok=True)
        text = WITHOUT_NUMBA if name == "plain" else SHAKE.format(seed=name[-1])
        (startup / "first.py").write_text(text)
        environment["IPYTHONDIR"] = str(BUILD / name)
    elif name != "oldest":
        environment["OPENBLAS_CORETYPE"] = name
    nbval = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", "notebooks/sanitize.cfg"]
    books = [
        str(path)
        for path in sorted(ROOT.glob("notebooks/[0-9]*.ipynb"))
        if "flower" not in path.name
    ]
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "--tb=no",
        "-n",
        "2",
        "--dist",
        "loadscope",
        *nbval,
        *books,
    ]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    print(
        f"{name}:",
        *done.stdout.splitlines()[-1:],
        *re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.M),
        sep="\n  ",
    )
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(not all([compare(name) for name in sys.argv[1:] or EVERY]))
