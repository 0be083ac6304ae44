"""From a case to a run whose messages, models and weights are recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cases import LOSSES
from scipy import sparse

import fgmp
from fgmp import Overall
from fgmp.dictionaries import StandardBasis
from fgmp.recording import Result
from fgmp.shared_support.newton import LocalSteps

from .options import FIRST_ORDER, Case
from .problems import SIZES, Problem, problem_of
from .recorder import Recorder

# With this seed no cohort of one is a client without weight, and not all are one without data.
SEED = 8
ROUNDS = 3
LOCAL_ITERATIONS = 2


@dataclass
class Run:
    """A run of a case: its result and its recorder; `opening` is the run that was polished."""

    case: Case
    problem: Problem
    result: Result
    recorder: Recorder
    opening: Result | None = None
    opening_recorder: Recorder | None = None

    @property
    def recorders(self) -> list[Recorder]:
        """All recorders, in the order of the runs."""
        if self.opening_recorder is None:
            return [self.recorder]
        return [self.opening_recorder, self.recorder]


def cohort_size(case: Case) -> int:
    n_clients = len(SIZES[case.federation])
    return {"all": n_clients, "some": (n_clients + 1) // 2, "one": 1}[case.cohort]


def batch_size(case: Case, problem: Problem) -> int | None:
    """Return the size of a minibatch; "smallest" is a full batch for the smallest client."""
    smallest = min(len(A) for A in problem.As)
    return {"full": None, "some": max(1, smallest // 2), "smallest": smallest}[case.batch]


def sparsity(case: Case) -> int:
    return 4 if case.sparsity.startswith("joint") else 2


def federation_of(
    problem: Problem, storage: str, order: list[int] | None = None
) -> fgmp.Federation:
    """Return the federation; with `order` in another order and with weights four times as large."""
    As = problem.As if storage == "dense" else [sparse.csr_array(A) for A in problem.As]
    federation = fgmp.Federation.from_arrays(
        As, problem.ys, LOSSES[problem.loss](), problem.weights, problem.truth
    )
    if order is None:
        return federation
    weights = np.array([len(A) for A in problem.As]) if problem.weights is None else problem.weights
    return fgmp.Federation.from_clients(
        [federation.clients[i] for i in order], 4.0 * weights[order], truth=federation.truth
    )


def radius_of(case: Case, problem: Problem) -> float | None:
    """Return R, a part of a gradient step from zero: less than the norm of most models."""
    return 0.3 * problem.slope / problem.steepness if case.radius == "tight" else None


def run(case: Case, problem: Problem | None = None, order: list[int] | None = None) -> Run:
    """Run a case, on its own problem or on another with the same shapes."""
    problem = problem_of(case) if problem is None else problem
    before = problem.bits()
    finished = _run(case, problem, order)
    for recorder in finished.recorders:
        recorder.finish()
    if problem.bits() != before:
        finished.recorder.changed.append("the arrays of the federation were written into")
    return finished


def _run(case: Case, problem: Problem, order: list[int] | None) -> Run:
    federation = federation_of(problem, case.storage, order)
    recorder = Recorder()
    result = fgmp.simulate(
        _method(case, problem),
        federation,
        ROUNDS,
        cohort_size(case),
        SEED,
        aggregator=recorder.aggregator,
        history=fgmp.History(metrics={"recorded": recorder.record_model}),
        callbacks=recorder.record_coefficients,
    )
    if case.method != "polish":
        return Run(case, problem, result, recorder)

    refit_recorder = Recorder()
    polished = fgmp.polish(
        result,
        federation,
        solver=replace(_on_support(case, problem), radius=radius_of(case, problem)),
        cohort_size=cohort_size(case),
        rng=SEED,
        aggregator=refit_recorder.aggregator,
        history=fgmp.History(metrics={"recorded": refit_recorder.record_model}),
    )
    return Run(case, problem, polished, refit_recorder, result, recorder)


def _dictionary(case: Case, problem: Problem) -> StandardBasis:
    if problem.atoms is None:
        return StandardBasis()
    approximation = "thresholding" if case.dictionary.endswith("thresholding") else "omp"
    return fgmp.Dictionary(problem.atoms, approximation=approximation)


def _selection(case: Case) -> Any:
    kinds = {
        "column": fgmp.PerOutput,
        "dense": fgmp.PerOutput,
        "joint": Overall,
        "atom": fgmp.PerAtom,
    }
    return kinds[case.sparsity.removesuffix("-spared")](
        (0,) if case.sparsity.endswith("spared") else ()
    )


def _identification(case: Case) -> Any:
    return {
        "default": lambda: fgmp.CountSketch(),
        "sketch": lambda: fgmp.CountSketch(1, 2 * sparsity(case)),
        "largest": lambda: fgmp.LargestEntries(),
        "one": lambda: fgmp.LargestEntries(1),
        "all": lambda: fgmp.LargestEntries(1000),
    }[case.sent]()


def _method(case: Case, problem: Problem) -> Any:
    tau = sparsity(case)
    dictionary = _dictionary(case, problem)
    selection = _selection(case)
    batch = batch_size(case, problem)
    radius = radius_of(case, problem)
    if case.method == "FedGradMP":
        solver = _solver(case.solver, case, problem)
        return fgmp.FedGradMP(tau, LOCAL_ITERATIONS, batch, dictionary, solver, radius, selection)
    if case.method == "SharedSupportGradMP":
        return fgmp.SharedSupportGradMP(
            tau, _identification(case), _on_support(case, problem), dictionary, radius, selection
        )
    name = "FedIterHT" if case.method == "polish" else case.method
    assert name in FIRST_ORDER
    options = {
        "learning_rate": 0.25 / problem.steepness,
        "local_iterations": LOCAL_ITERATIONS,
        "batch_size": batch,
    }
    options |= {"dictionary": dictionary, "selection": selection}
    if name in ("FedHT", "FedIterHT"):
        options |= {"sparsity": tau}
    if name in ("FedAvg", "FedMid", "FedDualAvg"):
        options |= {"server_learning_rate": 1.5}
    if name in ("FedMid", "FedDualAvg", "FastFedDualAvg"):
        options |= {"l1_weight": 0.05 * problem.slope}
    if name == "FastFedDualAvg":
        options |= {"strong_convexity": 0.05 * problem.steepness}
    return getattr(fgmp, name)(**options)


def _solver(name: str, case: Case, problem: Problem) -> Any:
    accuracy = 0.03 * problem.slope / problem.steepness
    return {
        "default": lambda: None,
        "exact": lambda: fgmp.Exact(),
        "gradient": lambda: fgmp.GradientDescent(steps=4, accuracy=accuracy),
        "newton": lambda: fgmp.Newton(steps=2),
        "sgd": lambda: fgmp.SGD(0.25 / problem.steepness, 3, 4),
    }[name]()


def _on_support(case: Case, problem: Problem) -> Any:
    # The rows of a tiny federation can be separated.
    ridge = 0.01 * problem.steepness if case.federation == "tiny" else 0.0
    return {
        "normal-equations": lambda: fgmp.NewtonOnSupport(),
        "newton-steps": lambda: fgmp.NewtonOnSupport(3, ridge),
        "local-sgd": lambda: LocalSteps(_solver("sgd", case, problem)),
        "local-newton": lambda: LocalSteps(_solver("newton", case, problem)),
    }[case.solver]()
