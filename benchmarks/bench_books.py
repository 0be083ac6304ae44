"""Target 5: what the books of a run cost, and what `import fgmp` costs."""

import os
import subprocess
import sys
import time
from pathlib import Path

from harness import AT_MOST, Finding, Row, Scale
from images import COHORT, contestant, images_by_writer

import fgmp

ROOT = Path(__file__).resolve().parents[1]


def share(method: fgmp.FedAvg | fgmp.FedGradMP, federation: fgmp.Federation, rounds: int, **options: int) -> float:
    """The part of a run, in percent, that is not the method's own work.

    `history["seconds"]` is the work of clients and server alone; whatever else the call takes is books: objective,
    history, bytes, cohorts.
    """
    began = time.perf_counter()
    result = fgmp.simulate(method, federation, rounds, rng=0, **options)
    wall = time.perf_counter() - began
    return 100 * (1 - float(result.history["seconds"][-1]) / wall)


def books(scale: Scale) -> Finding:
    """Books at the sizes of the paper's linear and digits experiments."""
    repetitions = scale.pick(2, 9, 25)
    linear = fgmp.make_sparse_regression(50, 100, 1000, 10, rng=0)
    method = fgmp.FedGradMP(sparsity=10, local_iterations=3, batch_size=40)
    found = {
        "FedGradMP, n=1000, N=50, every round recorded": [
            share(method, linear, scale.pick(3, 30, 30)) for _ in range(repetitions)
        ]
    }
    federation, _, _ = images_by_writer()
    for name in ("FedGradMP", "FedAvg"):
        options = dict(cohort_size=COHORT, record_every=25)
        rounds = scale.pick(25, 100, 400)
        shares = [share(contestant(name), federation, rounds, **options) for _ in range(scale.pick(1, 3, 9))]
        found[f"{name} on digits, every 25th round recorded"] = shares
    return Finding([Row(5, f"books: {what}", values, (AT_MOST, 5), "%") for what, values in found.items()])


def importing(scale: Scale) -> Finding:
    """A new interpreter that imports the library."""
    program = (
        "import sys, time; began = time.perf_counter(); import fgmp; seconds = time.perf_counter() - began; "
        "print(seconds, *{name.partition('.')[0] for name in sys.modules} & {'matplotlib', 'sklearn'})"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    seconds, early = [], []
    for _ in range(1 + scale.pick(1, 9, 25)):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        first, *early = done.stdout.split()
        seconds.append(float(first))
    note = "with NumPy and SciPy, in a new interpreter"
    names = ", ".join(sorted(early))
    return Finding(
        [
            Row(5, "import fgmp", seconds[1:], (AT_MOST, 0.5), "s", note),  # the first one warms the file cache
            Row(5, "of matplotlib and scikit-learn, imported with it", [float(len(early))], (AT_MOST, 0), "", names),
        ]
    )
