"""Run the benchmarks: prints the table, and writes results.json, the table of README.md and the figure.

    run.py                     all of them (`make bench`, at most 10 minutes)
    run.py steps iteration     some; the others keep the numbers that they have
    run.py --full              more sizes and repetitions (`make bench-full`)
    run.py --quick             a look whether everything runs; the numbers mean little
    run.py --resume            after an interruption: what is finished is not run again

Each finished benchmark is kept in build/bench/SCALE at once.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

# JAX makes its own threads; one, as for everybody.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import bench_fedavg
import bench_fedgradmp
import bench_fits
import bench_memory
import bench_one_client
import bench_parts
import bench_steps
import machine
from harness import Finding, Records, Row, Scale, between, run_all, table, write_atomically
from peers import flower_python, peer

import fgmp

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "bench"

BENCHMARKS = {
    "iteration": bench_fedgradmp.iteration,
    "whole": bench_fedgradmp.whole_runs,
    "parts": bench_parts.parts,
    "flat": bench_fedgradmp.flat,
    "recovery": bench_one_client.recovery,
    "client-work": bench_fedavg.client_work,
    "steps": bench_steps.steps,
    "damped": bench_steps.damped,
    "experiment": bench_steps.experiment,
    "precision": bench_fedgradmp.precision,
    "memory": bench_memory.beyond_data,
    "fits": bench_fits.fits,
}


def about() -> dict[str, Any]:
    """Date, machine, versions, peers."""
    names = ("scikit-learn", "abess", "celer", "skglm", "jax", "fedjax")
    flower = "Flower in an environment of its own" if flower_python() else "Flower is missing"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "load before": round(machine.load(), 1),
        **machine.describe(),
        "peers": [*(str(peer(name)) for name in names), flower],
    }


def headline(facts: dict[str, Any], scale: Scale) -> str:
    """One paragraph that says when and on what."""
    words = f"{facts['date']}, {facts['processor']}, {facts['cores']} cores, Python {facts['python']}, NumPy "
    words += f"{facts['numpy']}, SciPy {facts['scipy']}, {facts['BLAS']} with {facts['BLAS threads']} thread. "
    words += "Peers: " + ", ".join(facts["peers"]) + "."
    if facts["load before"] > 0.5 * facts["cores"]:
        words += f" **The machine was busy** (load {facts['load before']:g} before the run), so take it as a try."
    if scale.name == "quick":
        words += " **A quick look**, with small sizes and few repetitions: the numbers mean little."
    return words


def earlier(folder: Path, scale: Scale) -> tuple[dict[str, Any], list[Row]]:
    """What the last results of the same scale say about their run, and their rows; nothing if none."""
    path = folder / "results.json"
    if not path.exists():
        return {}, []
    results = json.loads(path.read_text(encoding="utf-8"))
    if results["scale"] != scale.name:
        return {}, []
    names = {field.name for field in fields(Row)}
    rows = [{name: row[name] for name in names} for row in results["rows"]]
    return results["about"], [
        Row(**row | {"bound": row["bound"] and tuple(row["bound"])}) for row in rows
    ]


def collected(records: Records, before: list[Row]) -> tuple[list[Row], list[str], list[str]]:
    """All rows; of a benchmark without a record those of before; and who has these, and who none."""
    rows, kept, missing = [], [], []
    for name in BENCHMARKS:
        record = records.read(name)
        old = [row for row in before if row.benchmark == name]
        if record is not None:
            finding: Finding = record[0]
            rows += [replace(row, benchmark=name) for row in finding.rows]
        elif old:
            rows += old
            kept.append(name)
        else:
            missing.append(name)
    return rows, kept, missing


def publish(records: Records, facts: dict[str, Any], scale: Scale, folder: Path = HERE) -> str:
    """Write results.json, README.md and the figure from the records; return the table."""
    from pictures import draw

    before, old_rows = earlier(folder, scale)
    rows, kept, missing = collected(records, old_rows)
    lines = table(rows)
    if kept:  # then the headline is that of the run that they are of
        now = f"{facts['date']}, at a load of {facts['load before']:g}"
        later = {name: now for name in BENCHMARKS if name not in (*kept, *missing)}
        facts = before | {"later": before.get("later", {}) | later}
        said = "; ".join(f"{name} on {when}" for name, when in facts["later"].items())
        lines += f"\n\nMeasured in a later run: {said}."
    if missing:
        lines += f"\n\nNot run: {', '.join(missing)}."
    results = {
        "about": facts,
        "scale": scale.name,
        "rows": [vars(row) | {"verdict": row.verdict} for row in rows],
    }
    write_atomically(folder / "results.json", json.dumps(results, indent=1) + "\n")
    readme = folder / "README.md"
    write_atomically(
        readme, between(readme.read_text(encoding="utf-8"), f"{headline(facts, scale)}\n\n{lines}")
    )
    draw(rows, folder / "figures" / "targets.png")
    bench_parts.draw(rows, folder / "figures" / "round.png")
    return lines


def main() -> int:
    """Do what the command line says; 1 after an interruption."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"benchmarks: {', '.join(BENCHMARKS)}; default: all",
    )
    parser.add_argument("--full", action="store_const", dest="scale", const="full", default="bench")
    parser.add_argument("--quick", action="store_const", dest="scale", const="quick")
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    machine.one_thread()
    scale, facts = Scale(arguments.scale), about()
    records = Records(BUILD / scale.name)
    if not arguments.names and not arguments.resume:
        records.forget()
    wanted = {name: BENCHMARKS[name] for name in arguments.names or BENCHMARKS}
    print(headline(facts, scale), flush=True)
    with fgmp.backend("compiled"):  # in short runs, too
        finished = run_all(
            wanted,
            scale,
            records,
            resume=arguments.resume,
            tell=lambda words: print(words, flush=True),
        )
    print()
    print(publish(records, facts, scale))
    return 0 if finished else 1


if __name__ == "__main__":
    sys.exit(main())
