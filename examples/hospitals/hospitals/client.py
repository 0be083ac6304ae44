"""What runs at a hospital: it reads its own CSV, in the columns that the server names, and answers under masks only."""

import numpy as np

from fgmp.estimators.csv_tables import read_csv
from fgmp.flower import table_app

LABEL = "diagnosis"  # the column of the CSV that is to be predicted


def read(context, columns):
    """The measurements and the diagnoses of the hospital's own patients, from the file that its node names."""
    with open(context.node_config["data"], encoding="utf-8", newline="") as file:
        table = read_csv(file)
    return table.numbers(columns), np.array(table.texts(LABEL))


app = table_app(read, masked_only=True)
