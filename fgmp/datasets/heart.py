"""Heart disease at four hospitals: a table with missing values, categories and unequal outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support.optional import needs

# The files, which are in the package, and the hospitals that they are of.
_FOLDER = Path(__file__).parent / "uci_heart"
_HOSPITALS = {
    "processed.cleveland.data": "Cleveland",
    "processed.hungarian.data": "Budapest",
    "processed.switzerland.data": "Switzerland",
    "processed.va.data": "Long Beach",
}
_FEATURES = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
)
# What the codes of a category mean.
_CATEGORIES: Mapping[str, Mapping[int, str]] = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical angina", 2: "atypical angina", 3: "non-anginal", 4: "asymptomatic"},
    "fbs": {0: "normal", 1: "high"},
    "restecg": {0: "normal", 1: "ST-T abnormality", 2: "hypertrophy"},
    "exang": {0: "no", 1: "yes"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}
# Nobody has a cholesterol, or a blood pressure, of zero: it is how the files write some that are
# missing, among them each cholesterol of Switzerland.
_NEVER_ZERO = ("trestbps", "chol")


@dataclass(frozen=True, eq=False)
class HeartDisease:
    """Patients of four hospitals with a suspicion of heart disease.

    Attributes
    ----------
    X : ndarray, shape (920, 13)
        The features, `nan` where a value is missing; categories as the codes of the files.
    y : ndarray of int, shape (920,)
        1 if a coronary artery is narrowed by more than half, in the angiography, and else 0.
    hospital : ndarray of str, shape (920,)
        "Cleveland", "Budapest", "Switzerland" or "Long Beach".
    feature_names : tuple of str
        The names of the columns, as in the source.
    categories : mapping
        For each column of categories what its codes mean.

    Examples
    --------
    >>> from fgmp.datasets import heart_disease
    >>> heart = heart_disease()
    >>> heart.feature_names[:3], heart.categories["sex"]
    (('age', 'sex', 'cp'), {0: 'female', 1: 'male'})
    """

    X: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    hospital: NDArray[np.str_] = field(repr=False)
    feature_names: tuple[str, ...]
    categories: Mapping[str, Mapping[int, str]] = field(repr=False)

    def to_frame(self) -> Any:
        """Return X as a table of pandas, with words in place of the codes of categories.

        A missing word is None, and a missing number nan.
        """
        with needs("to_frame", "pandas"):
            import pandas as pd

        frame = pd.DataFrame(self.X, columns=list(self.feature_names))
        for name, words in self.categories.items():
            codes = frame[name].tolist()
            column = [None if np.isnan(code) else words[int(code)] for code in codes]
            frame[name] = pd.Series(column, dtype=object)
        return frame


def heart_disease() -> HeartDisease:
    """Read the heart disease data of four hospitals, 920 patients in all.

    The files of the source come with fgmp, unchanged: nothing is downloaded.

    The columns are age in years; sex; cp, the kind of chest pain; trestbps, the blood pressure at
    rest in mmHg; chol, the cholesterol in mg/dl; fbs, whether the blood sugar before a meal is
    above 120 mg/dl; restecg, the electrocardiogram at rest; thalach, the highest heart rate in
    beats a minute; exang, whether exercise brings pain; oldpeak, the depression of ST by exercise
    in mm; slope, of ST under exercise; ca, the number of large vessels in fluoroscopy; thal, a
    thallium scan.

    Returns
    -------
    HeartDisease
        X with `nan` where a value is missing, y, the hospital of each patient, names, categories.

    Notes
    -----
    The source writes a question mark where a value is missing. A cholesterol or a blood pressure of
    zero, which no living patient has, counts as missing, too: all of Switzerland's cholesterols,
    and 50 values at Long Beach.

    References
    ----------
    A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano, *Heart Disease*, UCI Machine Learning
    Repository, 1988, doi 10.24432/C52P4X (CC BY 4.0).

    Examples
    --------
    >>> from fgmp.datasets import heart_disease
    >>> heart = heart_disease()
    >>> heart.X.shape
    (920, 13)
    >>> round(float(heart.y[heart.hospital == "Switzerland"].mean()), 2)
    0.93
    """
    return _read([_FOLDER / name for name in _HOSPITALS])


def _read(paths: Sequence[Path]) -> HeartDisease:
    """Return the data of files as the source has them."""
    tables = [_read_table(path) for path in paths]
    table = np.vstack(tables)
    X = table[:, :-1]
    for name in _NEVER_ZERO:
        column = X[:, _FEATURES.index(name)]
        column[column == 0] = np.nan
    hospital = np.repeat([_HOSPITALS[path.name] for path in paths], [len(part) for part in tables])
    is_ill = (table[:, -1] > 0).astype(np.int64)
    return HeartDisease(X, is_ill, hospital, _FEATURES, _CATEGORIES)


def _read_table(path: Path) -> NDArray[np.float64]:
    """Return a file as numbers, shape (n_patients, 14), with nan for a question mark."""
    lines = path.read_text(encoding="ascii").split()
    cells = [line.replace("?", "nan").split(",") for line in lines]
    return np.array(cells, dtype=np.float64)
