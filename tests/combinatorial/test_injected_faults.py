"""The combinatorial tests can fail: each fault that is put into the package is named by them."""

from dataclasses import replace

import numpy as np
import pytest

import fgmp
from fgmp import recording
from fgmp._support.sparse_features import SparseFeatures
from fgmp._support.tables import normalized_weights
from fgmp.dictionaries import StandardBasis
from fgmp.losses import SquaredLoss
from fgmp.method import Streams
from fgmp.selection import Selection
from fgmp.updates import Updates

from .invariances import disagreements
from .options import Case
from .oracle import violations
from .problems import problem_of
from .runs import run

# Problems are small and steps are random: many runs have fewer rows than 3 tau, rise, or separate.
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


def all_sentences(case):
    """Return all that the oracle and the invariances say of a case."""
    first = run(case)
    return violations(first) + disagreements(first)


def without_sorting(sort):
    def unsorted(clients, weights, **others):
        return replace(
            sort(clients, weights, **others), weights=normalized_weights(weights, len(clients))
        )

    return unsorted


def one_more(chosen):
    return lambda self, model, tau, *selection: chosen(self, model, tau + 1, *selection)


NO_BALL = (StandardBasis, "into_ball", lambda into: lambda self, model, radius: model)
# What is replaced (owner, name, by what), in which case, and under which name it is reported.
FAULTS = [
    (
        (SquaredLoss, "values", lambda exact: lambda self, z, y: 1.01 * exact(self, z, y)),
        AVERAGE,
        "objective",
    ),
    ((recording, "n_bytes", lambda counted: lambda message: counted(message) + 1), GRADMP, "bytes"),
    ((StandardBasis, "select_atoms_of", one_more), IN_BALL, "support"),
    ((StandardBasis, "select_atoms_of", one_more), IN_BALL, "bytes"),
    (
        (StandardBasis, "select_atoms_of", one_more),
        SHARED._replace(solver="local-sgd"),
        "support",
    ),
    ((Selection, "hard", one_more), HT, "support"),
    ((fgmp.Federation, "from_clients", without_sorting), AVERAGE, "order of clients"),
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
def test_oracle_with_injected_fault_names_it(fault, case, named, monkeypatch, backend):
    """A fault in the package is reported under the name of what it breaks."""
    owner, name, replacement = fault
    if named == "precision" and backend == "compiled":
        pytest.skip("the compiled kernels have derivatives of their own")
    assert all_sentences(case) == []
    monkeypatch.setattr(owner, name, replacement(getattr(owner, name)))
    problem_of.cache_clear()
    assert any(sentence.startswith(named + ":") for sentence in all_sentences(case))
    problem_of.cache_clear()  # a fault may have written into it
