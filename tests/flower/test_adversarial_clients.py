"""Adversarial clients over Flower: each is rejected, counted by reason, and never averaged."""

import time
from threading import Event

import httpx
import numpy as np
import pytest
from flwr.app import ArrayRecord
from google.protobuf.message import DecodeError
from in_process_grid import (
    ADVERTISE_KEYS,
    FIRST_NODE,
    MASKED_INPUT,
    SHARE_KEYS,
    UNMASK,
    InProcessGrid,
    altering,
    assert_same_run,
    grid_of,
    transport_to,
    with_fields,
)
from malformed_updates import not_finite, of_entries, of_values, too_many_entries
from mutated_replies import array_of, mutating

import fgmp
from fgmp.flower import OverFlower, mailbox
from fgmp.flower.records import arrays_of, record_of
from fgmp.run.faults import Corrupted
from fgmp.run.serialization import from_wire, to_wire
from fgmp.sparse_model import SparseModel

FEDERATION = fgmp.make_sparse_regression(6, 40, 30, 3, rng=0)
SPARSE = fgmp.FedGradMP(3, batch_size=10)
DENSE = fgmp.FedAvg(learning_rate=0.1)
NO_OBJECTIVE = fgmp.History(objective_on=0)
ADVERSARY = 2
WITHOUT_ADVERSARY = fgmp.Faulty(FEDERATION, fgmp.DropOut(clients=[ADVERSARY]))


def assert_adversary_rejected(result, reason, rounds=3):
    """Check that the model is that of the other clients, and the reason that of every round."""
    assert result.rejected == {reason: rounds}
    expected = fgmp.simulate(SPARSE, WITHOUT_ADVERSARY, rounds, rng=0)
    np.testing.assert_array_equal(result.x, expected.x)


# What a client sends.

MALFORMED_UPDATES = [
    ("not_finite", DENSE, not_finite),
    ("malformed", DENSE, of_values(lambda values: values.astype(np.float32))),
    ("malformed", DENSE, lambda x, client_id: SparseModel.of(x)),
    ("malformed", DENSE, lambda x, client_id: (x, x)),
    (
        "indices",
        SPARSE,
        of_entries(lambda support, values, size: (np.append(-1, support[1:]), values)),
    ),
    ("too_many", SPARSE, too_many_entries),
]


@pytest.mark.parametrize(("reason", "method", "corrupt"), MALFORMED_UPDATES)
def test_malformed_update_is_rejected_as_in_one_process(reason, method, corrupt):
    """For the same reason, in every round."""

    def change(reply):
        update = from_wire(arrays_of(reply.content.array_records["message"]), (30,))
        reply.content["message"] = record_of(to_wire(corrupt(update, ADVERSARY)))

    transport = transport_to(FEDERATION, {ADVERSARY: [altering(change)]})
    over_flower = fgmp.simulate(method, transport, 3, rng=0)
    faulty = fgmp.Faulty(FEDERATION, Corrupted(corrupt, clients=[ADVERSARY]))
    assert over_flower.rejected == {reason: 3}
    assert_same_run(over_flower, fgmp.simulate(method, faulty, 3, rng=0))


def with_arrays(arrays):
    """Return a change of a reply: its records are these."""
    return lambda reply: reply.content.update({"message": ArrayRecord(arrays)})


def without_arrays(reply):
    """Take the update away, and give a reason that only the server may give."""
    del reply.content["message"]
    with_fields(refused="to be late", unknown="what")(reply)


