"""Which notebooks of an interrupted run are done, so that the same command goes on from there.

A notebook that ran through leaves a mark beside its output, which names the source, the parameters and the code of fgmp
that it ran with. Once all notebooks of a run are through, the marks go: the next run is a new one.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import fgmp

HOUSE = Path(fgmp.__file__).parent


def key_of(source: Path, parameters: dict[str, Any]) -> str:
    """What a run of a notebook depends on, as one checksum."""
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True, default=repr).encode())
    for path in (source, *sorted(HOUSE.rglob("*.py"))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def mark(output: Path, key: str) -> None:
    """Say that a notebook is done, in one step."""
    place = _place(output)
    place.parent.mkdir(exist_ok=True)
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    draft.write_text(key)
    os.replace(draft, place)


def is_done(output: Path, key: str) -> bool:
    """Whether an interrupted run has finished a notebook, just as it would be run now."""
    place = _place(output)
    return output.exists() and place.exists() and place.read_text() == key


def forget(folder: Path) -> None:
    """Remove the marks of a folder of outputs."""
    shutil.rmtree(folder / ".finished", ignore_errors=True)


def _place(output: Path) -> Path:
    return output.parent / ".finished" / output.stem
