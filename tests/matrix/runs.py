"""From a case to a run whose messages, models and weights are kept."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse

import fgmp
from fgmp import Overall
from fgmp.dictionaries import StandardBasis
from fgmp.rounds import Exchange
from fgmp.serialization import to_wire
from fgmp.shared_support import polishing
from fgmp.shared_support.newton import LocalSteps
from fgmp.simulation import Result, simulate_part
from fgmp.sparse_model import dense

from .options import FIRST_ORDER, Case
from .problems import N_CLASSES, SIZES, Problem, problem_of

# With this seed no cohort of one is a client without weight, and not all are one without data.
SEED, ROUNDS, LOCAL = 8, 3, 2
LOSSES = {
    "squared": fgmp.SquaredLoss(),
    "summed": fgmp.SquaredLoss(averaged=False),
    "logistic": fgmp.LogisticLoss(),
    "softmax": fgmp.SoftmaxLoss(N_CLASSES),
}


@dataclass
class Trip:
    """One exchange: what went down, what each client sent up, and with which weight the server took it."""

    number: int  # of its round, from 0
    sent: Any
    down: dict
    up: dict[int, dict] = field(default_factory=dict)
    answers: dict[int, Any] = field(default_factory=dict)
    weights: list[float] = field(default_factory=list)


@dataclass
class Ledger:
    """What a run did, exchange after exchange and record after record."""

    trips: list[Trip] = field(default_factory=list)
    coefficients: list[np.ndarray] = field(default_factory=list)
    models: list[np.ndarray] = field(default_factory=list)
    prepared: list[np.dtype] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    def keep(self, x: np.ndarray) -> float:
        self.models.append(x.copy())
        return 0.0

    def wrapped(self, index: int, exchange: Exchange) -> Exchange:
        """Exchange `index` of a round, with its messages copied here."""

        def ask(state: Any) -> Any:
            message = exchange.message(state)
            number = (self.trips[-1].number if self.trips else -1) + (index == 0)
            self.trips.append(Trip(number, message, _copied(to_wire(message))))
            return message

        def update(state: Any, mean: np.ndarray) -> Any:
            trip = self.trips[-1]
            after = exchange.server_update(state, mean)
            pairs = [
                (trip.down, trip.sent),
                *zip(trip.up.values(), trip.answers.values(), strict=True),
            ]
            if any(_bits(copy) != _bits(to_wire(own)) for copy, own in pairs):
                self.changed.append("a message was written into")
            return after

        return exchange._replace(message=ask, server_update=update)

    def note(self, client: fgmp.Client, reply: Any) -> None:
        """Write down what a client sent up."""
        self.prepared.append(client.features.dtype)
        self.trips[-1].up[client.client_id] = _copied(to_wire(reply))
        self.trips[-1].answers[client.client_id] = reply


class Recorded(fgmp.Faulty):
    """A transport that writes down in a ledger what the clients send up, whatever computed it."""

    def __init__(self, transport: Any, ledger: Ledger) -> None:
        super().__init__(transport)
        self.ledger = ledger

    def prepare(self, method: Any) -> Any:
        return Recorded(self.transport.prepare(method), self.ledger)

    def run_clients(self, call: Any, message: Any, cohort: np.ndarray) -> list[Any]:
        replies = list(super().run_clients(call, message, cohort))
        for index, reply in zip(cohort, replies, strict=True):
            self.ledger.note(self.transport.clients[index], reply)
        return replies


@dataclass(frozen=True)
class KeptMean(fgmp.Mean):
    """The mean, with the weights that it takes written down."""

    ledger: Ledger

    def __call__(self, answers: Any) -> np.ndarray:
        self.ledger.trips[-1].weights = answers.shares.tolist()
        return super().__call__(answers)


def rewired(method: Any, wrapped: Any, kept: Any = None) -> Any:
    """The method, with each exchange replaced by `wrapped(index, exchange)`, and its coefficients kept."""

    class Rewired(type(method)):
        def exchanges(self) -> list[Exchange]:
            return [wrapped(index, exchange) for index, exchange in enumerate(super().exchanges())]

        def coefficients(self, state: Any) -> np.ndarray:
            found = super().coefficients(state)
            if kept is not None:
                kept.append(dense(found).copy())
            return found

    made = copy(method)
    object.__setattr__(made, "__class__", Rewired)
    return made


def recorded(method: Any, ledger: Ledger) -> Any:
    return rewired(method, ledger.wrapped, ledger.coefficients)


@dataclass
class Run:
    """A run of a case: its result, and what was written down on the way; `opening` is what was polished."""

    case: Case
    problem: Problem
    result: Result
    ledger: Ledger
    opening: Result | None = None
    opening_ledger: Ledger | None = None


def cohort_size(case: Case) -> int:
    n_clients = len(SIZES[case.federation])
    return {"all": n_clients, "some": (n_clients + 1) // 2, "one": 1}[case.cohort]


def batch_size(case: Case, problem: Problem) -> int | None:
    """The rows of a minibatch; as many as the smallest client holds is the full batch for it alone."""
    smallest = min(len(A) for A in problem.As)
    return {"full": None, "some": max(1, smallest // 2), "smallest": smallest}[case.batch]


def sparsity(case: Case) -> int:
    return 4 if case.sparsity.startswith("joint") else 2


def federation_of(
    problem: Problem, storage: str, order: list[int] | None = None
) -> fgmp.Federation:
    """The federation; with `order`, given in another order and with weights four times as large."""
    As = problem.As if storage == "dense" else [sparse.csr_array(A) for A in problem.As]
    made = fgmp.Federation.from_arrays(
        As, problem.ys, LOSSES[problem.loss], problem.weights, problem.truth
    )
    if order is None:
        return made
    weights = np.array([len(A) for A in problem.As]) if problem.weights is None else problem.weights
    return fgmp.Federation.from_clients(
        [made.clients[i] for i in order], 4.0 * weights[order], truth=made.truth
    )


def radius_of(case: Case, problem: Problem) -> float | None:
    """R, less than the norm of most models: a part of a gradient step from zero."""
    return 0.3 * problem.slope / problem.steepness if case.radius == "tight" else None


def run(case: Case, problem: Problem | None = None, order: list[int] | None = None) -> Run:
    """Run a case, on its own problem or another with the same shapes."""
    problem = problem_of(case) if problem is None else problem
    before = problem.bits()
    made = _run(case, problem, order)
    if problem.bits() != before:
        made.ledger.changed.append("the arrays that the federation was made of were written into")
    return made


def _run(case: Case, problem: Problem, order: list[int] | None) -> Run:
    federation, ledger = federation_of(problem, case.storage, order), Ledger()
    members, method = cohort_size(case), recorded(_method(case, problem), ledger)
    options = {
        "aggregator": KeptMean(ledger),
        "history": fgmp.History(metrics={"kept": ledger.keep}),
    }
    clients = Recorded(federation, ledger)
    result = fgmp.simulate(method, clients, ROUNDS, members, SEED, **options)
    if case.method != "polish":
        return Run(case, problem, result, ledger)
    closing = Ledger()
    with patch.object(
        polishing,
        "simulate_part",
        lambda given, clients, *rest, **how: simulate_part(
            recorded(given, closing), Recorded(clients, closing), *rest, **how
        ),
    ):
        closed = fgmp.polish(
            result,
            federation,
            solver=replace(_on_support(case, problem), radius=radius_of(case, problem)),
            cohort_size=members,
            rng=SEED,
            aggregator=KeptMean(closing),
            history=fgmp.History(metrics={"kept": closing.keep}),
        )
    return Run(case, problem, closed, closing, result, ledger)


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
    tau, dictionary, selection = sparsity(case), _dictionary(case, problem), _selection(case)
    batch, radius = batch_size(case, problem), radius_of(case, problem)
    if case.method == "FedGradMP":
        solver = _solver(case.solver, case, problem)
        return fgmp.FedGradMP(tau, LOCAL, batch, dictionary, solver, radius, selection)
    if case.method == "SharedSupportGradMP":
        return fgmp.SharedSupportGradMP(
            tau, _identification(case), _on_support(case, problem), dictionary, radius, selection
        )
    name = "FedIterHT" if case.method == "polish" else case.method
    assert name in FIRST_ORDER
    options = {
        "learning_rate": 0.25 / problem.steepness,
        "local_iterations": LOCAL,
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
    ridge = (
        0.01 * problem.steepness if case.federation == "tiny" else 0.0
    )  # its rows can be separated
    return {
        "normal-equations": lambda: fgmp.NewtonOnSupport(),
        "newton-steps": lambda: fgmp.NewtonOnSupport(3, ridge),
        "local-sgd": lambda: LocalSteps(_solver("sgd", case, problem)),
        "local-newton": lambda: LocalSteps(_solver("newton", case, problem)),
    }[case.solver]()


def _copied(message: dict) -> dict:
    return {name: np.array(array) for name, array in message.items()}


def _bits(message: dict) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in message.items()}
