"""The oracle: recompute what a run reports from the raw arrays and from its messages.

It uses NumPy alone, in float64, and shares no code with the package. Every function takes a run and
yields one sentence for each property that does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .problems import Problem
from .recorder import Recorder
from .runs import ROUNDS, Run, cohort_size, radius_of, sparsity


def objectives(run: Run) -> Iterator[str]:
    """The column `objective`, with the rounding errors that the precision allows."""
    for number, alpha in enumerate(_coefficients(run)):
        expected, rounding = objective(run.problem, alpha, np.finfo(run.case.precision).eps)
        found = run.result.history["objective"][number]
        if not abs(found - expected) <= rounding:
            expectation = f"{expected!r} +- {rounding:.1e}"
            yield f"objective: row {number} is {found!r}; the oracle has {expectation}"


def objective(problem: Problem, alpha: np.ndarray, eps: float = 0.0) -> tuple[float, float]:
    """Return f = sum_i p_i f_i at x = Psi alpha, and a bound of its rounding error in a precision.

    A prediction is a sum of n products over a sum of d products, each rounded. Its error moves the
    value of a row by at most the slope times the error and half its square. The value is then
    rounded itself, and so is the sum over rows.
    """
    psi = problem.psi
    alpha = alpha.astype(np.float64)
    total = 0.0
    rounding = 0.0
    for share, A, y in zip(problem.shares, problem.As, problem.ys, strict=True):
        A = A.astype(np.float64)
        y = y if problem.loss == "softmax" else y.astype(np.float64)
        z = A @ (psi @ alpha)
        error = 2 * (psi.size + 8) * eps * (np.abs(A) @ (np.abs(psi) @ np.abs(alpha)))
        if problem.loss in ("squared", "summed"):
            values = (z - y) ** 2 / 2
            slopes = np.abs(z - y) + 4 * eps * np.abs(y)
            terms = error
        elif problem.loss == "logistic":
            values = np.logaddexp(0.0, -y * z)
            slopes = 1.0
            terms = error
        else:
            top = z.max(axis=1)
            values = top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - z[np.arange(len(y)), y]
            slopes = 2.0
            terms = error.max(axis=1) + 8 * eps * (1 + np.abs(z).max(axis=1))
        rows = 1.0 if problem.loss == "summed" else 1 / len(y)
        total += share * rows * values.sum()
        rounding += share * rows * (slopes * terms + terms**2 + (len(y) + 8) * eps * values).sum()
    return float(total), float(rounding + 4 * np.finfo(float).eps * total)


def relative_errors(run: Run) -> Iterator[str]:
    truth = run.problem.truth.astype(np.float64)
    eps = np.finfo(run.case.precision).eps
    psi = np.abs(run.problem.psi)
    for number, alpha in enumerate(_coefficients(run)):
        expected = np.linalg.norm(run.problem.psi @ alpha - truth) / np.linalg.norm(truth)
        rounding = 16 * eps * (1 + np.linalg.norm(psi @ np.abs(alpha)) / np.linalg.norm(truth))
        found = run.result.history["relative_error"][number]
        if not abs(found - expected) <= rounding:
            yield f"relative error: row {number} is {found!r}; the oracle has {expected!r}"


def models(run: Run) -> Iterator[str]:
    """The recorded models and that of the result are Psi alpha; alpha is nonzero on the support."""
    result = run.result
    psi = run.problem.psi
    eps = np.finfo(run.case.precision).eps
    if not np.array_equal(result.support, np.flatnonzero(result.coefficients)):
        yield "support: not the indices of the nonzero coefficients"
    if not np.isfinite(result.x).all():
        yield "model: x is not finite"
    recorded = (
        run.recorder.models
        if run.opening_recorder is None
        else run.opening_recorder.models + run.recorder.models[-1:]
    )
    pairs = [(result.x, result.coefficients), *zip(recorded, _coefficients(run), strict=True)]
    for x, alpha in pairs:
        if np.any(
            np.abs(x - psi @ alpha) > 2 * (len(alpha) + 2) * eps * (np.abs(psi) @ np.abs(alpha))
        ):
            yield "model: x is not Psi alpha"


def supports(run: Run) -> Iterator[str]:
    """At most tau nonzeros, in each column or in all, in the models and in the messages."""
    case = run.case
    shape = _coefficients(run)[0].shape
    if not case.sparsity.startswith("dense"):
        for number, alpha in enumerate(_coefficients(run)):
            yield from _too_many(run, f"record {number}", np.flatnonzero(alpha), sparsity(case))
    for exchange in run.recorder.exchanges:
        for message in (exchange.down, *exchange.up.values()):
            yield from _malformed(message, math.prod(shape))
        if case.method == "FedGradMP":
            for message in (exchange.down, *exchange.up.values()):
                yield from _too_many(run, "a message", message["support"], sparsity(case))
        if case.method == "SharedSupportGradMP":
            sent = (
                exchange.down["0.support"]
                if "0.support" in exchange.down
                else exchange.down["support"]
            )
            yield from _too_many(run, "a broadcast", sent, 3 * sparsity(case))
        if case.method in ("FedHT", "FedIterHT"):
            for message in (
                exchange.down,
                *(exchange.up.values() if case.method == "FedIterHT" else ()),
            ):
                support = _nonzero_indices(message)
                yield from _too_many(run, "a message", support, sparsity(case))


def _too_many(run: Run, name: str, support: np.ndarray, tau: int) -> Iterator[str]:
    outputs = run.problem.n_outputs
    atoms, columns = np.divmod(support, outputs)
    if run.case.sparsity.endswith("spared"):
        atoms, columns = atoms[atoms != 0], columns[atoms != 0]
    counted = np.bincount(columns, minlength=outputs)
    kind = run.case.sparsity.removesuffix("-spared")
    largest = {"joint": counted.sum(), "atom": len(np.unique(atoms))}.get(kind, counted.max())
    if largest > tau:
        yield f"support: {name} has {largest} coefficients; tau allows {tau}"


def _nonzero_indices(message: dict) -> np.ndarray:
    """Return the indices of the nonzero entries of a model in a message."""
    if "dense" in message:
        return np.flatnonzero(message["dense"])
    return next(array for name, array in message.items() if name.startswith("at "))


def _malformed(message: dict, size: int) -> Iterator[str]:
    for name, array in message.items():
        kind = name.rpartition(".")[2]
        if kind == "support" or kind.startswith("at "):
            values = message[name.removesuffix(kind) + "values"]
            increasing = bool(np.all(np.diff(array) > 0)) and (not len(array) or array[0] >= 0)
            # Only a model has the size of the coefficients.
            inside = kind != "support" or not len(array) or array[-1] < size
            if not (increasing and inside) or len(values) != len(array):
                yield f"support: a message has the indices {array} for {len(values)} values"


def ball(run: Run) -> Iterator[str]:
    """||x|| <= R at every record and for every model that FedGradMP's clients send, up to rounding.

    The norm may come from the Gram matrix, as the root of d^2 terms whose sizes add to `energy`.
    """
    radius = radius_of(run.case, run.problem)
    psi = run.problem.psi
    if radius is None:
        return
    inside = _coefficients(run) if run.opening is None else [run.result.coefficients]
    if run.case.method == "FedGradMP":
        shape = run.result.coefficients.shape
        inside += [
            _dense(message, shape)
            for exchange in run.recorder.exchanges
            for message in (exchange.down, *exchange.up.values())
        ]
    for alpha in inside:
        norm = float(np.linalg.norm(psi @ alpha))
        energy = float(np.linalg.norm(np.abs(psi) @ np.abs(alpha)) / radius) ** 2
        if not norm <= radius * (
            1 + 4 * (len(alpha) + 4) * np.finfo(run.case.precision).eps * max(energy, 1)
        ):
            yield f"radius: a model has the norm {norm!r}; expected at most {radius!r}"


def _dense(message: dict, shape: tuple[int, ...]) -> np.ndarray:
    alpha = np.zeros(shape)
    alpha.reshape(-1)[message["support"]] = message["values"]
    return alpha


def messages(run: Run) -> Iterator[str]:
    """The columns of bytes: entries of the messages times 4 or 8, at most what the method needs."""
    recorders = (
        [(run.recorder, ROUNDS)]
        if run.opening is None
        else [(run.opening_recorder, ROUNDS), (run.recorder, 1)]
    )
    for column, direction in (("bytes_down", "down"), ("bytes_up", "up")):
        steps = [
            step
            for recorder, rounds in recorders
            for step in _by_round(run, recorder, direction, rounds)
        ]
        expected = [0, *np.cumsum(steps).tolist()]
        if run.result.history[column].tolist() != expected:
            found = run.result.history[column].tolist()
            yield f"bytes: {column} is {found}; the oracle has {expected}"
        allowed = most_bytes(run)[direction == "up"] * cohort_size(run.case)
        largest = max(steps if run.opening is None else steps[-1:])
        if largest > allowed:
            yield f"bytes: a round moves {largest} {direction}; the method needs at most {allowed}"


def _by_round(run: Run, recorder: Recorder, direction: str, rounds: int) -> list[int]:
    width = np.dtype(run.case.precision).itemsize
    steps = [0] * rounds
    for exchange in recorder.exchanges:
        sent = (
            list(exchange.up.values()) if direction == "up" else [exchange.down] * len(exchange.up)
        )
        arrays = [array for message in sent for array in message.values()]
        steps[exchange.round - 1] += sum(
            array.size * (width if array.dtype.kind == "f" else 4) for array in arrays
        )
    return steps


def most_bytes(run: Run) -> tuple[int, int]:
    """Return the most bytes down and up of one client in one round, by hand for each method."""
    case = run.case
    v = np.dtype(run.case.precision).itemsize
    C = run.problem.n_outputs
    everything = run.problem.psi.shape[1] * C
    tau = sparsity(case) * (1 if case.sparsity.startswith("joint") else C)
    spared = C if case.sparsity.endswith("spared") else 0

    def model(nonzeros: int) -> int:
        return min(everything, nonzeros) * (4 + v)

    whole = everything * v
    sparse = min(everything * v, model(tau + spared))
    if case.method == "FedGradMP":
        return model(tau + spared), model(tau + spared)
    if case.method == "SharedSupportGradMP":
        one = 1 if case.sparsity.startswith("joint") else C
        entries = {"largest": 4 * tau, "one": one, "all": everything}.get(case.sent, 0)
        # A sketch is never longer than the gradient.
        sent = model(entries + spared) if entries else whole
        down, up = _on_support(case.solver, min(3 * tau + spared, everything), v)
        return 4 + model(tau + spared) + down, sent + up
    if case.method == "polish":
        return _on_support(case.solver, min(tau + spared, everything), v)
    return {
        "FedAvg": (whole, whole),
        "FedHT": (sparse, whole),
        "FedIterHT": (sparse, sparse),
        "FedMid": (whole, whole),
        "FedDualAvg": (whole + 4, whole),
        "FastFedDualAvg": (3 * whole + 4, 2 * whole),
    }[case.method]


def _on_support(solver: str, k: int, v: int) -> tuple[int, int]:
    model = k * (4 + v)
    gram = v * k * (k + 1) // 2
    return {
        "normal-equations": (model + 4, gram + v * k),
        # Three steps and a comparison, which also asks how many rows the last step moves.
        "newton-steps": (4 * (model + 4) + v * k, 3 * (2 * v + v * k + gram) + 3 * v),
        "local-sgd": (model, v * k),
        "local-newton": (model, v * k),
    }[solver]


def types(run: Run) -> Iterator[str]:
    """All floats have the precision of the run, and integers have 4 bytes."""
    expected = np.dtype(run.case.precision)
    found = {("x", run.result.x.dtype), ("coefficients", run.result.coefficients.dtype)}
    for recorder in run.recorders:
        found |= {("a prepared client", dtype) for dtype in recorder.prepared}
        messages = [
            message
            for exchange in recorder.exchanges
            for message in (exchange.down, *exchange.up.values())
        ]
        found |= {
            (f"a message's {name}", array.dtype)
            for message in messages
            for name, array in message.items()
        }
    wrong = {(name, dtype) for name, dtype in found if dtype not in (expected, np.int32)}
    yield from (f"dtype: {name} is {dtype} in a {expected} run" for name, dtype in sorted(wrong))


def cohorts(run: Run) -> Iterator[str]:
    """Every exchange of a round runs the same cohort, with the weights p_i over it."""
    size = cohort_size(run.case)
    shares = run.problem.shares
    for recorder in run.recorders:
        first = {}
        for exchange in recorder.exchanges:
            client_ids = list(exchange.up)
            if (
                client_ids != first.setdefault(exchange.round, client_ids)
                or len(client_ids) != size
            ):
                yield f"cohort: an exchange of round {exchange.round} ran the clients {client_ids}"
            total = math.fsum(shares[client_ids])
            # Without a client with a weight the round ends.
            expected = shares[client_ids] / total if total > 0 else []
            if len(exchange.weights) != len(expected) or not np.allclose(
                exchange.weights, expected, rtol=1e-14, atol=0
            ):
                found = f"{exchange.weights} for the clients {client_ids}"
                yield f"weights: {found}; expected {expected}"
    if set(run.result.history["clients"][1:]) != {size}:
        yield f"cohort: the column clients is {run.result.history['clients']}; expected {size}"


def untouched(run: Run) -> Iterator[str]:
    """No message, and no array of the user, was written into."""
    yield from (f"input: {sentence}" for recorder in run.recorders for sentence in recorder.changed)


def _coefficients(run: Run) -> list[np.ndarray]:
    if run.opening_recorder is None:
        return run.recorder.coefficients[: len(run.result.history["round"])]
    rows = len(run.opening.history["round"])
    return [*run.opening_recorder.coefficients[:rows], run.result.coefficients]


def best(run: Run) -> Iterator[str]:
    """The best model is the first with the lowest objective of the history, the start included."""
    column = run.result.history["objective"]
    found = run.result.best
    row = int(np.nanargmin(column))
    if (found.value, found.round) != (column[row], run.result.history["round"][row]):
        expectation = f"{column[row]!r} in row {row}"
        yield f"best: {found.value!r} in round {found.round}; the history has {expectation}"
    if not np.array_equal(found.coefficients, _coefficients(run)[row]):
        yield f"best: the model of round {found.round} is not that of the record"


CHECKS = (
    objectives,
    relative_errors,
    models,
    best,
    supports,
    ball,
    messages,
    types,
    cohorts,
    untouched,
)


def violations(run: Run) -> list[str]:
    """Return a sentence for each property that does not hold."""
    return list(dict.fromkeys(sentence for check in CHECKS for sentence in check(run)))