SUPPORT = array_of(np.array([1, 2, 3], "<i4").tobytes(), dtype="<i4")
ZEROS = array_of(bytes(24))
RECORDS = {
    "no values": {"support": SUPPORT},
    "objects": {"support": SUPPORT, "values": array_of(b"\x80\x04", dtype="O")},
    "fewer bytes than it says": {"support": SUPPORT, "values": array_of(b"12345678")},
    "a shape of more than there is": {
        "support": SUPPORT,
        "values": array_of(bytes(24), (10**9,)),
    },
    "a pickle of NumPy": {"support": SUPPORT, "values": array_of(bytes(24), stype="numpy.ndarray")},
    "complex numbers": {"support": SUPPORT, "values": array_of(bytes(48), dtype="<c16")},
    "indices that are no integers": {"support": ZEROS, "values": ZEROS},
    "a table of indices": {
        "support": array_of(bytes(12), (3, 1), "<i4"),
        "values": array_of(bytes(24), (3, 1)),
    },
    "a shape of the size of a continent": {"at 99999999x99999999": SUPPORT, "values": ZEROS},
    "parts within parts": {"0." * 2000 + "dense": ZEROS},
    "an integer": {"dense": array_of(bytes(4), (1,), "<i4")},
    "a type that is Python": {"dense": array_of(bytes(24), dtype="(1,2")},
    "a type that is half a type": {"dense": array_of(bytes(24), dtype="i4,(")},
    "a type of two gigabytes": {
        "at 30": array_of(b"", (0,), "<i4"),
        "values": array_of(b"", (0,), "V2147483647"),
    },
    "dates": {"dense": array_of(bytes(240), (30,), "<M8[s]")},
    "a shape of a hundred axes": {"dense": array_of(bytes(8), (1,) * 100)},
    "more numbers than were asked for": {"dense": array_of(bytes(8 * 10**6), (10**6,))},
}
REPLIES = {
    **{name: (with_arrays(arrays), "malformed") for name, arrays in RECORDS.items()},
    "no arrays at all, and a reason of its own": (without_arrays, "missing"),
    "no update but an error": (lambda reply: 1 / 0, "missing"),
    "more words than anybody needs": (with_fields(words="x" * 10**6), "malformed"),
}


def without_part(reply):
    """Leave the last of the parts of a reply away."""
    for name in [name for name in reply.content if name.startswith("1.")]:
        del reply.content[name]


def with_other_numbers(reply):
    """Number the parts of a reply from 1."""
    for name in list(reply.content):
        if name.startswith("0."):
            reply.content["2" + name[1:]] = reply.content.pop(name)


def with_one_part_more(reply):
    """Send a part that nobody has asked for."""
    reply.content["2.message"] = record_of({"dense": np.zeros(30)})


REPLIES_IN_PARTS = {
    "a part is missing": without_part,
    "parts have other numbers": with_other_numbers,
    "a part too many": with_one_part_more,
}


@pytest.mark.parametrize("name", REPLIES_IN_PARTS)
def test_reply_to_several_questions_that_has_not_a_part_for_each_is_rejected(name):
    """For all of them: nobody knows which part is meant."""
    mod = altering(REPLIES_IN_PARTS[name], ask="several")
    transport = transport_to(FEDERATION, {ADVERSARY: [mod]})
    options = {"rng": 0, "history": NO_OBJECTIVE}
    for result in transport.together(
        [lambda: fgmp.simulate(SPARSE, transport, 3, **options) for _ in range(2)]
    ):
        assert_adversary_rejected(result, "malformed")


def test_runs_that_travel_together_have_the_bits_of_each_alone():
    """Of other methods and lengths, with the objectives of one, and a client that knows no run."""
    transport = transport_to(FEDERATION, fresh=True)
    dense_run, sparse_run = transport.together(
        [
            lambda: fgmp.simulate(DENSE, transport, 2, rng=0, history=NO_OBJECTIVE),
            lambda: fgmp.simulate(SPARSE, transport, 3, rng=1),
        ]
    )
    assert_same_run(dense_run, fgmp.simulate(DENSE, FEDERATION, 2, rng=0, history=NO_OBJECTIVE))
    assert_same_run(sparse_run, fgmp.simulate(SPARSE, FEDERATION, 3, rng=1))
    # An objective at the start and after each round; the first run adds no message.
    assert len(transport.grid.questions) == 6 * (1 + 7)


