"""Time things against each other, judge them, and keep what is finished."""

import gc
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

AT_MOST, AT_LEAST = "at most", "at least"


@dataclass(frozen=True)
class Scale:
    """How much to measure: `make bench`, `--full` for more, `--quick` for a look whether everything runs."""

    name: str = "bench"

    def pick(self, quick: Any, bench: Any, full: Any) -> Any:
        """The value for this scale."""
        return {"quick": quick, "bench": bench, "full": full}[self.name]


@dataclass(frozen=True)
class Row:
    """One line of the table: a number with its spread, and the bound it should keep.

    Parameters
    ----------
    what : str
        What was measured.
    values : list of float
        One per repetition; empty where nothing could be measured, and then `note` says why.
    bound : tuple of (str, float), or None
        ("at most" or "at least", limit); None where a number is only reported.
    unit : str
        Follows the number: "x" is a ratio.
    note : str
        What the reader should know.
    benchmark : str
        The name of the benchmark that measured it.
    """

    what: str
    values: list[float]
    bound: tuple[str, float] | None = None
    unit: str = "x"
    note: str = ""
    benchmark: str = ""

    @property
    def median(self) -> float:
        """The number that is judged."""
        return float(np.median(self.values))

    @property
    def verdict(self) -> str:
        """Whether the median keeps the bound."""
        if not self.values:
            return "not measured" if self.bound is None else "missed: not measured"
        if self.bound is None:
            return "reported"
        sense, limit = self.bound
        met = self.median <= limit if sense == AT_MOST else self.median >= limit
        return "met" if met else "missed"


@dataclass(frozen=True)
class Finding:
    """What one benchmark returns."""

    rows: list[Row]


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    repetitions: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, np.ndarray]:
    """Seconds of each run, in each of `repetitions` rounds in which all of them take turns.

    Whatever else the machine does in a moment then touches all of them alike, and the ratios of a round are fair. Every
    other round goes backwards, so that nobody always finds the caches of the same neighbour. One untimed call each
    comes first; the garbage collector waits. `time.process_time` as the clock leaves out who else had the processor.
    """
    for run in runs.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for number in range(repetitions):
            for name in list(runs) if number % 2 == 0 else reversed(list(runs)):
                began = clock()
                runs[name]()
                seconds[name].append(clock() - began)
    finally:
        if collecting:
            gc.enable()
    return {name: np.array(values) for name, values in seconds.items()}


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + f".{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


class Records:
    """A folder with one JSON file for each finished benchmark, so that an interruption keeps what is finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def forget(self) -> None:
        """Start anew."""
        for path in self.folder.glob("*.json"):
            path.unlink()

    def keep(self, name: str, finding: Finding, about: dict[str, Any]) -> None:
        """Write one record."""
        record = {"benchmark": name, "about": about, **asdict(finding)}
        write_atomically(self.folder / f"{name}.json", json.dumps(record, indent=1))

    def read(self, name: str) -> tuple[Finding, dict[str, Any]] | None:
        """One record, or None where it is not there."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            return None
        record = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            Row(**row | {"bound": row["bound"] and tuple(row["bound"])}) for row in record["rows"]
        ]
        return Finding(rows), record["about"]


def run_all(
    benchmarks: Mapping[str, Callable[[Scale], Finding]],
    scale: Scale,
    records: Records,
    *,
    resume: bool = False,
    tell: Callable[[str], None] = print,
) -> bool:
    """Run benchmarks one after another, each kept as soon as it is finished; False after an interruption.

    A benchmark that fails leaves a row that says how, and the others go on. With `resume`, those that have a record of
    the same scale are not run again.
    """
    for name, benchmark in benchmarks.items():
        known = records.read(name)
        if resume and known and known[1].get("scale") == scale.name and not known[1].get("failed"):
            tell(f"kept    {name}")
            continue
        began, failed = time.monotonic(), ""
        try:
            finding = benchmark(scale)
        except KeyboardInterrupt:
            tell(
                f"stopped in {name}; what was finished before is kept, and --resume goes on from there"
            )
            return False
        except Exception as error:  # one benchmark that breaks must not cost the others
            failed = f"{type(error).__name__}: {error}"
            finding = Finding([Row(name, [], note=f"failed with {failed}")])
        seconds = time.monotonic() - began
        records.keep(
            name, finding, {"scale": scale.name, "seconds": round(seconds, 1), "failed": failed}
        )
        tell(f"{'FAILED' if failed else 'done':7} {name}  {seconds:.1f} s  {failed}".rstrip())
    return True


def number(value: float) -> str:
    """Three significant digits."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def table(rows: Iterable[Row]) -> str:
    """The Markdown table."""
    lines = [
        "| benchmark | what | bound | measured: median (quartiles) | verdict |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        bound = f"{row.bound[0]} {row.bound[1]:g} {row.unit}".strip() if row.bound else ""
        measured = row.note
        if row.values:
            low, high = np.percentile(row.values, [25, 75])
            spread = f" ({number(low)} to {number(high)})" if len(row.values) > 1 else ""
            measured = (
                f"{number(row.median)} {row.unit}".strip()
                + spread
                + (f"; {row.note}" if row.note else "")
            )
        cells = (row.benchmark, row.what, bound, measured, row.verdict)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def between(
    text: str, new: str, start: str = "<!-- table -->", end: str = "<!-- end of table -->"
) -> str:
    """`text` with what stands between two markers replaced."""
    head, found_start, rest = text.partition(start)
    _, found_end, tail = rest.partition(end)
    if not (found_start and found_end):
        raise ValueError(f"the text has no {start} .. {end}")
    return f"{head}{start}\n{new}\n{end}{tail}"
