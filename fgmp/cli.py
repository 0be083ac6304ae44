"""The command line: ``fgmp data`` and ``fgmp predict``."""

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from ._support.warnings import suppress_advice
from .datasets.downloads import DOWNLOADS, data_folder, fetch
from .estimators.csv_tables import CsvTable, inert, is_number, read_csv


@click.group()
@click.version_option(package_name="fgmp")
def main() -> None:
    """Federated Gradient Matching Pursuit."""


@main.group()
def data() -> None:
    """Get the data sets of the experiments, in the folder that FGMP_DATA names or a cache."""


@data.command("list")
def list_data() -> None:
    """List the data sets: files, licences, and what is there."""
    folder = data_folder()
    for name, files in DOWNLOADS.items():
        for file in files:
            click.echo(f"{name:13}  {file.state(folder):7}  {file.name}, licence: {file.licence}")
    click.echo(f"\nfolder: {folder} (the environment variable FGMP_DATA names another)")


@data.command("fetch")
@click.argument("name", type=click.Choice(list(DOWNLOADS)))
def fetch_data(name: str) -> None:
    """Download what is missing or damaged of the data set NAME, and check it."""
    with _clear_errors():
        folder = fetch(name)
    click.echo(
        f"{name} is complete in {folder}; licences: {', '.join(file.licence for file in DOWNLOADS[name])}"
    )


@main.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("table", type=click.File(encoding="utf-8"))
@click.option(
    "--groups",
    metavar="COLUMN",
    help="The column with the groups, of a model with an intercept for each.",
)
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line names the columns, if it has numbers.",
)
def predict(model: Path, table: TextIO, groups: str | None, header: bool | None) -> None:
    """Print predictions of MODEL for the rows of the CSV file TABLE (- is what comes in).

    MODEL is a file with the JSON of a fitted estimator, `model.to_json()`: reading it runs nothing. The columns are
    found by their names, or are in the order of the fit if it had no names. A classifier's probabilities stand beside
    its predictions.
    """
    with _clear_errors():
        fitted = _fitted(model)
        rows = read_csv(table, header is not False)
        X = rows.numbers(_columns(fitted, rows, groups, header))
        if not len(X):
            raise ValueError("the table has no rows; expected at least one")
        own_groups = _own_groups(fitted, rows, groups)
        vars(fitted).pop(
            "feature_names_in_", None
        )  # the columns are in its order, and X is an array without names
        with suppress_advice():  # what `predict` would advise is printed here, in lines of its own
            columns = {"prediction": fitted.predict(X, **own_groups)}
        if hasattr(fitted, "predict_proba"):
            names = [f"probability of {label}" for label in fitted.classes_.tolist()]
            columns |= zip(names, fitted.predict_proba(X).T, strict=True)
    cells = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [list(columns), *cells]
    csv.writer(sys.stdout, lineterminator="\n").writerows(
        [[inert(cell) for cell in line] for line in lines]
    )


def _fitted(path: Path) -> Any:
    """Return the estimator in a file, or raise a ClickException that says what is there."""
    from .estimators import model_from_json

    try:
        return model_from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:  # a UnicodeDecodeError, too
        expected = "expected a file with what to_json of a fitted estimator returned"
        raise click.ClickException(f"MODEL is {str(path)!r}; {expected} ({error})") from None


def _columns(fitted: Any, table: CsvTable, groups: str | None, header: bool | None) -> list[str]:
    """Return the names of the columns that the model takes, in its order."""
    known = [str(name) for name in getattr(fitted, "feature_names_in_", [])]
    if known and header is not False:
        return known
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


def _own_groups(fitted: Any, table: CsvTable, column: str | None) -> dict[str, list[str]]:
    """Return the groups of the rows as an argument of the model's predict, and make its own groups text as theirs."""
    if not hasattr(fitted, "intercepts_"):
        if column is not None:
            raise ValueError(
                f"--groups is {column!r}, and MODEL has one intercept; expected no --groups"
            )
        return {}
    if column is None:
        click.echo(
            "Warning: all rows get the mean intercept; --groups COLUMN gives them that of their group",
            err=True,
        )
        return {}
    fitted.intercepts_ = {str(group): intercept for group, intercept in fitted.intercepts_.items()}
    own = table.texts(column)
    if strange := sorted(set(own) - set(fitted.intercepts_)):
        took_no_part = (
            f"groups {strange[:5]} took no part in the fit: their rows get the mean intercept"
        )
        click.echo(f"Warning: {took_no_part}", err=True)
    return {"groups": own}


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