def test_client_that_was_restarted_is_sent_all_runs_that_travel_together_again():
    """It says of each that it does not know it."""
    transport = transport_to(FEDERATION)

    def run(method):
        transport.grid.restarted.add(ADVERSARY)
        return fgmp.simulate(method, transport, 3, rng=0, history=NO_OBJECTIVE)

    for result, method in zip(
        transport.together([lambda: run(DENSE), lambda: run(SPARSE)]), (DENSE, SPARSE), strict=True
    ):
        assert not result.rejected
        expected = fgmp.simulate(method, FEDERATION, 3, rng=0, history=NO_OBJECTIVE)
        np.testing.assert_array_equal(result.x, expected.x)


@pytest.mark.parametrize("name", REPLIES)
def test_reply_that_only_a_wire_can_bring_is_rejected(name):
    """It is counted, and never averaged."""
    change, reason = REPLIES[name]
    transport = transport_to(FEDERATION, {ADVERSARY: [altering(change)]})
    assert_adversary_rejected(fgmp.simulate(SPARSE, transport, 3, rng=0), reason)


# What a client says of itself.

IMPOSSIBLE = [
    *({"rows": n_rows} for n_rows in (0, 10**12, 0.5, "many", True)),
    {"features": 31},
    {"dtype": "object"},
]


@pytest.mark.parametrize("fields", IMPOSSIBLE, ids=str)
def test_client_with_impossible_numbers_is_turned_away(fields):
    """The run is that of the others."""
    grid = grid_of(FEDERATION, {ADVERSARY: [altering(with_fields(**fields), "who")]})
    with pytest.warns(fgmp.AdviceWarning, match="turned away.* 30 features as others have"):
        transport = OverFlower(grid, FEDERATION.loss, 5, most_rows=10**6)
    assert list(transport.refused) == [FIRST_NODE + ADVERSARY]
    others = [client for client in FEDERATION.clients if client.client_id != ADVERSARY]
    rest = fgmp.Federation.from_arrays(
        [client.features for client in others], [client.targets for client in others]
    )
    over_flower = fgmp.simulate(SPARSE, transport, 3, rng=0)
    assert_same_run(over_flower, fgmp.simulate(SPARSE, rest, 3, rng=0))


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_client_with_mutated_report_is_turned_away_or_taken_at_its_word():
    """Whatever it reports, it is a client or it is refused, and its name can be printed."""
    for seed in range(40):
        mods = {ADVERSARY: [mutating("who", seed, [])]}
        transport = transport_to(FEDERATION, mods, n_clients=5)
        assert sorted([*transport.nodes, *transport.refused]) == transport.grid.get_node_ids()
        assert all(name.isprintable() for name in transport.names)


def test_names_of_clients_are_printable_and_distinct():
    """They have nothing that a terminal acts on, and neither has a warning that quotes them."""
    words = {"rows": 0, "words": "\x1b]0;x\x07 fine"}
    grid = grid_of(FEDERATION, {5: [altering(with_fields(**words), "who")]})
    reported = ("\x1b[2J\x1b]0;x\x07 all is well", "north", "north", "a\u202eb\nc", "")
    for context, name in zip(grid.contexts, reported, strict=False):
        context.node_config["name"] = name
    with pytest.warns(fgmp.AdviceWarning, match="turned away") as caught:
        transport = OverFlower(grid, FEDERATION.loss, 5)
    assert transport.names == ["[2J ]0;x all is well", "north", "north (2)", "a b c", "client 4"]
    assert str(caught[0].message).isprintable()
    assert all(text.isprintable() for text in transport.refused.values())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "low", 3])
def test_objective_that_no_loss_has_is_left_out(value):
    """The record is the mean of the others."""
    mods = {ADVERSARY: [altering(with_fields(objective=value), "objective")]}
    result = fgmp.simulate(SPARSE, transport_to(FEDERATION, mods), 2, rng=0)
    others = [client for client in FEDERATION.clients if client.client_id != ADVERSARY]
    expected = np.mean([client.objective(np.zeros(30)) for client in others])
    np.testing.assert_allclose(result.history["objective"][0], expected, rtol=1e-12)


