"""The matrix can fail: faults put into the library, each of which it has to name."""

from dataclasses import replace

import numpy as np
import pytest

import fgmp
from fgmp import rounds
from fgmp._support.sparse_features import SparseFeatures
from fgmp._support.tables import normalized_weights
from fgmp.aggregation import Updates
from fgmp.dictionaries import StandardBasis
from fgmp.losses import SquaredLoss
from fgmp.rounds import Streams
from fgmp.selection import Selection

from .agreement import disagreements
from .options import Case
from .problems import problem_of
from .recount import violations
from .runs import run

# Small problems and steps at random: many a run has fewer rows than 3 tau, rises, or separates what it has.
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

GRADMP = Case(
    *"FedGradMP squared exact standard even some some none column - one one float32".split()
)
IN_BALL = GRADMP._replace(radius="tight")
ITERHT = Case(
    *"FedIterHT squared steps standard uneven all full none column - one one float64".split()
)
HT = ITERHT._replace(method="FedHT")
AVERAGE = ITERHT._replace(method="FedAvg", sparsity="dense")
SHARED = GRADMP._replace(
    method="SharedSupportGradMP", solver="normal-equations", batch="full", sent="default"
)
POLISH = SHARED._replace(method="polish", sent="-", radius="tight")
SPARSE = SHARED._replace(precision="float64", storage="sparse")


def everything(case):
    first = run(case)
    return violations(first) + disagreements(first)


def in_the_order_given(sort):
    def unsorted(clients, weights, **others):
        return replace(
            sort(clients, weights, **others), weights=normalized_weights(weights, len(clients))
        )

    return unsorted


def one_more(chosen):
    return lambda self, model, tau: chosen(self, model, tau + 1)


NO_BALL = (StandardBasis, "into_ball", lambda into: lambda self, model, radius: model)
# Where, what, and what is made of it; the run that has the fault; and what it is called.
FAULTS = [
    (
        (SquaredLoss, "values", lambda exact: lambda self, z, y: 1.01 * exact(self, z, y)),
        AVERAGE,
        "objective",
    ),
    ((rounds, "n_bytes", lambda counted: lambda message: counted(message) + 1), GRADMP, "bytes"),
    ((StandardBasis, "select_atoms_of", one_more), IN_BALL, "support"),
    ((StandardBasis, "select_atoms_of", one_more), IN_BALL, "bytes"),
    (
        (StandardBasis, "select_atoms_of", one_more),
        SHARED._replace(solver="local-sgd"),
        "support",
    ),
    ((Selection, "hard", one_more), HT, "support"),
    ((fgmp.Federation, "from_clients", in_the_order_given), AVERAGE, "order of clients"),
    (NO_BALL, IN_BALL, "radius"),
    (NO_BALL, POLISH, "radius"),
    (
        (Updates, "shares", lambda exact: property(lambda self: np.full(len(self.weights), 0.25))),
        ITERHT,
        "weights",
    ),
    (
        (Streams, "sample", lambda drawn: lambda self, purpose, number, n, size: np.arange(n)),
        GRADMP,
        "cohort",
    ),
    (
        (
            Selection,
            "hard",
            lambda hard: lambda self, v, tau: np.where(np.abs(v) > 1e-6, hard(self, v, tau), 0),
        ),
        ITERHT._replace(targets="micro"),
        "units",
    ),
    (
        (
            fgmp.FedHT,
            "client_update",
            lambda train: lambda self, client, w, rng: np.subtract(w, 1, out=w),
        ),
        HT,
        "input",
    ),
    (
        (
            SquaredLoss,
            "derivative",
            lambda exact: lambda self, z, y: exact(self, z, y) + 1e-3 * (z.itemsize == 4),
        ),
        AVERAGE._replace(precision="float32"),
        "precision",
    ),
    (
        (SparseFeatures, "take", lambda take: lambda self, at, axis: take(self, at[::-1], axis)),
        SPARSE,
        "precision",
    ),
]


@pytest.mark.parametrize(
    "fault, case, named", FAULTS, ids=lambda value: value[1] if type(value) is tuple else str(value)
)
def test_a_fault_is_named(fault, case, named, monkeypatch, backend):
    owner, name, spoilt = fault
    if named == "precision" and backend == "compiled":
        pytest.skip("the compiled kernels have derivatives of their own")
    assert everything(case) == []
    monkeypatch.setattr(owner, name, spoilt(getattr(owner, name)))
    problem_of.cache_clear()
    assert any(sentence.startswith(named + ":") for sentence in everything(case))
    problem_of.cache_clear()  # what a fault wrote into
