"""Clients that lie over Flower: each is left out, counted by reason, and never averaged, as in `simulate`."""

import warnings
from threading import Event

import garbage
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord
from here import Here, assert_same_run, grid_of, over, spoiling

import fgmp
from fgmp.flower import OverFlower
from fgmp.flower.replies import ClientRefusedWarning
from fgmp.flower.wire import array_record, message_of
from fgmp.methods.answers import REASONS
from fgmp.running.faults import Changed

FED = fgmp.make_sparse_regression(6, 40, 30, 3, rng=0)
METHOD = fgmp.FedGradMP(3, batch_size=10)
SHARED = fgmp.SharedSupportGradMP(3, fgmp.LargestEntries(6))
LIAR = 2


def changed(change):
    """A mod that changes the arrays of an answer."""

    def spoil(reply):
        reply.content["message"] = array_record(change(message_of(reply.content.array_records["message"])))

    return spoiling(spoil)


def raw(**carried):
    """A mod that answers with records of its own making."""

    def spoil(reply):
        reply.content["message"] = ArrayRecord(carried)

    return spoiling(spoil)


def like(change):
    """The mod that does what a fault of `simulate` does."""
    return changed(lambda answer: change(answer, FED.clients[LIAR]))


def without(name):
    def spoil(reply):
        del reply.content[name]

    return spoiling(spoil)


def f8(data, shape=(3,), dtype="<f8", stype="fgmp.C"):
    return Array(dtype, shape, stype, data)


SUPPORT = Array("<i4", (3,), "fgmp.C", np.array([1, 2, 3], "<i4").tobytes())
FAULTS = {
    "not_finite": [garbage.not_finite, garbage.infinite],
    "malformed": [garbage.wrong_shape],
    "indices": [garbage.repeated_indices, garbage.out_of_range],
    "too_many": [garbage.too_many_entries],
}
WIRE = {
    "no arrays at all": (without("message"), "missing"),
    "no values": (raw(support=SUPPORT), "malformed"),
    "nothing inside": (raw(), "malformed"),
    "objects": (raw(support=SUPPORT, values=f8(b"\x80\x04", (3,), "O")), "malformed"),
    "fewer bytes than it says": (raw(support=SUPPORT, values=f8(b"12345678")), "malformed"),
    "a shape of more than there is": (raw(support=SUPPORT, values=f8(bytes(24), (10**9,))), "malformed"),
    "a negative shape": (raw(support=SUPPORT, values=f8(bytes(24), (-3,))), "malformed"),
    "no type": (raw(support=SUPPORT, values=f8(bytes(24), dtype="nonsense")), "malformed"),
    "a pickle of NumPy": (raw(support=SUPPORT, values=f8(bytes(24), stype="numpy.ndarray")), "malformed"),
    "complex numbers": (raw(support=SUPPORT, values=f8(bytes(48), dtype="<c16")), "malformed"),
    "another precision": (raw(support=SUPPORT, values=f8(bytes(12), dtype="<f4")), "malformed"),
    "a negative index": (
        raw(support=f8(np.array([-1, 2, 3], "<i4").tobytes(), dtype="<i4"), values=f8(bytes(24))),
        "indices",
    ),
}


def counts(history):
    return {reason: int(history[f"left_out_{reason}"][-1]) for reason in REASONS}


@pytest.mark.parametrize("method", [METHOD, SHARED], ids=["FedGradMP", "SharedSupportGradMP"])
@pytest.mark.parametrize(
    ("reason", "change"), [(r, f) for r, fs in FAULTS.items() for f in fs], ids=lambda x: x if type(x) is str else ""
)
def test_a_hostile_client_is_counted_as_in_simulate(method, reason, change):
    there = fgmp.federate(method, over(FED, {LIAR: [like(change)]}), 3, rng=0)
    here = fgmp.simulate(method, FED, 3, rng=0, faults=Changed(change, clients=[LIAR]))
    assert counts(there.history) == counts(here.history)
    assert counts(there.history)[reason] >= 3
    assert_same_run(there, here)


