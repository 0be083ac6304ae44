"""The command line: ``fgmp data``, ``fgmp run`` and ``fgmp sweep`` of a notebook, ``fgmp claims``, ``fgmp predict``."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from .book.claims import claims_folder, read_claims, summary
from .datasets.downloads import DOWNLOADS, DataFile, data_folder, fetch
from .sweeping import Outcome, find_source, grid_of, parameters_given, points_of, run_sweep, write_table
from .sweeping.sweeps import outcome_of, outcomes_in
from .sweeping.tables import check_columns

__all__ = ["main"]


@click.group()
@click.version_option(package_name="fgmp")
def main() -> None:
    """Federated Gradient Matching Pursuit."""


@main.group()
def data() -> None:
    """Get the data sets of the experiments.

    They lie in the folder that the environment variable FGMP_DATA names, or else in a cache.
    """


@data.command("list")
def list_data() -> None:
    """List the data sets: files, licences, and what is there."""
    with _clear_errors():
        folder = data_folder()
    rows = [("set", "file", "licence", "state")]
    rows += [("digits", "8 x 8, in scikit-learn", "CC BY 4.0", "there")]
    rows += [(name, file.name, file.licence, _state(file, folder)) for name in DOWNLOADS for file in DOWNLOADS[name]]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    source = "named by FGMP_DATA" if os.environ.get("FGMP_DATA") else "the environment variable FGMP_DATA names another"
    click.echo(f"\nfolder: {folder} ({source})")


@data.command("fetch")
@click.argument("name", type=click.Choice(list(DOWNLOADS)))
def fetch_data(name: str) -> None:
    """Download what is missing of the data set NAME, and check it."""
    with _clear_errors():
        folder = fetch(name)
    click.echo(f"{name} is complete in {folder}")
    for file in DOWNLOADS[name]:
        click.echo(f"  {file.name}: {file.what}. Licence: {file.licence}")


def _state(file: DataFile, folder: Path) -> str:
    if file.is_unpacked(folder):
        return "there"
    return "there, not unpacked" if (folder / file.name).exists() else "missing"


def _of_a_notebook(command: Callable[..., None]) -> Callable[..., None]:
    """What `fgmp run` and `fgmp sweep` share."""
    folder = click.Path(file_okay=False, path_type=Path)
    for decorate in (
        click.option("--again", is_flag=True, help="Run what is finished too, as after a change of fgmp itself."),
        click.option("--out", type=folder, help="Folder of the results; default: build/sweeps/NAME."),
        click.option("--notebooks", type=folder, default="notebooks", show_default=True, help="Folder of notebooks."),
        click.option("-y", "given", metavar="YAML", default="{}", help='Parameters: "{alpha: 1.0, rounds: 5}".'),
        click.argument("name", metavar="NOTEBOOK"),
    ):
        command = decorate(command)
    return command


@main.command()
@_of_a_notebook
def run(name: str, given: str, notebooks: Path, out: Path | None, again: bool) -> None:
    """Run a notebook, by its number or its name, and list its claims.

    What is finished with the same code and parameters is not run again.
    """
    with _clear_errors():
        source = find_source(name, notebooks)
        points = points_of(source.code, parameters_given(given), {})
        (outcome,) = run_sweep(source, points, out or Path("build", "sweeps", source.name), again=again)
    if outcome.state == "failed":
        raise click.ClickException(f"{source.name} failed. {outcome.problem}\nas far as it came: {outcome.notebook}")
    click.echo(summary(outcome.claims))
    click.echo(f"notebook: {outcome.notebook}")


@main.command()
@_of_a_notebook
@click.option("-g", "grid", metavar="NAME=VALUES", multiple=True, help="Values of a parameter: alpha=0.5,1,2.5.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Notebooks that run at a time.")
@click.option("--dask", metavar="ADDRESS", help="Run on the cluster of this scheduler: tcp://host:8786.")
def sweep(
    name: str,
    given: str,
    grid: tuple[str, ...],
    notebooks: Path,
    out: Path | None,
    again: bool,
    jobs: int,
    dask: str | None,
) -> None:
    """Run a notebook at every point of a grid, and gather all claims in sweep.csv.

    Finished points are skipped, so that the same command goes on after Ctrl-C or worse. A point that fails keeps its
    notebook, the others run, and the exit code is 1.
    """
    with _clear_errors():
        source, values = find_source(name, notebooks), grid_of(grid)
        points = points_of(source.code, parameters_given(given), values)
        check_columns(list(points[0].parameters))
        out = out or Path("build", "sweeps", source.name)
        code, outcomes = 0, []
        try:
            outcomes = run_sweep(source, points, out, jobs=jobs, address=dask, again=again, report=_report)
        except KeyboardInterrupt:
            code, outcomes = 130, [outcome_of(point, out) for point in points]
            click.echo("stopped; the same command goes on from here", err=True)
        write_table(outcomes, out / "sweep.csv")
    done = sum(outcome.state == "done" for outcome in outcomes)
    click.echo(f"{done} of {len(points)} points done, in {out / 'sweep.csv'}")
    sys.exit(code or int(done < len(points)))


@main.command()
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
def claims(folder: Path | None) -> None:
    """List the claims recorded in FOLDER, by default in build/claims, or those of every point of a sweep."""
    folder = folder or claims_folder()
    with _clear_errors():
        outcomes = outcomes_in(folder)
        for outcome in outcomes:
            click.echo(f"{outcome.point}: {outcome.problem or outcome.state}")
            click.echo(summary(outcome.claims) + "\n")
        if not outcomes:
            click.echo(summary(read_claims(folder)))


@main.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("table", type=click.File(encoding="utf-8"))
def predict(model: Path, table: TextIO) -> None:
    """Print predictions of MODEL, a JSON file, for the rows of the CSV file TABLE (- is what comes in).

    The columns are found by their names. A classifier's probabilities stand beside its predictions.
    """
    from .estimators import load_model, predict_rows

    with _clear_errors():
        rows = predict_rows(load_model(model), table)
    if rows:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _report(outcome: Outcome) -> None:
    click.echo(f"{outcome.state:7} {outcome.point}  {outcome.problem}".rstrip())


@contextmanager
def _clear_errors() -> Iterator[None]:
    """One line for what the user can mend."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = "cluster" if error.name in ("dask", "distributed") else "notebooks"
        raise click.ClickException(f"{error.name} is not installed: pip install 'fgmp[{extra}]'") from error
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
