"""Target 4: FedGradMP with inexact solvers, and the paper's digits experiment."""

import time
from collections.abc import Callable

import numpy as np
from harness import AT_LEAST, AT_MOST, Finding, Row, Scale, interleaved
from images import BATCH, COHORT, STEPS, TAU, answers, clients_work, contestant, images_by_writer
from joblib import Parallel, delayed
from machine import cores, loop_threads
from textbook import draw_rows, logistic_pursuit, softmax_pursuit

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

    what = "FedGradMP with SGD on images: textbook over fgmp"
    return Finding(_rows(what, mine, textbook, (AT_LEAST, 3), data, scale.pick(2, 25, 80)))


def damped(scale: Scale) -> Finding:
    """Client work of FedGradMP with one damped gradient step, the default for labels, 12 sites of 50 rows."""
    rows = []
    for n, tau in ((30, 4), (1000, 10)):
        federation = _labels(n, tau)
        method = fgmp.FedGradMP(tau, local_iterations=3)
        state = fgmp.simulate(method, federation, 5, rng=0).state
        parts = [(client.features, client.targets) for client in federation.clients]
        x = dense(state)

        def textbook(parts=parts, x=x, tau=tau) -> None:
            for A, y in parts:
                logistic_pursuit(A, y, x, tau, 3)

        what = f"FedGradMP with damped steps on the logistic loss, n={n:,}: textbook over fgmp"
        mine = answers(method, federation, state)
        data = "12 clients of 50 rows"
        repetitions = scale.pick(3, 100, 300)
        rows += _rows(what, mine, textbook, (AT_LEAST, 5), data, repetitions)
    return Finding(rows)


def _labels(n: int, tau: int) -> fgmp.Federation:
    """Twelve clients of 50 rows, with labels that tau of n features decide nearly."""
    rng = np.random.default_rng(0)
    truth = np.zeros(n)
    truth[:tau] = rng.standard_normal(tau)
    features = rng.standard_normal((12, 50, n))
    labels = np.sign(features @ truth + 0.5 * rng.standard_normal((12, 50)))
    return fgmp.Federation.from_arrays(features, labels, "logistic")


def _rows(
    what: str,
    mine: Callable[[], object],
    textbook: Callable[[], object],
    bound: tuple[str, float],
    data: str,
    repetitions: int,
) -> list[Row]:
    """The textbook against two threads, which has the bound; and against one, in processor time."""

    def on(threads: int) -> Callable[[], None]:
        def run() -> None:
            with loop_threads(threads):
                mine()

        return run

    threads = min(2, cores())
    seconds = interleaved({"textbook": textbook, "fgmp": on(threads)}, repetitions)
    milli = {name: 1e3 * float(np.median(values)) for name, values in seconds.items()}
    note = f"{threads} threads; {milli['fgmp']:.3g} ms against {milli['textbook']:.3g} ms; {data}"
    ratios = (seconds["textbook"] / seconds["fgmp"]).tolist()

    alone = interleaved({"textbook": textbook, "fgmp": on(1)}, repetitions, time.process_time)
    return [
        Row(what, ratios, bound, note=note),
        Row(
            f"{what}, processor time of one thread",
            (alone["textbook"] / alone["fgmp"]).tolist(),
            note=f"{1e3 * np.median(alone['fgmp']):.3g} ms",
        ),
    ]


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
            [Row(f"digits experiment, {rounds} rounds only", [seconds], None, "s", note)]
        )
    return Finding(
        [
            Row(
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
