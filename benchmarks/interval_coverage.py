"""What the intervals of `bootstrap().interval()` after `sparsity="cv"` cover.

    interval_coverage.py 100       measures 100 data sets of each kind, where it stopped before
    interval_coverage.py --show    prints the table that README.md has

Data sets have eight sites and fifteen columns, of which five matter. The model is true at every
site; only the means of the columns differ. Beside the percentiles of resamples that choose again
stand the model-based intervals of the refit to what "cv" has chosen, where a column that was not
chosen has the interval [0, 0], and those of a fit of all columns, which chooses nothing.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fgmp

RESULTS = Path(__file__).resolve().parent / "interval_coverage.json"
Array = np.ndarray[Any, Any]

_N_SITES = 8
_N_COLUMNS = 15
# From the smallest to the largest of 39 resamples, 95 % of what is drawn like them lies: of forty
# such numbers it is neither the smallest nor the largest. Each resample costs as much as a fit.
_N_RESAMPLES = 39
_EVERY = 2  # resamples of groups are drawn for every second data set
_NOISE = 2.0
_TRUTH = np.zeros(_N_COLUMNS)
_TRUTH[::3] = [0.8, 0.5, 0.35, 0.25, 0.15]


class Kind(NamedTuple):
    """Classes or numbers, how many rows, and the correlation of neighbouring columns."""

    is_binary: bool
    n_rows: int
    rho: float


KINDS = {
    "numbers": Kind(is_binary=False, n_rows=400, rho=0.0),
    "numbers, correlated": Kind(is_binary=False, n_rows=800, rho=0.7),
    "classes": Kind(is_binary=True, n_rows=640, rho=0.0),
    "classes, correlated": Kind(is_binary=True, n_rows=1000, rho=0.7),
}


def simulate(kind: Kind, seed: int) -> tuple[Array, Array, Array]:
    """Return the rows, the targets and the sites of a data set."""
    rng = np.random.default_rng(seed)
    sites = np.arange(kind.n_rows) % _N_SITES
    X = rng.normal(size=(kind.n_rows, _N_COLUMNS))
    for j in range(1, _N_COLUMNS):
        X[:, j] = kind.rho * X[:, j - 1] + np.sqrt(1 - kind.rho**2) * X[:, j]
    X += 0.5 * rng.normal(size=(_N_SITES, _N_COLUMNS))[sites]
    predictor = X @ _TRUTH
    if kind.is_binary:
        return X, (predictor + rng.logistic(size=kind.n_rows) > 0).astype(int), sites
    return X, predictor + _NOISE * rng.normal(size=kind.n_rows), sites


def _model(kind: Kind, sparsity: str) -> Any:
    """Return our estimator, without a ridge, as in an analysis of record."""
    if kind.is_binary:
        return fgmp.FedGradMPClassifier(sparsity, C=np.inf, random_state=0)
    return fgmp.FedGradMPRegressor(sparsity, random_state=0)


def _covers(low: Array, high: Array) -> str:
    """Return for each column 1 if an interval holds the truth, and 0 if not."""
    return _as_text((low <= _TRUTH) & (_TRUTH <= high))


def _as_text(flags: Array) -> str:
    """Return flags as zeros and ones."""
    return "".join(str(int(flag)) for flag in flags)


def _model_based(model: Any) -> tuple[Array, Array]:
    """Return the bounds of the model-based intervals of a fit; zeros of what is not in it."""
    bounds = np.zeros((2, _N_COLUMNS))
    columns = model.summary().columns
    bounds[:, model.support_] = columns["lower"][1:], columns["upper"][1:]
    return bounds[0], bounds[1]


def measure(kind: Kind, seed: int) -> dict[str, str]:
    """Return for one data set which columns are chosen, and whose intervals hold the truth."""
    X, y, sites = simulate(kind, seed)
    model = _model(kind, "cv").fit(X, y, groups=sites)
    dense = _model(kind, "all").fit(X, y, groups=sites)
    found = {
        "chosen": _as_text(model.coef_.reshape(-1) != 0),
        "refit": _covers(*_model_based(model)),
        "all": _covers(*_model_based(dense)),
    }
    ways = ["rows", "groups"] if seed % _EVERY == 0 else ["rows"]
    for over in ways:
        low, high = model.bootstrap(_N_RESAMPLES, over=over, random_state=seed).interval(1.0)
        found[over] = _covers(low.reshape(-1), high.reshape(-1))
    return found


def _flags(records: list[dict[str, str]], name: str) -> Array:
    """Return the flags of an arm, with a row for each data set that has them."""
    return np.array([list(map(int, record[name])) for record in records if name in record])


def _share(flags: Array, counts: Array) -> str:
    """Return the share of flags where counts are one, and its standard error over data sets."""
    counts = np.broadcast_to(counts, flags.shape)
    share = (flags * counts).sum() / counts.sum()
    errors = ((flags - share) * counts).sum(axis=1)
    error = np.sqrt(len(errors) * errors.var(ddof=1)) / counts.sum()
    return f"{100 * share:.0f} ± {100 * error:.1f}"


def show(results: dict[str, list[dict[str, str]]]) -> str:
    """Return the table as Markdown, by kinds and for all of them together."""
    strong = _TRUTH >= 0.35
    weak = (_TRUTH > 0) & ~strong
    parts = {"strong": strong, "weak": weak, "not zero": _TRUTH > 0, "zero": _TRUTH == 0}
    arms = {
        "bootstrap, rows": "rows",
        "bootstrap, groups": "groups",
        "refit": "refit",
        "refit, if chosen": "refit",
        "all columns": "all",
    }
    lines = ["| data sets | coefficients | chosen | " + " | ".join(arms) + " |"]
    lines += ["|---" * (3 + len(arms)) + "|"]
    every = [record for records in results.values() for record in records]
    for name, records in [*results.items(), ("all kinds", every)]:
        chosen = _flags(records, "chosen")
        for words, part in parts.items():
            cells = [_share(chosen, part)]
            for heading, arm in arms.items():
                counts = part * chosen if "if chosen" in heading else part
                cells.append(_share(_flags(records, arm), counts))
            which = f"{len(records)} of {name}" if words == "strong" else ""
            lines.append(f"| {which} | {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure data sets, or show what is measured."""
    warnings.simplefilter("ignore")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if sys.argv[1:] != ["--show"]:
        for seed in range(int(sys.argv[1])):
            for name, kind in KINDS.items():
                records = results.setdefault(name, [])
                if len(records) <= seed:
                    records.append(measure(kind, seed))
            RESULTS.write_text(json.dumps(results, indent=0) + "\n")
    print(show(results))


if __name__ == "__main__":
    main()
