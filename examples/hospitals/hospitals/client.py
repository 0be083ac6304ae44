"""What runs at a hospital: it reads its own CSV, in the columns that the server names, and answers under masks only."""

import numpy as np

from fgmp.estimators.csv_tables import read_csv
from fgmp.flower import table_app

LABEL = "diagnosis"  # the column of the CSV that is to be predicted


def read_table(path, columns):
    """Return the numbers in some columns of a CSV, a row for each patient, and the diagnoses."""
    with open(path, encoding="utf-8", newline="") as file:
        table = read_csv(file)
    absent = [name for name in columns if name not in table.names]
    if absent:
        raise KeyError(absent)  # of a KeyError the server learns which of its names are missing
    return table.numbers(columns), np.array(table.texts(LABEL))


def read(context, columns):
    """Read the hospital's own table, from the file that its node names."""
    return read_table(context.node_config["data"], columns)


app = table_app(read, masked_only=True)
