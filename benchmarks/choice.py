"""How surely `sparsity="cv"` chooses, and what its choice costs at groups that were left out.

    choice.py after                measures all, and writes a file for each in choice/
    choice.py before Exam few      some, under another name; the rest stays as it is
    choice.py peers Exam           peers on pooled rows
    choice.py gap los hospitals    what might close the gap to all features
    choice.py --show               prints the tables that README.md has

Fifteen tables: those of `eight_tables`, six more of R packages, and the four hospitals. Nine kinds
are simulated, and each is drawn three times. Agreement is the mean Jaccard index of the features
that seeds choose on all rows (of the first draw). The score is the share of the deviance, or of
the squares, that a model explains at new groups beyond the mean of the rows that train.
"""

import json
import sys
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from eight_tables import TABLES, SiteTable, _expanded, _frame, hospitals, splits, with_means
from scipy.special import xlogy
from sklearn import linear_model, model_selection
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fgmp
from fgmp.estimators.selection_path import SparsityPath

RESULTS = Path(__file__).resolve().parent / "choice"
Array = np.ndarray[Any, Any]

_N_DRAWS = 3
_N_SEEDS = 10


# Tables of R packages beside the eight.


def _medpar(target: str) -> SiteTable:
    """Stays in 54 hospitals of Arizona: deaths, or lengths of stay."""
    frame = _frame("COUNT", "medpar")
    columns = ["hmo", "white", "age80", "type2", "type3"]
    X, y = frame[columns].to_numpy(float), frame[target].to_numpy(float)
    return SiteTable(X, y, frame["provnum"].to_numpy(str), target == "died", columns)


def lung() -> SiteTable:
    """Deaths within a year of patients with lung cancer at 18 institutions."""
    frame = _frame("survival", "cancer")
    is_known = (frame["time"] >= 365) | (frame["status"] == 2)
    frame = frame[is_known & frame["inst"].notna()]
    columns = "age sex ph.ecog ph.karno pat.karno meal.cal wt.loss".split()
    X = frame[columns].to_numpy(float)
    is_missing = np.isnan(X)
    is_often = is_missing.sum(axis=0) >= 5
    X = np.column_stack([X, is_missing[:, is_often]])
    y = (frame["time"] < 365).to_numpy(int)
    return SiteTable(X, y, frame["inst"].to_numpy(int).astype(str), True, columns)


def crime() -> SiteTable:
    """The logarithm of crimes in 90 counties of North Carolina, in seven years each."""
    frame = _frame("plm", "Crime")
    logs = [name for name in frame.columns if name.startswith("l")]
    columns = pd.get_dummies(frame.drop(columns=["rownames", "county", "crmrte", *logs]))
    y = frame["lcrmrte"].to_numpy(float)
    return SiteTable(columns.to_numpy(float), y, frame["county"].to_numpy(str), False, [])


def pancreatitis() -> SiteTable:
    """Pancreatitis after an endoscopy, in a trial of indomethacin at four hospitals."""
    frame = _frame("medicaldata", "indo_rct")
    is_ill = frame["outcome"].astype(str).str.endswith("yes").to_numpy(int)
    columns = frame.drop(columns=["rownames", "id", "site", "outcome", "bleed"])
    X = pd.get_dummies(columns, drop_first=True)
    return SiteTable(X.to_numpy(float), is_ill, frame["site"].to_numpy(str), True, list(X))


def districts() -> SiteTable:
    """Mathematics in 420 school districts of 45 counties of California."""
    frame = _frame("AER", "CASchools")
    columns = "grades students teachers calworks lunch computer expenditure income english"
    X, names = _expanded(frame[columns.split()])
    return SiteTable(X, frame["math"].to_numpy(float), frame["county"].to_numpy(str), False, names)


OTHERS: dict[str, Callable[[], SiteTable]] = {
    "hospitals": hospitals,
    "died": lambda: _medpar("died"),
    "los": lambda: _medpar("los"),
    "lung": lung,
    "Crime": crime,
    # These two were not used before the rule was fixed, and were measured once.
    "pancreatitis": pancreatitis,
    "districts": districts,
}


# Simulated kinds.


