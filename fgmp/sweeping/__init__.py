"""The notebooks at other parameters: one run, or every point of a grid, on this machine or on a cluster.

May import: the ground floor, book.
"""

from .points import Point, grid_of, parameters_given, points_of
from .sources import Source, find_source
from .sweeps import Outcome, run_sweep
from .tables import table_of, write_table

__all__ = [
    "Outcome",
    "Point",
    "Source",
    "find_source",
    "grid_of",
    "parameters_given",
    "points_of",
    "run_sweep",
    "table_of",
    "write_table",
]
