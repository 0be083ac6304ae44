"""The notebooks from the command line, in their folder: ``python -m book run 01 -p alpha=0.5``."""

import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import click
from joblib import cpu_count
from tqdm import tqdm

from . import keeping, ledger, pairs, paper_figures, plays, running
from .claims import totals

BUILD = pairs.NOTEBOOKS.parent / "build"
PATH = click.Path(path_type=Path)
jobs = click.option(
    "--jobs", type=click.IntRange(1), default=min(cpu_count(), 8), help="Notebooks at a time."
)
given = click.option(
    "-p", "given", multiple=True, metavar="NAME=VALUE", help="A parameter, as YAML: alpha=[0, 1]."
)


@click.group()
def main() -> None:
    """Run the notebooks, sweep them over a grid, and write what is made of their results."""


@main.command()
@click.argument("names", nargs=-1)
@given
@click.option(
    "--parameters", type=PATH, help="A file of YAML: notebook, its parameters, their values."
)
@click.option(
    "--in-place",
    is_flag=True,
    help="Write the committed pairs, and all that is made of them, anew.",
)
@jobs
def run(names, given, parameters, in_place, jobs) -> None:
    """Run notebooks, all or by number or name, into build/notebooks, and list their claims.

    A run that is there is not made again unless the code of the notebook, its parameters or fgmp changed.
    """
    file = running.read_parameters(parameters) if parameters else {}
    sources = [
        pairs.find(name)
        for name in names or file or sorted(p.stem for p in pairs.NOTEBOOKS.glob("[0-9]*.py"))
    ]
    if missing := [source.stem for source in sources if parameters and source.stem not in file]:
        raise ValueError(
            f"{parameters} has no parameters of {', '.join(missing)}; expected an entry for each notebook"
        )
    sources = [source for source in sources if can_run(source)]
    folder = BUILD / (parameters.stem if parameters else "notebooks")
    point = running.values_of(given, "-p")
    tasks = [
        (path, folder / f"{path.stem}.ipynb", file.get(path.stem, {}) | point) for path in sources
    ]
    if in_place and (file or point):
        raise ValueError(
            "committed notebooks show the default parameters; expected --in-place without others"
        )
    prepare(tasks, folder)
    left = tasks if in_place else to_run(tasks)
    failed = set()
    for task, stopped in execute(left, jobs):
        source, output, _ = task
        if stopped:
            failed.add(output)
        elif in_place:
            pairs.commit(output)
            ledger.write(source.stem, pairs.read(output))
    if in_place:
        ledger.main()
    sum_up([output for _, output, _ in tasks], failed, folder)


@main.command()
@click.argument("names", nargs=-1)
@jobs
def paper(names, jobs) -> None:
    """Run notebooks at the sizes of the paper into build/paper, and keep what paper.yaml lists in notebooks/results.

    A run that is there is not made again unless the code of the notebook, its parameters or fgmp changed, so that the
    same command goes on after an interruption. NAMES are those of notebooks or of kept runs.
    """
    folder = BUILD / "paper"
    runs = {
        folder / f"{run.name}.ipynb": run
        for run in keeping.paper_runs(names)
        if can_run(run.source)
    }
    tasks = [(run.source, output, run.parameters) for output, run in runs.items()]
    prepare(tasks, folder)
    left = to_run(tasks)
    for _, output, _ in tasks:
        if runs[output].label and output not in [one for _, one, _ in left]:
            keeping.keep(runs[output], output)
    # A kept run has hours of work, which it shares out among all processors by itself.
    together = [[task] for task in left if runs[task[1]].label]
    together += [[task for task in left if not runs[task[1]].label]]
    failed = set()
    for tasks in filter(None, together):
        for (_, output, _), stopped in execute(tasks, jobs):
            if stopped:
                failed.add(output)
            elif runs[output].label:
                keeping.keep(runs[output], output)
    ledger.main()
    sum_up(list(runs), failed, folder)


def can_run(source: Path) -> bool:
    """Whether what a notebook needs is installed; it is said if not."""
    if "flower" not in source.stem or find_spec("ray"):
        return True
    click.echo(
        f"skipped {source.stem}  it needs Flower's engine; this installs it: make .venv/engine"
    )
    return False


def prepare(tasks: list[running.Task], folder: Path) -> None:
    """Check the names of all parameters, and copy what titles link to."""
    for source, _, values in tasks:
        running.check_names(source, values)
    shutil.copytree(pairs.NOTEBOOKS / "pictures", folder / "pictures", dirs_exist_ok=True)