class Kind(NamedTuple):
    """A simulated table of `n_groups` groups with `m` rows of `p` standard normal columns.

    The first `k` columns matter, by coefficients of random sign: `size` times the powers of `decay`.
    The coefficients, the means of the columns, and the level differ between groups by the standard
    deviations `slopes`, `means` and `levels`. Neighbours have the correlation `rho`. Numbers have
    noise of the deviation `noise`, and counts weights of a gamma distribution of variance one.
    """

    what: str
    n_groups: int
    m: int
    p: int
    k: int
    size: float
    decay: float = 1.0
    noise: float = 2.0
    slopes: float = 0.0
    means: float = 0.0
    levels: float = 0.0
    rho: float = 0.0


KINDS = {
    "strong": Kind("number", 20, 30, 50, 8, 0.6, levels=0.5),
    "weak": Kind("number", 20, 40, 50, 50, 0.8, decay=0.75),
    "dense": Kind("number", 20, 40, 30, 30, 0.12, noise=1.5),
    "correlated": Kind("number", 12, 40, 40, 6, 0.7, noise=3.0, rho=0.8),
    "slopes": Kind("number", 15, 40, 30, 8, 0.6, slopes=0.25, means=0.5, levels=0.5),
    "few": Kind("binary", 4, 80, 25, 6, 0.6, means=0.5, levels=0.5),
    "rare": Kind("binary", 12, 80, 30, 8, 0.6, levels=-2.0),
    "counts": Kind("count", 20, 30, 15, 4, 0.15, means=0.5),
    "noise": Kind("number", 20, 25, 30, 0, 0.0),
}


def simulate(kind: Kind, seed: int, n_groups: int, is_new: bool) -> SiteTable:
    """Return a table of a kind; new groups have the same coefficients on average."""
    signs = np.random.default_rng([1, seed]).choice([-1, 1], kind.k)
    rng = np.random.default_rng([2 + is_new, seed])
    common = np.zeros(kind.p)
    common[: kind.k] = signs * kind.size * kind.decay ** np.arange(kind.k)
    tables, targets = [], []
    for _ in range(n_groups):
        X = rng.normal(size=(kind.m, kind.p))
        for j in range(1, kind.p):
            X[:, j] = kind.rho * X[:, j - 1] + np.sqrt(1 - kind.rho**2) * X[:, j]
        X += kind.means * rng.normal(size=kind.p)
        coefficients = common + kind.slopes * rng.normal(size=kind.p) * (common != 0)
        level = kind.levels * (abs(rng.normal()) if kind.levels < 0 else rng.normal())
        tables.append(X)
        targets.append(_draw(kind, X @ coefficients + level, rng))
    sites = np.repeat(np.arange(n_groups), kind.m).astype(str)
    y = np.concatenate(targets)
    return SiteTable(np.vstack(tables), y, sites, kind.what == "binary", [])


def _draw(kind: Kind, predictor: Array, rng: np.random.Generator) -> Array:
    """Return numbers, classes or counts with a linear predictor."""
    m = len(predictor)
    if kind.what == "binary":
        return (predictor + rng.logistic(size=m) > 0).astype(int)
    if kind.what == "count":
        return rng.poisson(np.exp(1 + predictor) * rng.gamma(1, 1, m)).astype(float)
    return predictor + kind.noise * rng.normal(size=m)


# What is compared.


def _ours(what: str, sparsity: int | str, seed: int = 0, **options: Any) -> Any:
    """Return our estimator."""
    if what == "binary":
        return fgmp.FedGradMPClassifier(sparsity, random_state=seed, **options)
    options["loss"] = "poisson" if what == "count" else "squared"
    return fgmp.FedGradMPRegressor(sparsity, random_state=seed, **options)


