"""The matrix can fail: faults put into the library, each of which it has to name."""

import numpy as np
import pytest

import fgmp
from fgmp.federation import Client
from fgmp.losses import SquaredLoss
from fgmp.methods import shared_support
from fgmp.methods.baselines import FedHT
from fgmp.models import SparseModel
from fgmp.running import loop as LOOP
from fgmp.running import rounds as ROUND
from fgmp.running import summing as SUMMING
from fgmp.selection import Selection
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
    patch.setattr(
        Client, "objective", lambda self, x: float(self.loss.values(self.predictions(x), self.targets).mean())
    )


def one_byte_too_many(patch):
    counted = ROUND.message_bytes
    patch.setattr(ROUND, "message_bytes", lambda message: counted(message) + 1)


def values_in_float64(patch):
    sent = SparseModel.message
    patch.setattr(SparseModel, "message", lambda self: sent(self) | {"values": self.values.astype(np.float64)})


def one_coefficient_too_many(patch):
    chosen = fgmp.StandardBasis.approximate_model
    patch.setattr(fgmp.StandardBasis, "approximate_model", lambda self, m, tau, s: chosen(self, m, tau + 1, s))


def one_atom_too_few_eliminated(patch):
    chosen = shared_support.eliminated
    patch.setattr(shared_support, "eliminated", lambda b, h, before, tau, s: chosen(b, h, before, tau + 1, s))


def one_entry_too_many_at_the_server(patch):
    hard = Selection.hard
    patch.setattr(Selection, "hard", lambda self, v, tau: hard(self, v, tau + 1))


def clients_in_the_order_given(patch):
    checked = fgmp.Federation.__post_init__

    def unsorted(self):
        clients = tuple(self.clients)
        checked(self)
        place = {client.key: i for i, client in enumerate(self.clients)}
        object.__setattr__(self, "weights", self.weights[[place[client.key] for client in clients]])
        object.__setattr__(self, "clients", clients)

    patch.setattr(fgmp.Federation, "__post_init__", unsorted)


def no_ball(patch):
    patch.setattr(fgmp.StandardBasis, "into_ball", lambda self, model, radius: model)


def everyone_alike(patch):
    reply = SUMMING.Reply
    patch.setattr(SUMMING, "Reply", lambda weight, message: reply(0.25, message))


def everybody_in_the_cohort(patch):
    patch.setattr(LOOP, "draw_cohort", lambda seed, number, n_clients, size: np.arange(n_clients))


def a_threshold_in_absolute_terms(patch):
    hard = Selection.hard
    patch.setattr(Selection, "hard", lambda self, v, tau: np.where(np.abs(v) > 1e-6, hard(self, v, tau), 0))


def a_client_that_writes_into_the_broadcast(patch):
    train = FedHT.train

    def careless(self, client, message, rng):
        answer = train(self, client, message, rng)
        message.get("dense", message.get("values"))[...] *= 2
        return answer

    patch.setattr(fgmp.FedHT, "train", careless)


def a_client_that_writes_into_its_data(patch):
    answer = FedHT.train

    def careless(self, client, message, rng):
        client.targets[:] += 1
        return answer(self, client, message, rng)

    patch.setattr(fgmp.FedHT, "train", careless)


def float32_worse_than_it_is(patch):
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
    (values_in_float64, IN_BALL, "dtype"),
    (values_in_float64, IN_BALL, "bytes"),
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
    (a_client_that_writes_into_its_data, HT, "input"),
    (float32_worse_than_it_is, AVERAGE._replace(precision="float32"), "precision"),
    (a_column_for_its_neighbour, SPARSE, "storage"),
]


@pytest.mark.parametrize("fault, case, named", FAULTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_fault_is_named(fault, case, named, monkeypatch):
    fault(monkeypatch)
    problem_of.cache_clear()
    assert any(sentence.startswith(named + ":") for sentence in everything(case))
    problem_of.cache_clear()  # what a fault wrote into
