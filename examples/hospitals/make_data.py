"""Heart disease at four real hospitals: a CSV for each, and ten patients without a diagnosis.

    make_data.py [FOLDER]

A clone has the files of the hospitals. Columns that one of them hardly knows are left out: nobody's
cholesterol was measured in Switzerland, and vessels were counted in Cleveland alone.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from fgmp.datasets import heart_disease

HOSPITALS = {
    "cleveland": "Cleveland",
    "budapest": "Budapest",
    "switzerland": "Switzerland",
    "long_beach": "Long Beach",
}
N_NEW = 10  # patients of Budapest that no hospital trains on


def prepare(X, names):
    """Return the columns on which all hospitals have agreed: numbers, by their names.

    A category is a column of zeros and ones for each kind but one: asymptomatic has zeros in all.
    """
    raw = dict(zip(names, X.T, strict=True))
    return {
        "age": raw["age"],
        "male": raw["sex"],
        "blood_pressure": raw["trestbps"],
        "highest_heart_rate": raw["thalach"],
        "pain_by_exercise": raw["exang"],
        "st_depression": raw["oldpeak"],
        "typical_angina": 1.0 * (raw["cp"] == 1),
        "atypical_angina": 1.0 * (raw["cp"] == 2),
        "other_pain": 1.0 * (raw["cp"] == 3),
    }


def write(path, columns):
    """Write columns as a CSV."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


heart = heart_disease()
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data")
folder.mkdir(parents=True, exist_ok=True)
for name, hospital in HOSPITALS.items():
    is_here = heart.hospital == hospital
    columns = prepare(heart.X[is_here], heart.feature_names)
    # The rule for missing values: a patient takes part who has a number in every column.
    is_complete = np.isfinite(np.column_stack(list(columns.values()))).all(axis=1)
    complete = {column: values[is_complete] for column, values in columns.items()}
    diagnosis = np.where(heart.y[is_here][is_complete], "ill", "healthy")
    if name == "budapest":
        new = np.linspace(0, len(diagnosis) - 1, N_NEW).astype(int)  # the file is sorted by age
        write(folder / "new.csv", {key: values[new] for key, values in complete.items()})
        complete = {key: np.delete(values, new) for key, values in complete.items()}
        diagnosis = np.delete(diagnosis, new)
    write(folder / f"{name}.csv", complete | {"diagnosis": diagnosis})
    n_left_out = np.count_nonzero(~is_complete)
    print(f"{name}: {len(diagnosis)} patients, {n_left_out} left out with a missing value")
