"""Target 4: what each fast loop earns in whole rounds, over the loop that its method prints."""

import time

import numpy as np
from harness import AT_LEAST, Finding, Row, Scale, interleaved
from images import COHORT, contestant, images_by_writer

import fgmp
from fgmp.methods.kernels import kernel_for


def kernels(scale: Scale) -> Finding:
    """Rounds with and without kernels, in turns; a kernel has to earn 1.15 or go."""
    linear = fgmp.make_sparse_regression(20, 100, 1000, 10, rng=0)
    small = fgmp.make_sparse_regression(20, 30, 300, 5, rng=0)
    digits, _, data = images_by_writer()
    pursuit = {"local_iterations": 3}
    steps = {"learning_rate": 1e-3, "local_iterations": 10, "batch_size": 40}
    features, labels = [c.features for c in linear.clients], [np.sign(c.targets) for c in linear.clients]
    logistic = fgmp.Federation.from_arrays(features, labels, "logistic")
    contests = [
        ("FedGradMP, least squares, n=1000", fgmp.FedGradMP(10, batch_size=40, **pursuit), linear, None),
        ("FedGradMP, least squares, n=300", fgmp.FedGradMP(5, batch_size=15, **pursuit), small, None),
        ("FedGradMP, least squares, n=300, K=10", fgmp.FedGradMP(5, 10, 15), small, None),
        ("FedGradMP, SGD on digits", contestant("FedGradMP"), digits, COHORT),
        ("FedAvg on digits", contestant("FedAvg"), digits, COHORT),
        ("FedHT, n=1000", fgmp.FedHT(sparsity=10, **steps), linear, None),
        ("FedIterHT, n=1000", fgmp.FedIterHT(sparsity=10, **steps), linear, None),
        ("FedMid, logistic, n=1000", fgmp.FedMid(l1_weight=0.1, **steps), logistic, None),
        ("FedDualAvg, n=1000", fgmp.FedDualAvg(l1_weight=0.1, **steps), linear, None),
    ]
    rows = []
    for what, method, federation, cohort in contests:
        kernel = kernel_for(method.exchanges()[0], method.prepare(federation.clients[0]))
        if kernel is None:  # compiled only, and Numba is not here
            rows.append(Row(4, f"{what}: the printed loop over the kernel, two rounds", [], note="Numba is missing"))
            continue
        options = {"cohort_size": cohort, "rng": 0, "record_every": 10, "objective_on": 1}

        def run(readable: bool, method=method, federation=federation, options=options) -> None:
            fgmp.simulate(method, federation, 2, readable=readable, **options)

        seconds = interleaved(
            {"kernel": lambda: run(False), "printed": lambda: run(True)}, scale.pick(2, 15, 40), time.process_time
        )
        ratios = (np.array(seconds["printed"]) / seconds["kernel"]).tolist()
        note = f"kernel {kernel.name!r}" + (f"; {data}" if federation is digits else "")
        rows.append(
            Row(4, f"{what}: the printed loop over the kernel, two rounds", ratios, (AT_LEAST, 1.15), note=note)
        )
    return Finding(rows)