def _pooled(what: str, table: SiteTable) -> dict[str, Any]:
    """Return peers on pooled rows, whose penalty is chosen by ten folds, of groups if there are ten."""
    folds_of: Any = (model_selection.KFold, model_selection.StratifiedKFold)
    if _has_ten_groups(table):
        folds_of = (model_selection.GroupKFold, model_selection.StratifiedGroupKFold)
    splitter = folds_of[what == "binary"](10, shuffle=True, random_state=0)
    folds = list(splitter.split(table.X, table.y, table.sites))
    if what == "number":
        return {
            "l1": linear_model.LassoCV(cv=folds, max_iter=3000),
            "l2": linear_model.RidgeCV(np.geomspace(0.01, 1000, 16), cv=folds),
            "elastic net": linear_model.ElasticNetCV(l1_ratio=0.5, cv=folds, max_iter=3000),
        }
    if what == "count":
        model = linear_model.PoissonRegressor(max_iter=300)
        alphas = {"alpha": np.geomspace(1e-4, 10, 11)}
        return {"l2": model_selection.GridSearchCV(model, alphas, cv=folds)}
    options: dict[str, Any] = {
        "Cs": np.geomspace(0.003, 3, 7),
        "cv": folds,
        "scoring": "neg_log_loss",
        "random_state": 0,
        "use_legacy_attributes": False,
    }
    logistic = linear_model.LogisticRegressionCV
    return {
        "l1": logistic(solver="liblinear", l1_ratios=(1,), **options),
        "l2": logistic(l1_ratios=(0,), max_iter=500, **options),
    }


def _has_ten_groups(table: SiteTable) -> bool:
    """Return whether "cv" holds out groups."""
    return len(np.unique(table.sites)) >= 10


class Repeated(NamedTuple):
    """Our choice by the mean of the paths of all seeds."""

    what: str
    sparsity: str = "cv"

    def fit(self, X: Array, y: Array, groups: Array) -> Any:
        """Return a model with the sparsity that is chosen."""
        models = [_ours(self.what, "cv", seed) for seed in range(_N_SEEDS)]
        paths = [model.fit(X, y, groups=groups).cv_ for model in models]
        columns = {
            name: np.mean([path.table[name] for path in paths], axis=0) for name in paths[0].table
        }
        chosen = SparsityPath(columns, paths[0].folds).chosen
        return _ours(self.what, chosen).fit(X, y, groups=groups)


def arms(label: str, what: str, table: SiteTable) -> dict[str, Any]:
    """Return what is fitted without the new groups, under a label."""
    if label == "peers":
        return _pooled(what, table)
    if label == "gap":
        return {"C too": _ours(what, "cv", C="cv"), "repeated": Repeated(what)}
    found = {"cv": _ours(what, "cv")}
    if label == "after":
        other = "rows" if _has_ten_groups(table) else "groups"
        found["other folds"] = _ours(what, "cv", folds=other)
        found |= {"five": _ours(what, 5), "all": _ours(what, "all")}
    return found


def score(what: str, model: Any, train: SiteTable, new: SiteTable) -> tuple[float, float]:
    """Return the loss of a model at new groups, and that of the mean of the rows that train."""
    mean = np.full(len(new.y), train.y.mean())
    if what == "binary":
        p = model.predict_proba(new.X)[:, 1].clip(1e-9, 1 - 1e-9)
        losses = [-np.log(np.where(new.y == 1, q, 1 - q)).sum() for q in (p, mean)]
    elif what == "count":
        losses = [(xlogy(new.y, new.y / q) - new.y + q).sum() for q in (model.predict(new.X), mean)]
    else:
        losses = [((new.y - q) ** 2).sum() for q in (model.predict(new.X), mean)]
    return float(losses[0]), float(losses[1])


def _size(model: Any) -> int:
    """Return the number of features of a model."""
    if hasattr(model, "support_"):
        return len(model.support_)
    last = getattr(model[-1], "best_estimator_", model[-1])
    return np.count_nonzero(last.coef_)


def fit(model: Any, table: SiteTable) -> Any:
    """Return a model that is fitted to a table; one of pooled rows in standardised units."""
    if hasattr(model, "sparsity"):
        return model.fit(table.X, table.y, groups=table.sites)
    return make_pipeline(StandardScaler(), model).fit(table.X, table.y)


def study(name: str) -> tuple[str, SiteTable, list[tuple[SiteTable, SiteTable]]]:
    """Return what the targets are, all rows or the first draw, and pairs: of training, and new."""
    if name in KINDS:
        kind = KINDS[name]
        pairs = [
            (simulate(kind, draw, kind.n_groups, False), simulate(kind, draw, 100, True))
            for draw in range(_N_DRAWS)
        ]
        return kind.what, pairs[0][0], pairs
    table = (TABLES | OTHERS)[name]()
    numbers = "count" if name == "los" else "number"
    pairs = [(_rows(table, train, train), _rows(table, train, new)) for train, new in splits(table)]
    every = np.arange(len(table.y))
    return "binary" if table.is_binary else numbers, _rows(table, every, every), pairs


