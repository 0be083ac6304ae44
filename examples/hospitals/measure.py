"""At a hospital, after the fit: what the model is, and how good it is on the hospital's own table.

    measure.py MODEL.json TABLE.csv

Nothing leaves the hospital.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from hospitals.client import read_table

from fgmp.estimators import model_from_json

path = Path(sys.argv[2])
model = model_from_json(Path(sys.argv[1]).read_text())
X, y = read_table(path, model.feature_names_in_.tolist())
print(model.report(), model.summary(), sep="\n\n", end="\n\n")

# The columns of X are in the order of the fit, and have no names.
warnings.filterwarnings("ignore", "X does not have valid feature names")
# Under masks no measure of a hospital leaves it. This is the hospital's own process.
model.set_params(secure=False)
print(model.performance(X, y, np.repeat(path.stem, len(y))))
own, common = float(model.intercept_of(X, y)), float(model.intercept_[0])
print(
    f"\nAn intercept of this hospital alone would be {own:.3g}; that of the model is {common:.3g}."
)
