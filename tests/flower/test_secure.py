"""Secure sums over Flower's messages: masked on the wire, with the bits and bytes of one process."""

import time

import numpy as np
import pytest
from flwr.app import ConfigRecord
from in_process_grid import (
    ADVERTISE_KEYS,
    MASKED_INPUT,
    SHARE_KEYS,
    UNMASK,
    InProcessGrid,
    altering,
    assert_same_run,
    transport_to,
    with_fields,
)

import fgmp
from fgmp.flower.records import arrays_of, record_of
from fgmp.privacy.secagg_client import TRIPS
from fgmp.run.faults import Corrupted

# Where all updates are lost.
pytestmark = pytest.mark.filterwarnings("ignore:no update arrived")

FEDERATION = fgmp.make_sparse_regression(5, 40, 30, 3, rng=0)
SECURE = fgmp.SecureSum()
COARSE = fgmp.SecureSum(resolution=2.0**-20)
METHODS = [
    fgmp.FedGradMP(3, batch_size=10),
    fgmp.SharedSupportGradMP(3),
    fgmp.FedAvg(learning_rate=0.05, local_iterations=2),
    fgmp.FastFedDualAvg(l1_weight=0.01, learning_rate=0.05),
]
SPARSE = METHODS[0]
SHARED_SUPPORT = METHODS[1]
DENSE = METHODS[2]
LOST = 3
ADVERSARY = 0
NO_OBJECTIVE = fgmp.History(objective_on=0)
WITHOUT_LOST = fgmp.Faulty(FEDERATION, fgmp.DropOut(clients=[LOST]))

# The argument with which a client learns whose shares the server has received.
SENDERS = TRIPS[MASKED_INPUT][-2]


def run_secure(method, clients, rounds=1, history=NO_OBJECTIVE, **options):
    """Return a run with secure sums, without objectives unless a history is given."""
    return fgmp.simulate(
        method, clients, rounds, rng=4, aggregator=SECURE, history=history, **options
    )


# Runs of clients that follow the protocol.


@pytest.mark.parametrize("secure", [SECURE, COARSE], ids=["fine", "coarse"])
@pytest.mark.parametrize(
    ("method", "cohort_size"),
    [(method, size) for method in METHODS for size in (None, 3) if method is not SHARED_SUPPORT]
    + [(SHARED_SUPPORT, None)],
    ids=lambda value: value if value is None else type(value).__name__,
)
def test_masked_run_has_the_bits_and_the_bytes_of_one_process(method, cohort_size, secure):
    """Masks cancel exactly; the state of the run is enough for a process for each message."""
    transport = transport_to(FEDERATION, fresh=secure is SECURE)
    over_flower = fgmp.simulate(method, transport, 2, cohort_size, rng=4, aggregator=secure)
    in_process = fgmp.simulate(method, FEDERATION, 2, cohort_size, rng=4, aggregator=secure)
    assert_same_run(over_flower, in_process)
    objectives = over_flower.history["objective"]
    np.testing.assert_array_equal(objectives, in_process.history["objective"])
    plain = fgmp.simulate(method, FEDERATION, 2, cohort_size, rng=4)
    np.testing.assert_allclose(over_flower.x, plain.x, atol=1e4 * secure.resolution)


def test_cohort_of_a_method_that_repeats_itself_is_refused():
    """Sums of the same numbers over other clients could be subtracted."""
    words = "cohort_size is 3 of 5 with secure sums of SharedSupportGradMP"
    with pytest.raises(ValueError, match=words):
        fgmp.simulate(SHARED_SUPPORT, transport_to(FEDERATION), 2, 3, rng=4, aggregator=SECURE)


def test_client_of_masks_only_takes_part_in_a_secure_sum():
    """As any other does."""
    transport = transport_to(FEDERATION, masked_only=True)
    over_flower = fgmp.simulate(SPARSE, transport, 1, rng=4, aggregator=SECURE)
    assert_same_run(over_flower, fgmp.simulate(SPARSE, FEDERATION, 1, rng=4, aggregator=SECURE))