def test_objectives_that_are_all_infinite_count():
    """The model has diverged: there is nothing else to record."""
    mod = altering(with_fields(objective=np.inf), "objective")
    transport = transport_to(FEDERATION, dict.fromkeys(range(6), [mod]))
    _, objectives = transport.for_method(SPARSE).objectives(np.zeros(30))
    assert np.isposinf(objectives).all()


# Replies that do not come in time.


@pytest.fixture
def awaited(monkeypatch):
    """How many replies each poll waits for, as a list that grows."""
    counts = []

    def wait(futures, deadline):
        counts.append(len(futures))
        return honest(futures, deadline)

    honest = mailbox.wait
    monkeypatch.setattr(mailbox, "wait", wait)
    return counts


def test_silent_client_is_late_and_waited_for_once(awaited):
    """It has two questions: who it is, and the one that stays open."""
    transport = transport_to(FEDERATION, deadline=1.0)
    transport.grid.absent.add(ADVERSARY)
    awaited.clear()
    result = fgmp.simulate(SPARSE, transport, 4, rng=0)
    assert_adversary_rejected(result, "late", 4)
    assert transport.silent == {FIRST_NODE + ADVERSARY}
    assert [index for index, _ in transport.grid.questions].count(ADVERSARY) == 2
    assert awaited[0] == 6 and set(awaited[1:]) == {5}


def test_silent_client_is_polled_again_without_waiting_once_its_question_expires(awaited):
    """As long as it has not replied."""
    transport = transport_to(FEDERATION, deadline=1.0)
    transport.grid.absent.add(ADVERSARY)
    transport.silent.add(FIRST_NODE + ADVERSARY)
    awaited.clear()
    fgmp.simulate(SPARSE, transport, 1, rng=0, history=NO_OBJECTIVE)
    assert [index for index, _ in transport.grid.questions].count(ADVERSARY) == 2
    assert awaited == [5]


def test_client_that_comes_back_is_waited_for_again():
    """Once the question that it missed has expired, it has the next one."""
    transport = transport_to(FEDERATION, deadline=0.5)
    transport.grid.absent.add(ADVERSARY)

    def come_back(run):
        time.sleep(0.05)
        if run.progress.round == 2:
            transport.grid.absent.discard(ADVERSARY)
        return run.progress.round > 2 and run.progress.n_participants == 6

    result = fgmp.simulate(SPARSE, transport, 10_000, rng=0, callbacks=come_back)
    assert result.history["clients"][[1, 2, -1]].tolist() == [5, 5, 6]
    assert not transport.silent


class SlowGrid(InProcessGrid):
    """The adversary replies after the deadline, while the next question is under way."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.began = {}

    def pull_messages(self, ids):
        seconds = 1.3 if self.has_update_of(ADVERSARY, ids) else 0.6
        began = self.began.setdefault(ids[0], time.monotonic())
        is_there = time.monotonic() - began > seconds
        return super().pull_messages(ids) if is_there else []


def test_reply_that_comes_too_late_is_thrown_away():
    """It is no answer to the question that is open by then."""
    transport = transport_to(FEDERATION, grid_class=SlowGrid, deadline=1.0)
    result = fgmp.simulate(SPARSE, transport, 3, rng=0, history=NO_OBJECTIVE)
    assert_adversary_rejected(result, "late")


class HaltingGrid(InProcessGrid):
    """The adversary is killed while it sends: Flower waits for the rest of its first reply."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.is_over = Event()
        self.waited = []

    def pull_messages(self, ids):
        if self.has_update_of(ADVERSARY, ids) and not self.is_over.is_set():
            self.waited.append(self.is_over.wait(30))
        return super().pull_messages(ids)


def test_client_killed_while_it_sends_holds_nobody_up():
    """The run has ended before Flower gives up."""
    transport = transport_to(FEDERATION, grid_class=HaltingGrid, deadline=1.0)
    result = fgmp.simulate(SPARSE, transport, 3, rng=0)
    assert not transport.grid.waited
    transport.grid.is_over.set()
    assert_adversary_rejected(result, "late")