@pytest.mark.parametrize("name", WIRE)
def test_what_only_a_wire_can_bring_is_counted_and_never_averaged(name):
    mod, reason = WIRE[name]
    there = fgmp.federate(METHOD, over(FED, {LIAR: [mod]}), 3, rng=0)
    assert counts(there.history) == dict.fromkeys(REASONS, 0) | {reason: 3}
    silent = fgmp.simulate(METHOD, FED, 3, rng=0, faults=fgmp.DropOut(clients=[LIAR]))
    np.testing.assert_array_equal(there.x, silent.x)


def saying(**said):
    def spoil(reply):
        reply.content["fgmp"] = ConfigRecord({**reply.content.config_records["fgmp"], **said})

    return spoiling(spoil, "who")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"rows": -40}, "weight"),
        ({"rows": 0}, "weight"),
        ({"rows": 10**12}, "weight"),
        ({"rows": 0.5}, "weight"),
        ({"rows": "many"}, "weight"),
        ({"features": 31}, "malformed"),
        ({"features": -1}, "malformed"),
        ({"dtype": "object"}, "malformed"),
    ],
)
def test_a_weight_or_a_shape_that_no_client_has_is_turned_away(said, reason):
    with pytest.warns(ClientRefusedWarning):
        transport = OverFlower(grid_of(FED, {LIAR: [saying(**said)]}), FED.loss, 5, most_rows=10**6)
    assert list(transport.refused) == [100 + LIAR]
    result = fgmp.federate(METHOD, transport, 3, rng=0)
    assert counts(result.history) == dict.fromkeys(REASONS, 0) | {reason: 1}
    assert (result.history[f"left_out_{reason}"] == 1).all()
    np.testing.assert_allclose(transport.shape.weights, 0.2)
    rest = fgmp.Federation(tuple(c for c in FED.clients if c.key != LIAR), np.ones(5))
    np.testing.assert_array_equal(result.x, fgmp.simulate(METHOD, rest, 3, rng=0).x)


def test_more_features_than_others_does_not_win_by_being_first():
    with pytest.warns(ClientRefusedWarning):
        transport = OverFlower(grid_of(FED, {0: [saying(features=999)]}), FED.loss, 5)
    assert transport.shape.n_features == 30 and list(transport.refused) == [100]


def test_a_key_of_another_is_not_taken_from_it():
    transport = OverFlower(grid_of(FED, {5: [saying(key=1)]}), FED.loss, 6)
    assert transport.nodes == [100, 101, 102, 103, 104, 105]
    assert transport.shape.keys == (0, 1, 2, 3, 4, 5)  # the next that is free


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -1.0, "low", 3])
def test_an_objective_that_no_loss_has_is_left_out(value):
    def spoil(reply):
        reply.content["fgmp"] = ConfigRecord({"objective": value})

    there = fgmp.federate(METHOD, over(FED, {LIAR: [spoiling(spoil, "objective")]}), 2, rng=0)
    rest = [c.objective(np.zeros(30)) for c in FED.clients if c.key != LIAR]
    np.testing.assert_allclose(there.history["objective"][0], np.mean(rest), rtol=1e-12)


def test_a_run_that_diverges_for_everybody_says_so():
    method = fgmp.FedAvg(learning_rate=1e200, local_iterations=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgmp.AdviceWarning)
        there = fgmp.federate(method, over(FED), 2, rng=0)
        here = fgmp.simulate(method, FED, 2, rng=0, faults=[])
    assert_same_run(there, here)


def failing(message, context, call_next):
    if message.content.config_records["fgmp"]["ask"] == "answer":
        raise RuntimeError("out of memory")
    return call_next(message, context)


def test_a_client_that_fails_is_missing():
    there = fgmp.federate(METHOD, over(FED, {LIAR: [failing]}), 3, rng=0)
    assert counts(there.history) == dict.fromkeys(REASONS, 0) | {"missing": 3}
    assert_same_run(there, fgmp.simulate(METHOD, FED, 3, rng=0, faults=fgmp.DropOut(clients=[LIAR])))


