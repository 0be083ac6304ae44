"""Secure sums over Flower's messages: masked on the wire, and bit for bit, byte for byte those of one process."""

import time

import numpy as np
import pytest
from flwr.app import ConfigRecord
from here import Here, assert_same_run, over, spoiling

import fgmp
from fgmp.flower.records import arrays_of, record_of

pytestmark = pytest.mark.filterwarnings("ignore:no update arrived")  # where everybody is lost

FED = fgmp.make_sparse_regression(5, 40, 30, 3, rng=0)
SECURE = fgmp.SecureSum()
METHODS = [
    fgmp.FedGradMP(3, batch_size=10),
    fgmp.SharedSupportGradMP(3),
    fgmp.FedAvg(learning_rate=0.05, local_iterations=2),
    fgmp.FastFedDualAvg(l1_weight=0.01, learning_rate=0.05),
]
SPARSE, DENSE = METHODS[0], METHODS[2]
LOST = 3
UNHEARD = fgmp.History(objective_on=0)
SILENT = fgmp.Faulty(FED, fgmp.DropOut(clients=[LOST]))


@pytest.mark.parametrize("secure", [SECURE, fgmp.SecureSum(resolution=2.0**-20)])
@pytest.mark.parametrize("cohort_size", [None, 3])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_bits_and_the_bytes_of_one_process(method, cohort_size, secure):
    """Masks cancel exactly, and the trips are the same; the state of the run is enough for a process for each."""
    if cohort_size and isinstance(method, fgmp.SharedSupportGradMP):
        with pytest.raises(
            ValueError, match="cohort_size is 3 of 5 with secure sums of SharedSupportGradMP"
        ):
            fgmp.simulate(method, over(FED), 2, cohort_size, rng=4, aggregator=secure)
        return
    there = fgmp.simulate(
        method, over(FED, fresh=secure is SECURE), 2, cohort_size, rng=4, aggregator=secure
    )
    here = fgmp.simulate(method, FED, 2, cohort_size, rng=4, aggregator=secure)
    assert_same_run(there, here)
    np.testing.assert_array_equal(there.history["objective"], here.history["objective"])
    plain = fgmp.simulate(method, FED, 2, cohort_size, rng=4)
    np.testing.assert_allclose(there.x, plain.x, atol=1e4 * secure.resolution)


class Killing(Here):
    """The nodes of some clients are gone before a trip of the first secure sum, for good."""

    at, places = "", {}

    def push_messages(self, messages):
        if any(
            message.content.config_records["fgmp"].get("trip") == self.at for message in messages
        ):
            self.gone |= self.places
        return super().push_messages(messages)


@pytest.mark.parametrize("lost", [{LOST}, {1, 2}, set(range(5))])
@pytest.mark.parametrize("trip", ["advertise_keys", "share_keys", "masked_input", "unmask"])
def test_clients_killed_between_the_trips(trip, lost):
    """Where fewer than the threshold are left the round is lost, as where nobody answers."""
    transport = over(FED, kind=Killing, deadline=1.0)
    transport.grid.at, transport.grid.places = trip, lost
    there = fgmp.simulate(SPARSE, transport, 1, rng=4, aggregator=SECURE, history=UNHEARD)
    is_in = trip == "unmask" and len(lost) == 1
    here = fgmp.simulate(
        SPARSE, FED if is_in else SILENT, int(len(lost) == 1), rng=4, aggregator=SECURE
    )
    np.testing.assert_array_equal(there.x, here.x)
    assert there.rejected == ({} if is_in else {"late": len(lost)})
    assert {asked["ask"] for _, asked in transport.grid.asked} == {"who", "answer"}


