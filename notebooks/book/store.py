"""Long runs, each kept on disk once it is computed: a notebook that stopped goes on from there."""

import hashlib
import inspect
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["stored"]

NOTEBOOKS = Path(__file__).resolve().parents[1]
RUNS = NOTEBOOKS.parent / "build" / "runs"


def stored(function: Callable[[Any], dict], job: Any, folder: Path = RUNS) -> dict:
    """Return function(job), which is computed once and then read from a file.

    Parameters
    ----------
    function : callable
        Takes the job, and returns what JSON can hold.
    job : dataclass
        All that the result depends on. With the name of the function, the text of its module and
        the version of fgmp it is the key of the result. Who changes a method of fgmp so that it
        returns other numbers deletes build/runs (`make clean`), or raises the version.
    folder : Path
        Where the results are, a file for each.
    """
    about = {
        "function": function.__qualname__,
        "module": hashlib.sha256(
            inspect.getsource(inspect.getmodule(function)).encode()
        ).hexdigest(),
        "job": asdict(job),
        "fgmp": version("fgmp"),
    }
    digits = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
    path = folder / f"{digits}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))["result"]
    result = function(job)
    folder.mkdir(parents=True, exist_ok=True)
    # Two processes may compute the same: each writes a file of its own, and the last one stays.
    own = path.with_suffix(f".{os.getpid()}")
    own.write_text(json.dumps(about | {"result": result}), encoding="utf-8")
    own.replace(path)
    return result
