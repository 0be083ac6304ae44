"""The command line: ``fgmp data list`` and ``fgmp data fetch NAME``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from .datasets.downloads import DOWNLOADS, DataFile, data_folder, fetch

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
    try:
        folder = data_folder()
    except ValueError as error:
        raise click.ClickException(str(error)) from error
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
    try:
        folder = fetch(name)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{name} is complete in {folder}")
    for file in DOWNLOADS[name]:
        click.echo(f"  {file.name}: {file.what}. Licence: {file.licence}")


def _state(file: DataFile, folder: Path) -> str:
    if file.is_unpacked(folder):
        return "there"
    return "there, not unpacked" if (folder / file.name).exists() else "missing"