# Replies that cannot be read.

ERRORS = [
    DecodeError("bytes"),
    SyntaxError("("),
    MemoryError(),
    RecursionError(),
    AssertionError(),
    ZeroDivisionError(),
    ValueError("Unexpected set of children"),
]


def grid_that_raises(error):
    """Return a class of grids on which reading an update of the adversary raises an error."""

    class RaisingGrid(InProcessGrid):
        def pull_messages(self, ids):
            if self.has_update_of(ADVERSARY, ids):
                raise error
            return super().pull_messages(ids)

    return RaisingGrid


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_error_while_a_reply_is_read_rejects_the_update_of_that_client(error):
    """It takes nobody else with it."""
    transport = transport_to(FEDERATION, grid_class=grid_that_raises(error))
    result = fgmp.simulate(SPARSE, transport, 3, rng=0, history=NO_OBJECTIVE)
    assert_adversary_rejected(result, "malformed")


@pytest.mark.parametrize("error", ERRORS[:2], ids=lambda error: type(error).__name__)
def test_error_while_a_masked_reply_is_read_rejects_the_update_of_that_client(error):
    """The sum is that of the others."""
    secure = fgmp.SecureSum()
    transport = transport_to(FEDERATION, grid_class=grid_that_raises(error))
    over_flower = fgmp.simulate(
        SPARSE, transport, 2, rng=0, aggregator=secure, history=NO_OBJECTIVE
    )
    in_process = fgmp.simulate(SPARSE, WITHOUT_ADVERSARY, 2, rng=0, aggregator=secure)
    assert over_flower.rejected == {"malformed": 2}
    np.testing.assert_array_equal(over_flower.x, in_process.x)


@pytest.mark.parametrize("error", [ConnectionError("gone"), httpx.ConnectError("gone")])
def test_connection_that_fails_is_an_error_of_the_run(error):
    """It is not the fault of one client."""

    class CutGrid(InProcessGrid):
        def pull_messages(self, ids):
            raise error

    with pytest.raises(type(error), match="gone"):
        transport_to(FEDERATION, grid_class=CutGrid)


# Of what FedMid thresholds few entries are left, which travel as indices and values.
SPARSE_UPDATES = fgmp.FedMid(l1_weight=1.0, learning_rate=0.05)
MUTATED = {
    "dense": (DENSE, "answer", None),
    "at": (SPARSE_UPDATES, "answer", None),
    "support": (SPARSE, "answer", None),
    "objective": (SPARSE, "objective", None),
    **{
        trip: (DENSE, trip, fgmp.SecureSum())
        for trip in (ADVERTISE_KEYS, SHARE_KEYS, MASKED_INPUT, UNMASK)
    },
}


def layouts_of(grid):
    """Return the first words of the names of all arrays that were sent."""
    contents = [sent.content for sent in grid.sent if sent.content is not None]
    records = [content.array_records.get("message", {}) for content in contents]
    return {name.split(" ")[0] for record in records for name in record}


@pytest.mark.filterwarnings("ignore:a secure sum of", "ignore:no update arrived")
@pytest.mark.parametrize("kind", MUTATED)
def test_replies_with_one_thing_changed_never_end_a_run(kind):
    """Each is taken for what it says or rejected, and the others have their answers counted."""
    method, ask, aggregator = MUTATED[kind]
    rounds = 30 if aggregator is None else 8
    history = None if ask == "objective" else NO_OBJECTIVE
    mutations = []
    transport = transport_to(FEDERATION, {ADVERSARY: [mutating(ask, 1, mutations)]})
    result = fgmp.simulate(method, transport, rounds, rng=0, aggregator=aggregator, history=history)
    assert result.history["round"][-1] == rounds and len(mutations) >= rounds
    assert np.isfinite(result.x).all()
    if ask not in ("objective", UNMASK):
        assert sum(result.rejected.values()) > 0
    if ask == "answer":
        assert kind in layouts_of(transport.grid)