@pytest.mark.parametrize(
    ("trip", "changes"),
    [
        ("masked_input", {"senders": [0, 1, 2, 4]}),
        ("masked_input", {"session": "another"}),
        ("unmask", {"uploaded": [0, 1]}),
        ("unmask", {"uploaded": [0, 1, 2, 3, 7]}),
        ("share_keys", {"threshold": 2}),
        ("share_keys", {"places": [3, 3, 3, 3, 3]}),
    ],
)
def test_a_server_that_wants_more_than_the_sum_gets_nothing(trip, changes, caplog):
    """Or that asks twice: for other shares, or another vector under the same masks."""
    answers = []

    class Asking(Here):
        def reply(self, place, message):
            asked = message.content.config_records["fgmp"]
            if place != LOST or asked.get("trip") != trip:
                return super().reply(place, message)
            honest = dict(asked)
            message.content["fgmp"] = ConfigRecord({**honest, **changes})
            answers.append(super().reply(place, message))
            message.content["fgmp"] = ConfigRecord(honest)
            found = super().reply(place, message)
            answers.append(super().reply(place, message))
            return found

    there = fgmp.simulate(
        SPARSE, over(FED, kind=Asking), 1, rng=4, aggregator=SECURE, history=UNHEARD
    )
    assert_same_run(there, fgmp.simulate(SPARSE, FED, 1, rng=4, aggregator=SECURE, history=UNHEARD))
    assert len(answers) == 2 and all(
        "ValueError at the client" in answer.error.reason for answer in answers
    )
    assert caplog.text.count("no reply to a question of the server") == 2


@pytest.mark.parametrize("aggregator", [None, fgmp.Median(), fgmp.SecureSum(threshold=2), SECURE])
def test_a_client_that_answers_under_masks_only(aggregator):
    """And under none that half of the clients could open: a server could play two halves against each other."""
    there = fgmp.simulate(SPARSE, over(FED, masked_only=True), 1, rng=4, aggregator=aggregator)
    if aggregator is SECURE:
        assert_same_run(there, fgmp.simulate(SPARSE, FED, 1, rng=4, aggregator=SECURE))
    else:
        assert not there.x.any() and there.rejected == {"missing": 5}
        assert np.isnan(there.history["objective"]).all()


def uploading(change):
    vector = lambda reply: arrays_of(reply.content.array_records["message"])["masked"]  # noqa: E731
    return lambda reply: reply.content.update(
        {"message": record_of({"masked": change(vector(reply))})}
    )


def saying(change):
    texts = lambda reply: change(list(reply.content["fgmp"]["texts"]))  # noqa: E731
    return lambda reply: reply.content.update({"fgmp": ConfigRecord({"texts": texts(reply)})})


NOISE = np.random.default_rng(0).integers(0, 2**64, 30, np.uint64)
HOSTILE = [
    ("masked_input", uploading(lambda vector: np.append(vector, np.uint64(7))), 1),
    ("masked_input", uploading(lambda vector: vector.astype(np.int64)), 1),
    ("advertise_keys", saying(lambda texts: [texts[0], b""]), 1),
    (
        "advertise_keys",
        saying(lambda texts: [texts[0], bytes(32)]),
        1,
    ),  # with which nobody agrees on anything
    ("advertise_keys", saying(lambda texts: 3), 1),
    ("share_keys", saying(lambda texts: texts[:-1]), 1),
    ("unmask", saying(lambda texts: [text[:-1] for text in texts]), 0),
    ("unmask", saying(lambda texts: [text[:-1] + bytes([text[-1] ^ 1]) for text in texts]), 5),
    ("masked_input", uploading(lambda vector: NOISE), 5),
]


def garbled(*places):
    """Letters of client 0 that these cannot open."""
    return saying(
        lambda texts: [bytes(48) if place in places else text for place, text in enumerate(texts)]
    )


def falsely_accusing(*places):
    def accuse(reply):
        vector = reply.content.array_records["message"]
        return reply.content.update(
            {"message": vector, "fgmp": ConfigRecord({"unopened": list(places)})}
        )

    return accuse


HOSTILE += [
    ("share_keys", garbled(1), 0),  # four of five can take its masks away
    ("share_keys", garbled(1, 2), 1),
    ("share_keys", garbled(1, 2, 3, 4), 1),
    ("share_keys", saying(lambda texts: [texts[0], texts[2], texts[1], *texts[3:]]), 1),
    ("share_keys", saying(lambda texts: [b"" for _ in texts]), 1),
    ("masked_input", falsely_accusing(1, 2, 3, 4, 99, -1), 0),  # one voice is not enough
    ("unmask", saying(lambda texts: [b"" for _ in texts]), 0),
]