# Clients that leave.


class KillingGrid(InProcessGrid):
    """The nodes of some clients are gone for good before a trip of the first secure sum."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.trip = ""
        self.killed = set()

    def push_messages(self, messages):
        questions = [message.content.config_records["fgmp"] for message in messages]
        if any(question.get("trip") == self.trip for question in questions):
            self.absent |= self.killed
        return super().push_messages(messages)


def run_killing(trip, killed):
    """Return a run of one round in which clients are killed before a trip, and its questions."""
    transport = transport_to(FEDERATION, grid_class=KillingGrid, deadline=1.0)
    transport.grid.trip = trip
    transport.grid.killed = killed
    result = run_secure(SPARSE, transport)
    assert {question["ask"] for _, question in transport.grid.questions} == {"who", "answer"}
    return result


@pytest.mark.parametrize("trip", [ADVERTISE_KEYS, SHARE_KEYS, MASKED_INPUT])
def test_client_killed_before_its_upload_is_not_in_the_sum(trip):
    """The masks that it would have cancelled are taken away."""
    result = run_killing(trip, {LOST})
    np.testing.assert_array_equal(result.x, run_secure(SPARSE, WITHOUT_LOST).x)
    assert result.rejected == {"late": 1}


def test_client_killed_after_its_upload_is_in_the_sum():
    """The others open its masks."""
    result = run_killing(UNMASK, {LOST})
    np.testing.assert_array_equal(result.x, run_secure(SPARSE, FEDERATION).x)
    assert result.rejected == {}


@pytest.mark.parametrize("killed", [{1, 2}, set(range(5))], ids=["two", "all"])
@pytest.mark.parametrize("trip", [ADVERTISE_KEYS, SHARE_KEYS, MASKED_INPUT, UNMASK])
def test_round_with_fewer_clients_than_the_threshold_is_lost(trip, killed):
    """As one in which nobody answers."""
    result = run_killing(trip, killed)
    assert not result.x.any()
    assert result.rejected == {"late": len(killed)}


def test_client_that_leaves_in_the_middle_is_not_solved_for_and_may_come_back():
    """Rounds without it are lost, and with it the run goes on."""
    transport = transport_to(FEDERATION, deadline=0.5)

    def leave_and_come_back(run):
        transport.grid.absent = {LOST} if run.progress.round in (1, 2) else set()
        if run.progress.round == 3:
            # Until the questions that it has not answered have expired.
            time.sleep(3 * transport.deadline)

    with pytest.warns(fgmp.AdviceWarning, match="a secure sum of 4 of 5 clients stays closed"):
        result = run_secure(DENSE, transport, 5, callbacks=leave_and_come_back)
    np.testing.assert_array_equal(result.history["clients"][1:4], [5, 0, 0])
    assert result.history["clients"][-1] == 5
    assert result.rejected["withheld"] >= 8


# Servers that want more than the sum.


@pytest.mark.parametrize(
    ("trip", "changes"),
    [
        (MASKED_INPUT, {SENDERS: [0, 1, 2, 4]}),
        (MASKED_INPUT, {"session": "another"}),
        (UNMASK, {"uploaded": [0, 1]}),
        (UNMASK, {"uploaded": [0, 1, 2, 3, 7]}),
        (SHARE_KEYS, {"threshold": 2}),
        (SHARE_KEYS, {"positions": [3, 3, 3, 3, 3]}),
    ],
    ids=str,
)
def test_server_that_wants_more_than_the_sum_gets_nothing(trip, changes, caplog):
    """Neither with another question, nor with a second one: for other shares, or another vector."""
    refusals = []

    class GreedyGrid(InProcessGrid):
        def reply(self, index, message):
            question = message.content.config_records["fgmp"]
            if index != LOST or question.get("trip") != trip:
                return super().reply(index, message)
            honest = dict(question)
            message.content["fgmp"] = ConfigRecord({**honest, **changes})
            refusals.append(super().reply(index, message))
            message.content["fgmp"] = ConfigRecord(honest)
            reply = super().reply(index, message)
            refusals.append(super().reply(index, message))
            return reply

    result = run_secure(SPARSE, transport_to(FEDERATION, grid_class=GreedyGrid))
    assert_same_run(result, run_secure(SPARSE, FEDERATION))
    assert len(refusals) == 2
    assert all("ValueError at the client" in refusal.error.reason for refusal in refusals)
    assert caplog.text.count("no reply to a question of the server") == 2


@pytest.mark.parametrize("aggregator", [None, fgmp.Median(), fgmp.SecureSum(threshold=2)])
def test_client_of_masks_only_answers_nothing_else(aggregator):
    """It answers nothing in the open, nor under masks that less than half of the clients open.

    With a low threshold a server could play two halves of the clients against each other.
    """
    transport = transport_to(FEDERATION, masked_only=True)
    result = fgmp.simulate(SPARSE, transport, 1, rng=4, aggregator=aggregator)
    assert not result.x.any()
    assert result.rejected == {"missing": 5}
    assert np.isnan(result.history["objective"]).all()


# Clients that send what does not fit.


def with_vector(change):
    """Return a change of a reply: its masked vector is another."""

    def change_reply(reply):
        vector = arrays_of(reply.content.array_records["message"])["masked"]
        reply.content.update({"message": record_of({"masked": change(vector)})})

    return change_reply


def with_texts(change):
    """Return a change of a reply: its texts, which are keys or shares, are others."""

    def change_reply(reply):
        texts = change(list(reply.content["fgmp"]["texts"]))
        reply.content.update({"fgmp": ConfigRecord({"texts": texts})})

    return change_reply


def with_unreadable_shares_for(*positions):
    """Return a change of a reply: the encrypted shares for some clients cannot be read."""
    return with_texts(
        lambda texts: [
            bytes(48) if position in positions else text for position, text in enumerate(texts)
        ]
    )


def flip_last_bit(text):
    """Return a text whose last bit is another."""
    return text[:-1] + bytes([text[-1] ^ 1])


NOISE = np.random.default_rng(0).integers(0, 2**64, 30, np.uint64)
REJECTED = {
    "a vector that is too long": (
        MASKED_INPUT,
        with_vector(lambda vector: np.append(vector, np.uint64(7))),
    ),
    "a vector of another type": (
        MASKED_INPUT,
        with_vector(lambda vector: vector.astype(np.int64)),
    ),
    "an empty key": (ADVERTISE_KEYS, with_texts(lambda texts: [texts[0], b""])),
    "a key with which nobody agrees": (
        ADVERTISE_KEYS,
        with_texts(lambda texts: [texts[0], bytes(32)]),
    ),
    "keys that are a number": (ADVERTISE_KEYS, with_texts(lambda texts: 3)),
    "too few shares": (SHARE_KEYS, with_texts(lambda texts: texts[:-1])),
    "shares that two cannot read": (SHARE_KEYS, with_unreadable_shares_for(1, 2)),
    "shares that nobody can read": (SHARE_KEYS, with_unreadable_shares_for(1, 2, 3, 4)),
    "shares for one another": (
        SHARE_KEYS,
        with_texts(lambda texts: [texts[0], texts[2], texts[1], *texts[3:]]),
    ),
    "no shares": (SHARE_KEYS, with_texts(lambda texts: [b"" for _ in texts])),
}
HARMLESS = {
    "a share that one cannot read": (SHARE_KEYS, with_unreadable_shares_for(1)),
    "one client that accuses all others": (
        MASKED_INPUT,
        with_fields(unopened=[1, 2, 3, 4, 99, -1]),
    ),
    "shares cut short at the end": (
        UNMASK,
        with_texts(lambda texts: [text[:-1] for text in texts]),
    ),
    "no shares at the end": (UNMASK, with_texts(lambda texts: [b"" for _ in texts])),
}
RUINOUS = {
    "false shares at the end": (
        UNMASK,
        with_texts(lambda texts: [flip_last_bit(text) for text in texts]),
    ),
    "noise": (MASKED_INPUT, with_vector(lambda vector: NOISE)),
}


def run_with_change(trip, change):
    """Return a run of two rounds in which an adversary changes its replies to a trip."""
    return run_secure(DENSE, transport_to(FEDERATION, {ADVERSARY: [altering(change, trip)]}), 2)


@pytest.mark.parametrize("name", REJECTED)
def test_reply_that_does_not_fit_is_left_out_and_its_masks_taken_away(name):
    """The sum is that of the other clients."""
    result = run_with_change(*REJECTED[name])
    rest = fgmp.Faulty(FEDERATION, fgmp.DropOut(clients=[ADVERSARY]))
    np.testing.assert_array_equal(result.x, run_secure(DENSE, rest, 2).x)
    assert result.rejected == {"malformed": 2}


@pytest.mark.parametrize("name", HARMLESS)
def test_client_whose_shares_are_not_needed_is_in_the_sum(name):
    """Enough of the others open its masks, and one voice against others is not enough."""
    result = run_with_change(*HARMLESS[name])
    np.testing.assert_array_equal(result.x, run_secure(DENSE, FEDERATION, 2).x)
    assert result.rejected == {}


@pytest.mark.parametrize("name", RUINOUS)
def test_false_shares_and_noise_lose_rounds_that_are_counted(name):
    """The total is out of range."""
    result = run_with_change(*RUINOUS[name])
    assert not result.x.any()
    assert result.rejected == {"malformed": 10}


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_client_that_diverged_says_so_itself():
    """Nobody could see it in its masked vector."""
    clients = FEDERATION.clients[:4]
    mixed = fgmp.Federation.from_arrays(
        [*(client.features for client in clients), np.eye(30) * 1e150],
        [*(client.targets for client in clients), np.ones(30)],
    )
    method = fgmp.FedAvg(learning_rate=0.05, local_iterations=4)
    transport = transport_to(mixed, weights="equal")
    result = fgmp.simulate(method, transport, 1, rng=4, aggregator=SECURE)
    assert result.rejected == {"not_finite": 1}
    assert result.history["clients"][-1] == 4
    assert result.x.any() and np.isfinite(result.x).all()


# Faults that are injected around the transport.

FAULTS = {
    "missing": fgmp.DropOut(clients=[LOST]),
    "text": Corrupted(lambda upload, client_id: "garbage", clients=[LOST]),
    "too short": Corrupted(lambda upload, client_id: upload[1:], clients=[LOST]),
    "another type": Corrupted(lambda upload, client_id: upload.astype(float), clients=[LOST]),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("method", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_fault_around_the_transport_strikes_under_masks(method, name):
    """As in one process: the client is not in the sum, and it is counted."""
    over_flower = run_secure(method, fgmp.Faulty(transport_to(FEDERATION), FAULTS[name]), 2)
    np.testing.assert_array_equal(over_flower.x, run_secure(method, WITHOUT_LOST, 2).x)
    np.testing.assert_array_equal(over_flower.history["clients"], [0, 4, 4])
    assert over_flower.rejected == {"missing" if name == "missing" else "malformed": 2}


def test_fault_that_changes_numbers_under_masks_loses_the_round():
    """The sum is noise, whose total is out of range."""
    fault = Corrupted(lambda upload, client_id: 3 * upload, clients=[LOST])
    result = run_secure(DENSE, fgmp.Faulty(transport_to(FEDERATION), fault))
    assert not result.x.any()
    assert result.rejected == {"malformed": 5}
