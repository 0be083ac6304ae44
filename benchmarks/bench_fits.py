"""Fits of `FedGradMPClassifier` beside scikit-learn and abess: seconds, and memory beside the data.

Seconds are those of a processor, summed over threads, so that other work of the machine is left out.

bench_fits.py NAME      one fit in a process of its own, as one line of JSON
"""

import json
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import AT_MOST, Finding, Row, Scale
from machine import peak_memory

import fgmp

N_SITES = 20
SPARSITY = 10
# How each sparsity is asked for, the words of its rows, and the peers that do the same.
FITS = {
    "default": (None, f"{SPARSITY} features (default)", [f"abess, {SPARSITY} features"]),
    "cv": ("cv", 'features chosen ("cv")', ["abess, features chosen"]),
    "all": ("all", 'all features ("all")', ["newton-cholesky", "saga"]),
}
_SPARSITIES = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20]


class Fit(NamedTuple):
    """What one process reports: of the fit, and of its model on rows that it has not seen."""

    seconds: float
    copies: float
    log_loss: float


def fits(scale: Scale) -> Finding:
    """Fits on 50,000 rows of 300 features at 20 sites, in turns, each in a process of its own."""
    n_rows, n_features = scale.pick((2000, 30), (50_000, 300), (50_000, 300))
    names = [*FITS, *(peer for _, _, peers in FITS.values() for peer in peers)]
    found: dict[str, list[Fit]] = defaultdict(list)
    for repetition in range(scale.pick(1, 3, 7)):
        for name in names if repetition % 2 == 0 else reversed(names):
            fit = _in_a_process(name, n_rows, n_features)
            if fit is not None:
                found[name].append(fit)

    rows = []
    for name, (_, words, peers) in FITS.items():
        what = f"FedGradMPClassifier, {words}, {n_rows:,} x {n_features} at {N_SITES} sites"
        ours = found[name]
        note = f"held-out log loss {ours[0].log_loss:.3f}; "
        note += "; ".join(_of_peer(peer, found[peer]) for peer in peers)
        rows.append(Row(f"{what}: fit", [fit.seconds for fit in ours], None, "s", note))
        rows.append(
            Row(
                f"{what}: peak memory over that of X",
                [fit.copies for fit in ours],
                (AT_MOST, 2),
                note=f"X has {8 * n_rows * n_features / 1e6:.0f} MB",
            )
        )
    return Finding(rows)


def _of_peer(name: str, found: list[Fit]) -> str:
    """Return what a peer took, in words."""
    if not found:
        return f"{name}: not here"
    seconds, copies, log_loss = np.median(found, axis=0)
    return f"{name}: {seconds:.3g} s, {copies:.2g} x, {log_loss:.3f}"


def _in_a_process(name: str, n_rows: int, n_features: int) -> Fit | None:
    """Return the report of a process; None if the peer is not installed."""
    call = [sys.executable, str(Path(__file__).resolve()), name, str(n_rows), str(n_features)]
    done = subprocess.run(call, capture_output=True, text=True)
    if "No module named" in done.stderr:
        return None
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip().rpartition(chr(10))[2]}")
    return Fit(*json.loads(done.stdout))


def _data(n_rows: int, n_features: int) -> tuple[Any, Any, Any]:
    """Return features, labels that ten of them decide in part, and sites; nothing beside them."""
    rng = np.random.default_rng(0)
    X = np.empty((n_rows, n_features))
    rng.standard_normal(out=X)
    truth = rng.standard_normal(SPARSITY)
    y = (X[:, :SPARSITY] @ truth + rng.standard_normal(n_rows) > 0).astype(int)
    return X, y, np.arange(n_rows) % N_SITES


def _contestant(name: str) -> tuple[Any, bool]:
    """Return an estimator, and whether it takes groups."""
    if name in FITS:
        return fgmp.FedGradMPClassifier(FITS[name][0], n_folds=5, random_state=0), True  # as abess
    if name.startswith("abess"):
        from abess import LogisticRegression as BestSubset

        if "chosen" in name:
            return BestSubset(support_size=_SPARSITIES, cv=5, thread=1), False
        return BestSubset(support_size=SPARSITY, thread=1), False
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=np.inf, solver=name), False


def _fit(name: str, X: Any, y: Any, groups: Any) -> Callable[[Any], Any]:
    """Fit, and return the probabilities of the model."""
    model, takes_groups = _contestant(name)
    if takes_groups:
        model.fit(X, y, groups=groups)
    else:
        model.fit(X, y)
    return lambda X: np.asarray(model.predict_proba(X))


def main(name: str, n_rows: int, n_features: int) -> None:
    """Print the report of one fit: seconds, peak memory over that of X, and held-out log loss."""
    warnings.simplefilter("ignore")
    # What is imported or compiled once does not count. Here sites have rows for the same method. By
    # itself so short a fit would compile nothing.
    with fgmp.backend("compiled"):
        _fit(name, *_data(2000, 25))
    X, y, groups = _data(n_rows + 5000, n_features)
    test = X[n_rows:].copy(), y[n_rows:]
    X, y, groups = X[:n_rows], y[:n_rows], groups[:n_rows]

    before = peak_memory()
    began = time.process_time()
    probabilities = _fit(name, X, y, groups)
    seconds = time.process_time() - began
    copies = (peak_memory() - before) / X.nbytes

    of_truth = probabilities(test[0])[np.arange(len(test[1])), test[1]]
    print(json.dumps([seconds, copies, -float(np.log(of_truth).mean())]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