def to_run(tasks: list[running.Task]) -> list[running.Task]:
    """The tasks that have no run of today's code; of each is said why it is run, or that it is not."""
    left = []
    for task in tasks:
        name, why = task[1].stem, running.reason_to_run(*task)
        click.echo(
            f"{'to run' if why else 'skipped':7} {name}  {why or 'nothing changed since its run'}"
        )
        left += [task] if why else []
    return left


def execute(tasks: list[running.Task], jobs: int) -> Iterator[tuple[running.Task, str]]:
    """Run tasks, the longest first; yield each with what stopped it, empty where it ran through."""
    tasks = running.longest_first(tasks)
    # With the time that is left, where somebody looks on: not in a log.
    outcomes = tqdm(running.run_all(tasks, jobs), total=len(tasks), unit="notebook", disable=None)
    for task, stopped in zip(tasks, outcomes, strict=True):
        tqdm.write(f"{'FAILED' if stopped else 'done':7} {task[1].stem}  {stopped}".rstrip())
        yield task, stopped


def sum_up(outputs: list[Path], failed: set[Path], folder: Path) -> NoReturn:
    """Print the claims of what ran through, and how many did; exit with 1 where one failed."""
    done = [output for output in outputs if output not in failed]
    found = [one for output in done for one in pairs.claims(pairs.read(output))]
    for one in found:
        click.echo(f"[{one['verdict']}] {one['id']}: {one['shown']}")
    click.echo(
        f"claims: {totals(found)}\n{len(done)} of {len(outputs)} notebooks ran through, see {folder}"
    )
    sys.exit(bool(failed))


@main.command()
@click.argument("name")
@click.option(
    "-g",
    "grid",
    multiple=True,
    metavar="NAME=VALUES",
    help="Values of a parameter: alpha=0.5,1,2.5.",
)
@given
@click.option("--out", type=PATH, help="Folder of the results; default: build/sweeps/NAME.")
@jobs
def sweep(name, grid, given, out, jobs) -> None:
    """Run a notebook at every point of a grid, and gather its claims in sweep.csv.

    A point that has its result is skipped, so that the same command goes on after an interruption.
    """
    source = pairs.find(name)
    fixed, points = running.values_of(given, "-p"), running.grid(grid)
    if twice := [name for name in fixed if name in points[0]]:
        raise ValueError(f"{', '.join(twice)} is given by -p and by -g; expected one of them")
    points, out = [fixed | point for point in points], out or BUILD / "sweeps" / source.stem
    done = running.sweep(source, points, out, jobs, click.echo)
    click.echo(f"{done} of {len(points)} points have their result, see {out / 'sweep.csv'}")
    sys.exit(done < len(points))


@main.command("plays")
@click.argument("names", nargs=-1)
@click.option("--number", type=click.IntRange(1), help="Only this play of each notebook.")
@jobs
def run_plays(names, number, jobs) -> None:
    """Run what the notebooks propose to change, and compare the lines that the folded answers quote."""
    sources = [pairs.find(name) for name in names] or sorted(pairs.NOTEBOOKS.glob("[0-9]*.py"))
    if not find_spec("ray"):
        sources = [source for source in sources if "flower" not in source.stem]
    found = [
        one for source in sources for one in plays.plays_of(source) if number in (None, one.number)
    ]
    for play in found:
        running.check_names(play.source, play.parameters)
    tasks = [
        (play.source, BUILD / "plays" / f"{play.name}.ipynb", play.parameters) for play in found
    ]
    failed = 0
    for play, (_, output, _), stopped in zip(
        found, tasks, running.run_all(tasks, jobs), strict=True
    ):
        problem = stopped or plays.difference(play, pairs.read(output))
        failed += bool(problem)
        click.echo(f"{'FAILED' if problem else 'done':7} {play.name}  {problem}".rstrip())
    click.echo(
        f"{len(found) - failed} of {len(found)} plays say what their runs print, see {BUILD / 'plays'}"
    )
    sys.exit(bool(failed))


@main.command("figure")
@click.argument("number", type=click.IntRange(1))
@given
def draw_figure(number, given) -> None:
    """Draw a figure of the paper, by its number, as PNG and PDF into build/figures."""
    parameters = running.values_of(given, "-p")
    files, stopped = paper_figures.draw(number, BUILD / "figures", parameters)
    for file in files:
        click.echo(file)
    if stopped:
        sys.exit(f"Error: {stopped}")


@main.command("ledger")
def write_ledger() -> None:
    """Write CLAIMS.md and the totals of README.md from the records in notebooks/results."""
    ledger.main()


@main.command("animate")
def write_animation() -> None:
    """Draw the animation of the votes, with which the first notebook begins, anew."""
    from .voting import animate

    animate(pairs.NOTEBOOKS / "pictures" / "00_start_here.gif")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(f"Error: {error}")
