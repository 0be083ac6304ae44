"""Target 4: thresholded steps on images, and the paper's digits experiment."""

import time
from collections.abc import Callable
from functools import partial

import floors
import numpy as np
from harness import AT_MOST, Finding, Row, Scale, interleaved
from images import BATCH, CLASSES, COHORT, STEPS, TAU, clients_work, contestant, images_by_writer
from joblib import Parallel, delayed
from machine import cores

import fgmp
from fgmp.models import dense

METHODS = ("FedIterHT", "FedMid", "FedDualAvg", "FedGradMP")


def softmax_floor(name: str, federation: fgmp.Federation, w: np.ndarray) -> tuple[Callable[[], None], str]:
    """The unavoidable calls of a round of client work, from the model w; and which variant was the cheaper."""
    clients = federation.clients[:COHORT]
    parts = [
        floors.Softmax(np.ascontiguousarray(c.features), np.eye(CLASSES, dtype=np.float32)[c.targets]) for c in clients
    ]
    batches = np.random.default_rng(0).random((STEPS, clients[0].n_samples)).argpartition(BATCH, axis=1)[:, :BATCH]
    steps: dict[str, Callable[[floors.Softmax], None]] = {}
    if name == "FedIterHT":
        steps[""] = lambda part: [part.hard(rows, w, TAU) for rows in batches]
    elif name == "FedGradMP":
        # Its candidates are those of the first minibatch of the first client.
        gradient = parts[0].gradient(batches[0], w)
        candidates = np.argpartition(-np.abs(gradient), 2 * TAU, axis=1)[:, : 2 * TAU]
        used = np.union1d(candidates, np.flatnonzero(w.any(axis=1)))
        merged = np.take_along_axis(gradient, np.argsort(-np.abs(gradient), axis=1)[:, : 3 * TAU], axis=1)
        triples = [[batches[k], batches[k], batches[k + 1]] for k in range(0, STEPS, 2)]
        for variant, dense in ((f"{len(used)} pixels used, gathered", False), ("all pixels", True)):
            steps[variant] = partial(_pursuits, triples=triples, w=w, used=used, dense=dense, merged=merged)
    else:
        steps[""] = lambda part: [part.soft(rows, w) for rows in batches]
    runs = {variant: partial(_each, step, parts) for variant, step in steps.items()}
    if len(runs) == 1:
        return runs[""], ""
    seconds = interleaved(runs, 3)
    cheaper = min(runs, key=lambda variant: np.median(seconds[variant]))
    return runs[cheaper], f"floor with {cheaper}"


def _each(step: Callable[[floors.Softmax], None], parts: list[floors.Softmax]) -> None:
    for part in parts:
        step(part)


def _pursuits(
    part: floors.Softmax,
    triples: list[list[np.ndarray]],
    w: np.ndarray,
    used: np.ndarray,
    dense: bool,
    merged: np.ndarray,
) -> None:
    for rows in triples:
        part.pursuit(rows, w, TAU, used, dense, merged)


def steps(scale: Scale) -> Finding:
    """Client work of four methods against their floors, 100 x 784 x 10 in float32."""
    federation, _, data = images_by_writer()
    rows = []
    for name in METHODS:
        method = contestant(name)
        mine, message = clients_work(method, federation)
        w = np.array(dense(message[0] if isinstance(message, tuple) else message), np.float32)
        floor, remark = softmax_floor(name, federation, w)
        seconds = interleaved({"fgmp": mine, "floor": floor}, scale.pick(2, 25, 80))
        micro = {who: 1e6 * float(np.median(values)) / (COHORT * STEPS) for who, values in seconds.items()}
        words = [f"{micro['fgmp']:.0f} us over {micro['floor']:.0f} us per gradient step", remark, data]
        note = "; ".join(filter(None, words))
        ratios = (seconds["fgmp"] / seconds["floor"]).tolist()
        rows.append(Row(4, f"{name}, client work over its floor", ratios, (AT_MOST, 1.5), note=note))
    return Finding(rows)


def experiment(scale: Scale) -> Finding:
    """The paper's digits: five methods, 300 writers, 1000 rounds of 10, recorded every 25th, two processes."""
    rounds = scale.pick(20, 1000, 1000)
    _, _, data = images_by_writer()
    names = ("FedGradMP", "FedIterHT", "FedAvg", "FedMid", "FedDualAvg")
    processes = min(2, cores())
    with Parallel(n_jobs=processes) as pool:
        pool(delayed(images_by_writer)() for _ in range(processes))  # not the reading of files, nor the start
        began = time.perf_counter()
        finals = pool(delayed(_experiment)(name, rounds) for name in names)
        seconds = time.perf_counter() - began
    accuracies = ", ".join(f"{name} {final:.2f}" for name, final in zip(names, finals, strict=True))
    note = f"{processes} processes; {data}; accuracy on unseen writers: {accuracies}"
    if rounds < 1000:
        return Finding([Row(4, f"digits experiment, {rounds} rounds only", [seconds], None, "s", note)])
    return Finding([Row(4, "digits experiment, five methods, 1000 rounds", [seconds], (AT_MOST, 120), "s", note)])


def _experiment(name: str, rounds: int) -> float:
    train, test, _ = images_by_writer()
    metrics = {"training": fgmp.accuracy_on(train), "unseen": fgmp.accuracy_on(test)}
    options = dict(cohort_size=COHORT, rng=0, history=fgmp.History(25, metrics))
    return float(fgmp.simulate(contestant(name), train, rounds, **options).history["unseen"][-1])
