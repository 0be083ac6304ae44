"""The matrix can fail: faults put into the library, each of which it has to name."""

from dataclasses import replace

import numpy as np
import pytest

import fgmp
from fgmp import rounds
from fgmp.dictionaries import StandardBasis
from fgmp.losses import SquaredLoss
from fgmp.methods import shared_support
from fgmp.rounds import Answers, Streams
from fgmp.selection import Selection
from fgmp.shapes import scaled
from fgmp.sparse_features import SparseFeatures

from .agreement import disagreements
from .options import Case
from .problems import problem_of
from .recount import violations
from .runs import run

# Small problems and steps at random: many a run has fewer rows than 3 tau, rises, or separates what it has.
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

GRADMP = Case(*"FedGradMP squared exact standard even some some none column - one one float32 python".split())
IN_BALL = GRADMP._replace(radius="tight")
ITERHT = Case(*"FedIterHT squared steps standard uneven all full none column - one one float64 python".split())
SUMMED = ITERHT._replace(loss="summed")
HT = ITERHT._replace(method="FedHT")
AVERAGE = ITERHT._replace(method="FedAvg", sparsity="dense")
SHARED = GRADMP._replace(method="SharedSupportGradMP", solver="normal-equations", batch="full", sent="default")
POLISH = SHARED._replace(method="polish", sent="-", radius="tight")
SPARSE = SHARED._replace(precision="float64", storage="sparse")
FINE = {SPARSE, GRADMP, IN_BALL, ITERHT, SUMMED, HT, AVERAGE, SHARED, POLISH}


def everything(case):
    first = run(case)
    return violations(first) + disagreements(first)


@pytest.mark.parametrize("case", sorted(FINE), ids=str)
def test_without_a_fault_nothing_is_said(case):
    assert everything(case) == []


def a_mean_where_the_loss_is_a_sum(patch):
    counted = fgmp.Federation.objectives

    def means(self, x, places=None):
        told, values = counted(self, x, places)
        return told, values / self.rows[told]

    patch.setattr(fgmp.Federation, "objectives", means)


def one_byte_too_many(patch):
    counted = rounds.n_bytes
    patch.setattr(rounds, "n_bytes", lambda message: counted(message) + 1)


def one_coefficient_too_many(patch):
    chosen = StandardBasis.approximate_model
    patch.setattr(StandardBasis, "approximate_model", lambda self, m, tau: chosen(self, m, tau + 1))


def one_atom_too_few_eliminated(patch):
    chosen = shared_support.eliminated
    patch.setattr(shared_support, "eliminated", lambda b, h, before, tau, s: chosen(b, h, before, tau + 1, s))


def one_entry_too_many_at_the_server(patch):
    hard = Selection.hard
    patch.setattr(Selection, "hard", lambda self, v, tau: hard(self, v, tau + 1))


def clients_in_the_order_given(patch):
    made = fgmp.Federation.of

    def unsorted(clients, weights, **others):
        return replace(made(clients, weights, **others), weights=scaled(weights, len(clients)))

    patch.setattr(fgmp.Federation, "of", unsorted)


def no_ball(patch):
    patch.setattr(StandardBasis, "into_ball", lambda self, model, radius: model)


def everyone_alike(patch):
    patch.setattr(Answers, "shares", property(lambda self: np.full(len(self.here), 0.25)))


def everybody_in_the_cohort(patch):
    patch.setattr(Streams, "sample", lambda self, purpose, number, n, size: np.arange(n))


def a_threshold_in_absolute_terms(patch):
    hard = Selection.hard
    patch.setattr(Selection, "hard", lambda self, v, tau: np.where(np.abs(v) > 1e-6, hard(self, v, tau), 0))


def a_client_that_writes_into_the_broadcast(patch):
    train = fgmp.FedHT.at_client

    def careless(self, client, w, rng):
        answer = train(self, client, w, rng)
        w *= 2
        return answer

    patch.setattr(fgmp.FedHT, "at_client", careless)


def float32_worse_than_it_is(patch):
    patch.setenv("FGMP_READABLE", "1")  # the compiled twins have derivatives of their own
    exact = SquaredLoss.derivative
    patch.setattr(
        SquaredLoss, "derivative", lambda self, z, y: exact(self, z, y) + np.float32(1e-3) * (z.itemsize == 4)
    )


def a_column_for_its_neighbour(patch):
    take = SparseFeatures.take
    patch.setattr(SparseFeatures, "take", lambda self, places, axis: take(self, places[::-1], axis))


FAULTS = [
    (a_mean_where_the_loss_is_a_sum, SUMMED, "objective"),
    (one_byte_too_many, GRADMP, "bytes"),
    (one_byte_too_many, POLISH, "bytes"),
    (one_coefficient_too_many, IN_BALL, "support"),
    (one_coefficient_too_many, IN_BALL, "bytes"),
    (one_coefficient_too_many, SHARED._replace(solver="conjugate-gradients"), "support"),
    (one_atom_too_few_eliminated, SHARED, "support"),
    (one_entry_too_many_at_the_server, HT, "support"),
    (clients_in_the_order_given, AVERAGE, "order of clients"),
    (no_ball, IN_BALL, "radius"),
    (no_ball, POLISH, "radius"),
    (everyone_alike, ITERHT, "weights"),
    (everybody_in_the_cohort, GRADMP, "cohort"),
    (a_threshold_in_absolute_terms, ITERHT._replace(targets="micro"), "units"),
    (a_client_that_writes_into_the_broadcast, HT, "input"),
    (float32_worse_than_it_is, AVERAGE._replace(precision="float32"), "precision"),
    (a_column_for_its_neighbour, SPARSE, "storage"),
]


@pytest.mark.parametrize("fault, case, named", FAULTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_fault_is_named(fault, case, named, monkeypatch):
    fault(monkeypatch)
    problem_of.cache_clear()
    assert any(sentence.startswith(named + ":") for sentence in everything(case))
    problem_of.cache_clear()  # what a fault wrote into
