"""The command line: ``fgmp data`` and ``fgmp predict``."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._support.warnings import collect_warnings, suppress_advice
from ..datasets.downloads import DOWNLOADS, data_folder, fetch
from ..estimators.csv_tables import CsvTable, inert, is_number, read_csv

_PREDICT = """\
Print predictions of MODEL for the rows of the CSV file TABLE.

MODEL is a file with the JSON of a fitted estimator, model.to_json(): reading it runs no code. The
columns are found by their names, or are in the order of the fit if it had no names. Categories are
text, and empty cells are missing values, for a model that was fitted with them. A classifier's
probabilities stand beside its predictions.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments; by default those of the process.

    Returns
    -------
    int
        0, or 1 after an error, of which one line is printed.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ImportError, OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    from .. import __version__

    parser = argparse.ArgumentParser("fgmp", description="Federated Gradient Matching Pursuit.")
    parser.add_argument("--version", action="version", version=f"fgmp {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    data = commands.add_parser("data", help="list and get the data sets of the experiments")
    data_commands = data.add_subparsers(required=True, metavar="COMMAND")

    listing = data_commands.add_parser("list", help="list the data sets: files, licences, state")
    listing.set_defaults(run=_list_data)

    words = "download the files of a data set that are missing or damaged, and check them"
    fetching = data_commands.add_parser("fetch", help=words, description=words)
    fetching.add_argument(
        "name", metavar="NAME", choices=list(DOWNLOADS), help=", ".join(DOWNLOADS)
    )
    fetching.set_defaults(run=_fetch_data)

    predict = commands.add_parser(
        "predict",
        help="print predictions of a model for the rows of a table",
        description=_PREDICT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    predict.add_argument("model", metavar="MODEL", type=Path)
    predict.add_argument("table", metavar="TABLE", help="a path, or - for the standard input")
    predict.add_argument(
        "--groups",
        metavar="COLUMN",
        help="the column with the groups, for a model with an intercept for each",
    )
    predict.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first line names the columns, if it has numbers",
    )
    predict.set_defaults(run=_predict)
    return parser


def _list_data(options: argparse.Namespace) -> None:
    """List the data sets: files, licences, and which are there."""
    folder = data_folder()
    for name, files in DOWNLOADS.items():
        for file in files:
            print(f"{name:13}  {file.state(folder):7}  {file.name}, licence: {file.licence}")
    print(f"\nfolder: {folder} (the environment variable FGMP_DATA names another)")
    print("No download: fgmp.datasets.heart_disease(), fgmp.digits_by_writer(), and synthetic data")


def _fetch_data(options: argparse.Namespace) -> None:
    """Download the files of a data set that are missing or damaged, and check them."""
    folder = fetch(options.name)
    licences = ", ".join(file.licence for file in DOWNLOADS[options.name])
    print(f"{options.name} is complete in {folder}; licences: {licences}")


def _predict(options: argparse.Namespace) -> None:
    """Print predictions of a model for the rows of a table, as CSV."""
    fitted = _read_model(options.model)
    table = _read_table(options.table, has_header=options.header is not False)
    X = _features(fitted, table, _column_names(fitted, table, options.groups, options.header))
    if not len(X):
        raise ValueError("the table has no rows; expected at least one")
    groups = _groups(fitted, table, options.groups)

    columns = _predictions(fitted, X, groups)
    cells = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [list(columns), *cells]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows([[inert(cell) for cell in line] for line in lines])


def _read_model(path: Path) -> Any:
    """Return the estimator in a file, or raise a ValueError that says what the file has to be."""
    from ..estimators import model_from_json

    try:
        return model_from_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"MODEL is {str(path)!r}: {error}") from None


def _read_table(path: str, has_header: bool) -> CsvTable:
    """Read a table from a path, or from the standard input if the path is ``-``."""
    if path == "-":
        return read_csv(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8"), has_header)
    with open(path, encoding="utf-8") as file:
        return read_csv(file, has_header)


def _column_names(
    fitted: Any, table: CsvTable, groups: str | None, header: bool | None
) -> list[str]:
    """Return the names of the columns that the model takes, in its order."""
    names_of_fit = [str(name) for name in getattr(fitted, "feature_names_in_", [])]
    if names_of_fit and header is not False:
        return names_of_fit
    if header is None and all(map(is_number, table.names)):
        raise ValueError(
            "the first line of the table has numbers; expected names, or --header or --no-header"
        )
    names = [name for name in table.names if name != groups]
    if len(names) != fitted.n_features_in_:
        raise ValueError(
            f"the table has {len(names)} columns of features; expected {fitted.n_features_in_}"
        )
    return names


def _features(fitted: Any, table: CsvTable, names: list[str]) -> Any:
    """Return the columns that a model takes: numbers, or cells that it encodes itself."""
    if not hasattr(fitted, "encoding_"):
        return table.numbers(names)
    variables = zip(names, fitted.encoding_.variables, strict=True)
    categories = {name: {*one.levels, one.reference} for name, one in variables if one.is_category}
    return table.values(names, categories)


def _groups(fitted: Any, table: CsvTable, column: str | None) -> list[str] | None:
    """Return the group of each row as text; None if all rows get the common intercept."""
    if not hasattr(fitted, "intercepts_"):
        if column is not None:
            raise ValueError(
                f"--groups is {column!r}, and MODEL has one intercept; expected no --groups"
            )
        return None
    if column is None:
        _warn("all rows get the common intercept; --groups COLUMN gives them that of their group")
        return None

    groups = table.texts(column)
    unknown = sorted(set(groups) - {str(group) for group in fitted.intercepts_})
    if unknown:
        _warn(f"groups {unknown[:5]} took no part in the fit: their rows get the common intercept")
    return groups


def _predictions(fitted: Any, X: Any, groups: list[str] | None) -> dict[str, Any]:
    """Return the columns to print, by name: the predictions, and a classifier's probabilities."""
    # X is an array in the model's order of columns: scikit-learn would warn that it has no names.
    vars(fitted).pop("feature_names_in_", None)
    options = {}
    if groups is not None:
        # The cells of a table are text, and the groups of a model may be numbers.
        fitted.intercepts_ = {str(group): value for group, value in fitted.intercepts_.items()}
        options["groups"] = groups

    with collect_warnings(with_advice=True) as messages:
        if hasattr(fitted, "encoding_"):
            fitted.encoding_.transform(X, fitted.missing)
    for message in messages:
        _warn(message)
    with suppress_advice():  # what `predict` would advise is printed above, and by `_groups`
        columns = {"prediction": fitted.predict(X, **options)}
        if hasattr(fitted, "predict_proba"):
            probabilities = fitted.predict_proba(X, **options).T
            names = [f"probability of {label}" for label in fitted.classes_.tolist()]
            columns |= zip(names, probabilities, strict=True)
    return columns


def _warn(words: str) -> None:
    print(f"Warning: {words}", file=sys.stderr)
