"""Breast cancer dealt to three hospitals of different size, a CSV for each, and ten patients without a diagnosis."""

import csv
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

table = load_breast_cancer()
columns = [name.replace(" ", "_") for name in table.feature_names]
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data")
folder.mkdir(parents=True, exist_ok=True)
deal = np.split(np.random.default_rng(0).permutation(569), np.cumsum([280, 180, 99]))
for name, own in zip(("north", "coast", "valley", "new"), deal, strict=True):
    known = name != "new"
    rows = [[*table.data[k], *[table.target_names[table.target[k]]] * known] for k in own]
    with open(folder / f"{name}.csv", "w", newline="") as file:
        csv.writer(file).writerows([[*columns, *["diagnosis"] * known], *rows])
