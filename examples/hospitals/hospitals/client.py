"""What runs at a hospital: it reads its own CSV, in the columns and units that the server names."""

import csv

import numpy as np

from fgmp.flower import client_app
from hospitals.methods import KINDS


def load(context, settings):
    """The hospital's rows, from the file that its own node names; standardised once the server knows the units."""
    with open(context.node_config["data"], newline="") as file:
        rows = list(csv.DictReader(file))
    X = np.array([[float(row[name]) for name in settings["columns"]] for row in rows])
    y = np.array([float(row[settings["target"]]) for row in rows])
    units = settings.get("units")
    if units:
        X = (X - np.array(units["means"])) / np.array(units["scales"])
        y = y - units["target"]
    part = settings.get("part", "all")
    held_out = np.arange(len(y)) % 5 == 4
    chosen = {"all": held_out | True, "training": ~held_out, "held out": held_out}[part]
    return X[chosen], y[chosen]


app = client_app(load, kinds=KINDS)