@pytest.mark.parametrize(("trip", "spoil", "lost"), HOSTILE)
def test_what_does_not_fit_is_left_out_and_its_masks_taken_away(trip, spoil, lost):
    """Whose shares do not fit is in the sum; false shares, or noise, make rounds that are lost and counted."""
    transport = over(FED, {0: [spoiling(spoil, trip)]})
    there = fgmp.simulate(DENSE, transport, 2, rng=4, aggregator=SECURE, history=UNHEARD)
    rest = fgmp.Faulty(FED, fgmp.DropOut(clients=[0])) if lost else FED
    expected = fgmp.simulate(DENSE, rest, 0 if lost == 5 else 2, rng=4, aggregator=SECURE)
    np.testing.assert_array_equal(there.x, expected.x)
    assert there.rejected == ({"malformed": 2 * lost} if lost else {})


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_a_client_that_diverged_or_is_out_of_range_says_so_itself():
    rows = [*(c.features for c in FED.clients[:4]), np.eye(30) * 1e150]
    mixed = fgmp.Federation.from_arrays(rows, [*(c.targets for c in FED.clients[:4]), np.ones(30)])
    method = fgmp.FedAvg(learning_rate=0.05, local_iterations=4)
    there = fgmp.simulate(method, over(mixed, weights="equal"), 1, rng=4, aggregator=SECURE)
    assert there.rejected == {"not_finite": 1}
    assert there.history["clients"][-1] == 4 and there.x.any() and np.isfinite(there.x).all()


@pytest.mark.parametrize(
    "fault",
    [
        fgmp.DropOut(clients=[LOST]),
        fgmp.faults.Corrupted(lambda upload, client: "garbage", clients=[LOST]),
        fgmp.faults.Corrupted(lambda upload, client: upload[1:], clients=[LOST]),
        fgmp.faults.Corrupted(lambda upload, client: upload.astype(float), clients=[LOST]),
    ],
)
@pytest.mark.parametrize("method", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_faults_around_machines_strike_under_masks(method, fault):
    """As in one process: the client is not in the sum, and it is counted."""
    there = fgmp.simulate(
        method, fgmp.Faulty(over(FED), fault), 2, rng=4, aggregator=SECURE, history=UNHEARD
    )
    here = fgmp.simulate(method, SILENT, 2, rng=4, aggregator=SECURE, history=UNHEARD)
    np.testing.assert_array_equal(there.x, here.x)
    np.testing.assert_array_equal(there.history["clients"], [0, 4, 4])
    assert there.rejected == {"missing" if type(fault) is fgmp.DropOut else "malformed": 2}


def test_a_fault_that_changes_numbers_under_masks_makes_noise():
    """Whose total is out of range: the round is lost."""
    fault = fgmp.faults.Corrupted(lambda upload, client: 3 * upload, clients=[LOST])
    there = fgmp.simulate(
        DENSE, fgmp.Faulty(over(FED), fault), 1, rng=4, aggregator=SECURE, history=UNHEARD
    )
    assert not there.x.any() and there.rejected == {"malformed": 5}


def test_a_node_that_leaves_in_the_middle_is_not_solved_for_and_may_come_back():
    """Rounds without it are lost; with it the run goes on."""
    transport = over(FED, deadline=0.5)

    def callbacks(run):
        transport.grid.gone = {LOST} if run.step.round in (1, 2) else set()
        if run.step.round == 3:
            time.sleep(
                3 * transport.deadline
            )  # the time of the questions that it did not answer is over

    with pytest.warns(fgmp.AdviceWarning, match="a secure sum of 4 of 5 clients stays closed"):
        found = fgmp.simulate(
            DENSE, transport, 5, rng=4, aggregator=SECURE, history=UNHEARD, callbacks=callbacks
        )
    np.testing.assert_array_equal(found.history["clients"][1:4], [5, 0, 0])
    assert found.history["clients"][-1] == 5 and found.rejected["withheld"] >= 8
