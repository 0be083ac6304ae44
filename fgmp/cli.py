"""The command line: ``fgmp data`` and ``fgmp predict``."""

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from .datasets.downloads import DOWNLOADS, data_folder, fetch


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
            state = "there" if file.is_there(folder) else "missing"
            click.echo(f"{name:13}  {state:7}  {file.name}, licence: {file.licence}")
    click.echo(f"\nfolder: {folder} (the environment variable FGMP_DATA names another)")


@data.command("fetch")
@click.argument("name", type=click.Choice(list(DOWNLOADS)))
def fetch_data(name: str) -> None:
    """Download what is missing of the data set NAME, and check it."""
    with _clear_errors():
        folder = fetch(name)
    click.echo(f"{name} is complete in {folder}; licences: {', '.join(file.licence for file in DOWNLOADS[name])}")


@main.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("table", type=click.File(encoding="utf-8"))
def predict(model: Path, table: TextIO) -> None:
    """Print predictions of MODEL for the rows of the CSV file TABLE (- is what comes in).

    MODEL is a fitted estimator that joblib.dump has written: open only your own, because loading one runs what is in
    it. The columns are found by their names, and a classifier's probabilities stand beside its predictions.
    """
    import joblib
    import numpy as np

    try:
        fitted = joblib.load(model)
    except Exception as error:
        raise click.ClickException(f"MODEL is {str(model)!r}; expected a file that joblib.dump wrote") from error
    with _clear_errors():
        reader = csv.DictReader(table)
        names = [str(name) for name in getattr(fitted, "feature_names_in_", reader.fieldnames or [])]
        if missing := [name for name in names if name not in (reader.fieldnames or [])]:
            raise ValueError(f"TABLE has no column {missing[0]!r}; expected {', '.join(map(repr, names))}")
        _forget_names(fitted)  # the columns are in their order, and X is an array without names
        X = np.array([[float(row[name]) for name in names] for row in reader]).reshape(-1, len(names))
        columns = {"prediction": fitted.predict(X)}
        if hasattr(fitted, "predict_proba"):
            names = [f"probability of {label}" for label in fitted.classes_.tolist()]
            columns |= zip(names, fitted.predict_proba(X).T, strict=True)
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *rows])


def _forget_names(fitted: Any) -> None:
    """Take the names of columns from an estimator, or the steps of a pipeline, which warn where X has none."""
    for part in (fitted, *(step for _, step in getattr(fitted, "steps", ()))):
        getattr(part, "__dict__", {}).pop("feature_names_in_", None)


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
