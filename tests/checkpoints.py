"""What tests of checkpoints compare: results bit for bit, and the round in a file."""

import pickle
from pathlib import Path

import joblib

import fgmp


def checksum(result: fgmp.Result) -> str:
    """Return one checksum of all that a resumed run must have in common with the whole run."""
    history = {name: column for name, column in result.history.items() if name != "seconds"}
    best = result.best
    last_model = (result.x, result.support, result.coefficients)
    best_model = (best.x, best.round, best.value, best.coefficients)
    return joblib.hash((*last_model, history, *best_model, result.state))


def rounds_in(path: Path) -> int:
    """Return the number of finished rounds in a checkpoint."""
    return pickle.loads(Path(path).read_bytes().partition(b"\n")[2])[-1][0].round
