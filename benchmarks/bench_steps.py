"""Target 4: FedGradMP on images, and the paper's digits experiment."""

import time

import numpy as np
from harness import AT_LEAST, AT_MOST, Finding, Row, Scale, interleaved
from images import BATCH, COHORT, STEPS, TAU, clients_work, contestant, images_by_writer
from joblib import Parallel, delayed
from machine import cores
from textbook import draw_rows, softmax_pursuit

import fgmp
from fgmp.sparse_model import dense


def steps(scale: Scale) -> Finding:
    """Client work of FedGradMP with SGD against the plain loop, 100 x 784 x 10 in float32."""
    federation, _, data = images_by_writer()
    mine, message = clients_work(contestant("FedGradMP"), federation)
    w, rng = np.array(dense(message), np.float32), np.random.default_rng(0)
    parts = [
        (np.ascontiguousarray(client.features), client.targets)
        for client in federation.clients[:COHORT]
    ]

    def textbook() -> None:
        for X, labels in parts:
            rows = draw_rows(len(labels), BATCH, 3 * STEPS // 2, rng)
            softmax_pursuit(
                X, labels, w, TAU, 0.2, [rows[k : k + 3] for k in range(0, len(rows), 3)]
            )

    seconds = interleaved({"fgmp": mine, "textbook": textbook}, scale.pick(2, 25, 80))
    milli = {name: 1e3 * float(np.median(values)) for name, values in seconds.items()}
    note = f"{milli['fgmp']:.3g} ms against {milli['textbook']:.3g} ms; {data}"
    ratios = (seconds["textbook"] / seconds["fgmp"]).tolist()
    return Finding(
        [
            Row(
                4,
                "FedGradMP with SGD on images: textbook over fgmp",
                ratios,
                (AT_LEAST, 3),
                note=note,
            )
        ]
    )


def experiment(scale: Scale) -> Finding:
    """The paper's digits: five methods, 300 writers, 1000 rounds of 10, recorded every 25th, two processes."""
    rounds = scale.pick(20, 1000, 1000)
    _, _, data = images_by_writer()
    names = ("FedGradMP", "FedIterHT", "FedAvg", "FedMid", "FedDualAvg")
    processes = min(2, cores())
    with Parallel(n_jobs=processes) as pool:
        pool(
            delayed(images_by_writer)() for _ in range(processes)
        )  # not the reading of files, nor the start
        began = time.perf_counter()
        finals = pool(delayed(_experiment)(name, rounds) for name in names)
        seconds = time.perf_counter() - began
    accuracies = ", ".join(f"{name} {final:.2f}" for name, final in zip(names, finals, strict=True))
    note = f"{processes} processes; {data}; accuracy on unseen writers: {accuracies}"
    if rounds < 1000:
        return Finding(
            [Row(4, f"digits experiment, {rounds} rounds only", [seconds], None, "s", note)]
        )
    return Finding(
        [
            Row(
                4,
                "digits experiment, five methods, 1000 rounds",
                [seconds],
                (AT_MOST, 120),
                "s",
                note,
            )
        ]
    )


def _experiment(name: str, rounds: int) -> float:
    train, test, _ = images_by_writer()
    metrics = {"training": fgmp.accuracy_on(train), "unseen": fgmp.accuracy_on(test)}
    options = dict(cohort_size=COHORT, rng=0, history=fgmp.History(25, metrics))
    return float(fgmp.simulate(contestant(name), train, rounds, **options).history["unseen"][-1])