def test_who_is_silent_is_late_and_waited_for_once():
    transport = over(FED, deadline=0.3)
    transport.grid.gone.add(LIAR)
    there = fgmp.federate(METHOD, transport, 4, rng=0)
    assert counts(there.history) == dict.fromkeys(REASONS, 0) | {"late": 4}
    silent = fgmp.simulate(METHOD, FED, 4, rng=0, faults=fgmp.DropOut(clients=[LIAR]))
    np.testing.assert_array_equal(there.x, silent.x)
    assert transport._silent == {100 + LIAR}
    assert there.history["seconds"][-1] < 0.3 * 4


def test_who_comes_back_is_waited_for_again():
    transport = over(FED, deadline=0.3)
    transport.grid.gone.add(LIAR)

    def back(history):
        if history["round"][-1] == 2:
            transport.grid.gone.discard(LIAR)
        return False

    there = fgmp.federate(METHOD, transport, 5, rng=0, callback=back)
    assert there.history["left_out_late"].tolist() == [0, 1, 2, 2, 2, 2]
    assert there.history["clients"].tolist() == [0, 5, 5, 6, 6, 6]
    assert not transport._silent


def test_a_reply_to_nothing_is_passed_over():
    """Somebody answers a question that was never asked."""

    class Chatty(Here):
        def pull_messages(self, ids):
            found = super().pull_messages(ids)
            for reply in found:
                if reply.metadata.src_node_id == 100 + LIAR:
                    reply.metadata.__dict__["_reply_to_message_id"] += "x"
            return found

    grid = grid_of(FED)
    transport = OverFlower(grid, FED.loss, 6, deadline=0.3)
    grid.__class__ = Chatty
    there = fgmp.federate(METHOD, transport, 2, rng=0)
    assert there.history["left_out_late"][-1] >= 1


class Garbled(Here):
    """Flower cannot read what client 2 sent."""

    def pull_messages(self, ids):
        bad = [name for name in ids if name in self.replies and self.replies[name].metadata.src_node_id == 100 + LIAR]
        if bad and self.replies[bad[0]].metadata.message_type == "train":
            del self.replies[bad[0]]
            raise ValueError("Unexpected set of children")
        return super().pull_messages(ids)


def test_bytes_that_flower_cannot_read_take_nobody_else_with_them():
    grid = grid_of(FED)
    grid.__class__ = Garbled
    there = fgmp.federate(METHOD, OverFlower(grid, FED.loss, 6), 3, rng=0)
    assert counts(there.history) == dict.fromkeys(REASONS, 0) | {"malformed": 3}
    silent = fgmp.simulate(METHOD, FED, 3, rng=0, faults=fgmp.DropOut(clients=[LIAR]))
    np.testing.assert_array_equal(there.x, silent.x)


def test_questions_that_nobody_answers_do_not_pile_up():
    transport = over(FED, deadline=0.05)
    transport.grid.gone.add(LIAR)
    fgmp.federate(METHOD, transport, 60, rng=0, record_every=60)
    assert len(transport._pending) <= 8 * 6


class Halting(Here):
    """Client 2 is killed while it sends: Flower waits for the rest of its first answer."""

    ends = None

    def pull_messages(self, ids):
        of = [self.replies[name].metadata for name in ids if name in self.replies]
        if any(each.src_node_id == 100 + LIAR and each.message_type == "train" for each in of):
            self.waited.append(self.ends.wait(30))
            return []
        return super().pull_messages(ids)


def test_a_client_killed_while_it_sends_holds_nobody_up():
    grid = grid_of(FED)
    grid.__class__, grid.ends, grid.waited = Halting, Event(), []
    there = fgmp.federate(METHOD, OverFlower(grid, FED.loss, 6, deadline=0.5), 3, rng=0)
    assert not grid.waited  # the run has ended before Flower gave up
    grid.ends.set()
    assert counts(there.history) == dict.fromkeys(REASONS, 0) | {"late": 3}
    silent = fgmp.simulate(METHOD, FED, 3, rng=0, faults=fgmp.DropOut(clients=[LIAR]))
    np.testing.assert_array_equal(there.x, silent.x)
