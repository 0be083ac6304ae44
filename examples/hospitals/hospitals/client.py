"""What runs at a hospital: it reads its own CSV, in the columns that the server names, and answers under masks only."""

import csv

import numpy as np

from fgmp.flower import table_app

LABEL = "diagnosis"  # the column of the CSV that is to be predicted


def read(context, columns):
    """The measurements and the diagnoses of the hospital's own patients, from the file that its node names."""
    with open(context.node_config["data"], newline="") as file:
        rows = list(csv.DictReader(file))
    X = np.array([[float(row[name]) for name in columns] for row in rows])
    return X, np.array([row[LABEL] for row in rows])


app = table_app(read, masked_only=True)