def _rows(table: SiteTable, train: Array, rows: Array) -> SiteTable:
    """Return some of the rows, with the means of those that train for what is missing."""
    X = with_means(table.X, train)
    return table._replace(X=X[rows], y=table.y[rows], sites=table.sites[rows])


def agreement(what: str, table: SiteTable) -> dict[str, Any]:
    """Return the mean Jaccard index of the features that seeds choose, and how many they are."""
    models = [fit(_ours(what, "cv", seed), table) for seed in range(_N_SEEDS)]
    chosen = [frozenset(model.support_.tolist()) for model in models]
    indices = [len(a & b) / len(a | b) if a | b else 1.0 for a, b in combinations(chosen, 2)]
    return {"jaccard": float(np.mean(indices)), "sizes": [len(one) for one in chosen]}


def measure(name: str, label: str) -> dict[str, Any]:
    """Return the agreement of the choice, and for each arm the score and the number of features."""
    what, rows, pairs = study(name)
    found = agreement(what, rows) if label in ("before", "after") else {}
    losses: dict[str, list[tuple[float, float, int]]] = {}
    for train, new in pairs:
        for arm, model in arms(label, what, train).items():
            try:
                fitted = fit(model, train)
            except ValueError as error:  # no group has rows for two folds
                print(f"  {arm}: {error}")
                continue
            losses.setdefault(arm, []).append((*score(what, fitted, train, new), _size(fitted)))
    for arm, of_pairs in losses.items():
        of_model, of_mean, sizes = np.transpose(of_pairs)
        share = of_model.sum() / of_mean.sum()
        errors = of_model - share * of_mean
        found[arm] = {
            "score": float(1 - share),
            "error": float(np.sqrt(len(errors) * errors.var(ddof=1)) / of_mean.sum()),
            "features": float(sizes.mean()),
        }
    return found


def show() -> str:
    """Return the tables of all measures as Markdown."""
    paths = [RESULTS / f"{name}.json" for name in [*TABLES, *OTHERS, *KINDS]]
    results = {path.stem: json.loads(path.read_text()) for path in paths if path.exists()}
    columns = ["cv before", "cv", "other folds", "five", "all", "l1", "l2", "elastic net"]
    lines = [_line("table", "agreement", "features", *columns)]
    lines += ["|---" * (3 + len(columns)) + "|"]
    for name, found in results.items():
        both = [found[label] for label in ("before", "after") if label in found]
        agreements = " to ".join(f"{one['jaccard']:.2f}" for one in both)
        features = " to ".join(f"{one['cv']['features']:.1f}" for one in both)
        of_arms = found.get("after", {}) | found.get("peers", {})
        of_arms["cv before"] = found.get("before", {}).get("cv")
        cells = [_cell(of_arms.get(column)) for column in columns]
        lines.append(_line(name, agreements, features, *cells))
    columns = ["cv", "C too", "repeated", "all"]
    lines += ["", _line("table", *columns), "|---" * (1 + len(columns)) + "|"]
    for name, found in results.items():
        if "gap" in found:
            of_arms = found["after"] | found["gap"]
            lines.append(_line(name, *(_cell(of_arms.get(column)) for column in columns)))
    return "\n".join(lines) + "\n"


def _line(*cells: str) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def _cell(found: dict[str, float] | None) -> str:
    """Return a score with its standard error over the sets of groups."""
    return f"{found['score']:.3f} ± {found['error']:.3f}" if found else ""


def main() -> None:
    """Measure the tables that are named under a label, or show what is measured."""
    warnings.simplefilter("ignore")
    label, *names = sys.argv[1:]
    if label != "--show":
        RESULTS.mkdir(exist_ok=True)
        for name in names or [*KINDS, *OTHERS, *TABLES]:
            path = RESULTS / f"{name}.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            known[label] = measure(name, label)
            path.write_text(json.dumps(known, indent=1) + "\n")
            print(name, known[label], flush=True)
    print(show())


if __name__ == "__main__":
    main()
