"""Clients that lie over Flower: each is left out, counted by reason, and never averaged, as in one process."""

import time
from threading import Event

import httpx
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord
from garbage import not_finite, of_entries, of_values, too_many_entries
from google.protobuf.message import DecodeError
from here import Here, assert_same_run, grid_of, over, spoiling

import fgmp
from fgmp.faults import Corrupted
from fgmp.flower import OverFlower
from fgmp.flower.records import arrays_of, record_of
from fgmp.serialization import from_wire, to_wire
from fgmp.sparse_model import SparseModel

FED = fgmp.make_sparse_regression(6, 40, 30, 3, rng=0)
METHOD = fgmp.FedGradMP(3, batch_size=10)
DENSE = fgmp.FedAvg(learning_rate=0.1)
UNHEARD = fgmp.History(objective_on=0)
LIAR = 2
SILENT = fgmp.Faulty(FED, fgmp.DropOut(clients=[LIAR]))
FAULTS = [
    ("not_finite", DENSE, not_finite),
    ("malformed", DENSE, of_values(lambda v: v.astype(np.float32))),
    ("malformed", DENSE, lambda x, key: SparseModel.of(x)),
    ("malformed", DENSE, lambda x, key: (x, x)),
    ("indices", METHOD, of_entries(lambda s, v, size: (np.append(-1, s[1:]), v))),
    ("too_many", METHOD, too_many_entries),
]


@pytest.mark.parametrize(("reason", "method", "change"), FAULTS)
def test_a_hostile_client_is_counted_as_in_one_process(reason, method, change):
    def spoil(reply):
        answer = from_wire(arrays_of(reply.content.array_records["message"]), (30,))
        reply.content["message"] = record_of(to_wire(change(answer, LIAR)))

    there = fgmp.simulate(method, over(FED, {LIAR: [spoiling(spoil)]}), 3, rng=0)
    here = fgmp.simulate(method, fgmp.Faulty(FED, Corrupted(change, clients=[LIAR])), 3, rng=0)
    assert there.rejected == {reason: 3}
    assert_same_run(there, here)


def raw(**carried):
    """What answers with records of its own making."""
    record = ArrayRecord({name.replace("__", " "): array for name, array in carried.items()})
    return lambda reply: reply.content.update({"message": record})


def said(**words):
    """What says something else."""
    return lambda reply: reply.content.update(
        {"fgmp": ConfigRecord({**reply.content.get("fgmp", {}), **words})}
    )


def without(reply):
    del reply.content["message"]
    said(refused="to be late", unknown="what")(reply)


def f8(data, shape=(3,), dtype="<f8", stype="fgmp.C"):
    return Array(dtype, shape, stype, data)


SUPPORT = f8(np.array([1, 2, 3], "<i4").tobytes(), dtype="<i4")
WIRE = {
    "no arrays at all, and a reason of its own": (without, "missing"),
    "no answer but an error": (lambda reply: 1 / 0, "missing"),
    "no values": (raw(support=SUPPORT), "malformed"),
    "objects": (raw(support=SUPPORT, values=f8(b"\x80\x04", (3,), "O")), "malformed"),
    "fewer bytes than it says": (raw(support=SUPPORT, values=f8(b"12345678")), "malformed"),
    "a shape of more than there is": (
        raw(support=SUPPORT, values=f8(bytes(24), (10**9,))),
        "malformed",
    ),
    "a pickle of NumPy": (
        raw(support=SUPPORT, values=f8(bytes(24), stype="numpy.ndarray")),
        "malformed",
    ),
    "complex numbers": (raw(support=SUPPORT, values=f8(bytes(48), dtype="<c16")), "malformed"),
    "places that are no integers": (raw(support=f8(bytes(24)), values=f8(bytes(24))), "malformed"),
    "a table of places": (
        raw(support=f8(bytes(12), (3, 1), "<i4"), values=f8(bytes(24), (3, 1))),
        "malformed",
    ),
    "an array of the size of a continent": (
        raw(at__99999999x99999999=SUPPORT, values=f8(bytes(24))),
        "malformed",
    ),
    "parts within parts": (raw(**{"0." * 2000 + "dense": f8(bytes(24))}), "malformed"),
    "a whole number": (raw(dense=f8(bytes(4), (1,), "<i4")), "malformed"),
    "a type that is Python": (raw(dense=f8(bytes(24), dtype="(1,2")), "malformed"),
    "a type that is half a type": (raw(dense=f8(bytes(24), dtype="i4,(")), "malformed"),
    "a type of two gigabytes": (
        raw(at__30=f8(b"", (0,), "<i4"), values=f8(b"", (0,), "V2147483647")),
        "malformed",
    ),
    "dates": (raw(dense=f8(bytes(240), (30,), "<M8[s]")), "malformed"),
    "a shape of a hundred axes": (raw(dense=f8(bytes(8), (1,) * 100)), "malformed"),
    "more numbers than were asked for": (raw(dense=f8(bytes(8 * 10**6), (10**6,))), "malformed"),
    "more words than anybody needs": (said(words="x" * 10**6), "malformed"),
}


def assert_left_out(there, reason, rounds=3):
    assert there.rejected == {reason: rounds}
    np.testing.assert_array_equal(there.x, fgmp.simulate(METHOD, SILENT, rounds, rng=0).x)


@pytest.mark.parametrize("name", WIRE)
def test_what_only_a_wire_can_bring_is_counted_and_never_averaged(name):
    spoil, reason = WIRE[name]
    assert_left_out(fgmp.simulate(METHOD, over(FED, {LIAR: [spoiling(spoil)]}), 3, rng=0), reason)


@pytest.mark.parametrize(
    "words",
    [*({"rows": n} for n in (0, 10**12, 0.5, "many", True)), {"features": 31}, {"dtype": "object"}],
)
def test_a_weight_or_a_shape_that_no_client_has_is_turned_away(words):
    grid = grid_of(FED, {LIAR: [spoiling(said(**words), "who")]})
    with pytest.warns(fgmp.AdviceWarning, match="turned away.* 30 features as others have"):
        transport = OverFlower(grid, FED.loss, 5, most_rows=10**6)
    assert list(transport.refused) == [100 + LIAR]
    rest = [FED.clients[i] for i in range(6) if i != LIAR]
    rest = fgmp.Federation.from_arrays([c.features for c in rest], [c.targets for c in rest])
    assert_same_run(
        fgmp.simulate(METHOD, transport, 3, rng=0), fgmp.simulate(METHOD, rest, 3, rng=0)
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "low", 3])
def test_an_objective_that_no_loss_has_is_left_out(value):
    there = fgmp.simulate(
        METHOD, over(FED, {LIAR: [spoiling(said(objective=value), "objective")]}), 2, rng=0
    )
    rest = [c.objective(np.zeros(30)) for c in FED.clients if c.client_id != LIAR]
    np.testing.assert_allclose(there.history["objective"][0], np.mean(rest), rtol=1e-12)
    everybody = over(FED, dict.fromkeys(range(6), [spoiling(said(objective=np.inf), "objective")]))
    assert np.isposinf(everybody.prepare(METHOD).objectives(np.zeros(30))[1]).all()


def test_who_is_silent_is_late_and_waited_for_once():
    transport = over(FED, deadline=3.0)
    transport.grid.gone.add(LIAR)
    there = fgmp.simulate(METHOD, transport, 4, rng=0)
    assert_left_out(there, "late", 4)
    assert transport.silent == {100 + LIAR} and there.history["seconds"][-1] < 3 * 3.0
    assert [place for place, _ in transport.grid.asked].count(
        LIAR
    ) == 2  # who it is, and the one open question
    later = over(FED, deadline=3.0)
    later.grid.gone = {LIAR}
    later.silent.add(100 + LIAR)  # and its open question has expired
    assert fgmp.simulate(METHOD, later, 1, rng=0, history=UNHEARD).history["seconds"][-1] < 3.0


def test_who_comes_back_is_waited_for_again():
    transport = over(FED, deadline=1.0)
    transport.grid.gone.add(LIAR)

    def back(run):
        if run.step.round == 2:
            transport.grid.gone.discard(LIAR)
        return run.step.round > 2 and run.step.clients == 6

    there = fgmp.simulate(METHOD, transport, 10_000, rng=0, callbacks=back)
    assert there.history["clients"][[1, 2, -1]].tolist() == [5, 5, 6]
    assert not transport.silent


def is_answer_of_liar(grid, name):
    about = grid.replies[name][1].metadata if name in grid.replies else None
    return about is not None and about.src_node_id == 100 + LIAR and about.message_type == "train"


class Garbled(Here):
    """Flower cannot read what client 2 sent."""

    def pull_messages(self, ids):
        if any(is_answer_of_liar(self, name) for name in ids):
            raise ValueError("Unexpected set of children")
        return super().pull_messages(ids)


def test_bytes_that_flower_cannot_read_take_nobody_else_with_them():
    assert_left_out(fgmp.simulate(METHOD, over(FED, kind=Garbled), 3, rng=0), "malformed")


ERRORS = [
    DecodeError("bytes"),
    SyntaxError("("),
    MemoryError(),
    RecursionError(),
    AssertionError(),
    ZeroDivisionError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("aggregator", [None, fgmp.SecureSum()])
def test_whatever_goes_wrong_while_one_reply_is_read_is_that_clients(error, aggregator):
    class Broken(Here):
        def pull_messages(self, ids):
            if any(is_answer_of_liar(self, name) for name in ids):
                raise error
            return super().pull_messages(ids)

    there = fgmp.simulate(
        METHOD, over(FED, kind=Broken), 2, rng=0, aggregator=aggregator, history=UNHEARD
    )
    here = fgmp.simulate(METHOD, SILENT, 2, rng=0, aggregator=aggregator, history=UNHEARD)
    assert there.rejected == {"malformed": 2}
    np.testing.assert_array_equal(there.x, here.x)


@pytest.mark.parametrize("error", [ConnectionError("gone"), httpx.ConnectError("gone")])
def test_a_connection_that_fails_is_an_error_of_the_run(error):
    class Cut(Here):
        def pull_messages(self, ids):
            raise error

    with pytest.raises(type(error), match="gone"):
        over(FED, kind=Cut)


def test_names_have_nothing_that_a_terminal_acts_on_and_are_told_apart():
    grid = grid_of(FED, {5: [spoiling(said(rows=0, words="\x1b]0;x\x07 fine"), "who")]})
    for place, name in enumerate(
        ["\x1b[2J\x1b]0;x\x07 all is well", "north", "north", "a\u202eb\nc", ""]
    ):
        grid.contexts[place].node_config["name"] = name
    with pytest.warns(fgmp.AdviceWarning, match="turned away") as caught:
        transport = OverFlower(grid, FED.loss, 5)
    assert transport.names == ["[2J ]0;x all is well", "north", "north (2)", "a b c", "client 4"]
    assert all(
        letter.isprintable()
        for text in (str(caught[0].message), *transport.refused.values())
        for letter in text
    )


TYPES = (
    "<f8",
    "<f4",
    "<i4",
    "<u8",
    ">f8",
    "|u1",
    "(1,2",
    "i4,(",
    "V2147483647",
    "O",
    "<U9999999",
    "|b1",
    "<c16",
    "",
)
WORDS = (
    0,
    -1,
    2**62,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "late",
    "(" * 500,
    b"",
    b"\xff" * 32,
    [1, -1],
    ["late"],
    [b""],
)
NAMES = (
    "dense",
    "support",
    "values",
    "at 30",
    "at 99999999x99999999",
    "at ",
    "at 30x",
    "at -1",
    "0.dense",
    "",
    "." * 900,
)


def mutated_array(array, rng):
    """An array with one of its parts changed, as close to a valid one as there are changes."""
    dtype, shape, stype, data = array.dtype, tuple(array.shape), array.stype, array.data
    size = len(data)
    match rng.integers(9):
        case 0:
            dtype = str(rng.choice(TYPES))
        case 1:
            shape = [
                (-1,),
                (2**62,),
                (0,),
                (*shape, 1),
                (1,) * 40,
                (*shape[:-1], 3),
                (0, 2**62),
                (),
            ][rng.integers(8)]
        case 2:
            stype = str(rng.choice(["fgmp.F", "numpy.ndarray", ""]))
        case 3:
            data = data[: rng.integers(size + 1)]
        case 4:
            data = data + bytes(rng.integers(1, 9))
        case 5:
            data = rng.bytes(size)
        case 6:  # whole entries fewer, and a shape that fits
            data, shape = data[: 8 * (size // 16)], (size // 16,)
        case 7:
            data = np.full(size // 8 + 1, rng.choice([np.nan, np.inf, 1e308, -1e308])).tobytes()[
                :size
            ]
        case 8:  # each entry for two
            data, shape = data * 2, (2 * shape[0], *shape[1:]) if shape else shape
    return Array(dtype, shape, stype, data)


def mutated(reply, rng):
    """A reply of this protocol with one thing changed: an array, a name of one, a word, or what is not there."""
    content = reply.content
    arrays, words = dict(content.get("message", {})), dict(content.get("fgmp", {}))
    if arrays and (not words or rng.random() < 0.9):
        name = str(rng.choice(list(arrays)))
        match rng.integers(6):
            case 0:
                del arrays[name]
            case 1:
                arrays[str(rng.choice(NAMES))] = arrays.pop(name)
            case 2:
                arrays[str(rng.choice(NAMES))] = arrays[name]
            case _:
                arrays[name] = mutated_array(arrays[name], rng)
        content["message"] = ArrayRecord(arrays)
    else:
        name = str(rng.choice([*words, "refused", "unknown"]))
        value = words.get(name)
        match rng.integers(4) if isinstance(value, list) else 3:
            case 0:
                value = value[:-1]
            case 1:
                value = value * 2
            case 2:
                value = [part + b"x" for part in value]
            case 3:
                value = WORDS[rng.integers(len(WORDS))]
        content["fgmp"] = ConfigRecord({**words, name: value})


def mutating(ask, seed, count):
    """A mod that changes every reply to questions of a kind, and counts them."""
    rng = np.random.default_rng(seed)

    def spoil(reply):
        count.append(1)
        mutated(reply, rng)

    return spoiling(spoil, ask)


# Of what FedMid thresholds few entries are left, which go as places and values.
KINDS = {
    "dense": (DENSE, "answer", None),
    "places": (fgmp.FedMid(l1_weight=1.0, learning_rate=0.05), "answer", None),
    "support": (METHOD, "answer", None),
    "objective": (METHOD, "objective", None),
    **{trip: (DENSE, trip, fgmp.SecureSum()) for trip in ("advertise_keys", "share_keys", "masked_input", "unmask")},
}


@pytest.mark.filterwarnings(
    "ignore:a secure sum of", "ignore:no update arrived"
)  # where clients are left out
@pytest.mark.parametrize("kind", KINDS)
def test_replies_of_this_protocol_with_one_thing_changed_never_end_a_run(kind):
    """Each is taken for what it says, or left out and counted, and the others have their answers in every round."""
    method, ask, aggregator = KINDS[kind]
    rounds, count = (30 if aggregator is None else 8), []
    transport = over(FED, {LIAR: [mutating(ask, 1, count)]})
    history = None if ask == "objective" else UNHEARD
    there = fgmp.simulate(method, transport, rounds, rng=0, aggregator=aggregator, history=history)
    assert there.history["round"][-1] == rounds and len(count) >= rounds
    assert np.isfinite(there.x).all()
    assert sum(there.rejected.values()) > 0 or ask in ("objective", "unmask")
    contents = [content for *_, content in transport.grid.wire if content is not None]
    sent = {
        name.split(" ")[0]
        for content in contents
        for name in content.array_records.get("message", {})
    }
    assert kind not in ("dense", "places", "support") or {"places": "at"}.get(kind, kind) in sent


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_who_says_nonsense_of_itself_is_turned_away_or_taken_at_its_word():
    for seed in range(40):
        transport = over(FED, {LIAR: [mutating("who", seed, [])]}, n_clients=5)
        assert sorted([*transport.nodes, *transport.refused]) == transport.grid.get_node_ids()
        assert all(name.isprintable() for name in transport.names)


class Slow(Here):
    """Client 2 answers after the deadline, while the next question is under way."""

    began = {}

    def pull_messages(self, ids):
        passed = time.monotonic() - self.began.setdefault(ids[0], time.monotonic())
        return (
            super().pull_messages(ids)
            if passed > (1.3 if is_answer_of_liar(self, ids[0]) else 0.6)
            else []
        )


def test_what_comes_too_late_is_thrown_away():
    assert_left_out(
        fgmp.simulate(METHOD, over(FED, kind=Slow, deadline=1.0), 3, rng=0, history=UNHEARD), "late"
    )


class Halting(Here):
    """Client 2 is killed while it sends: Flower waits for the rest of its first answer."""

    ends, waited = Event(), []

    def pull_messages(self, ids):
        if any(is_answer_of_liar(self, name) for name in ids):
            self.waited.append(self.ends.wait(30))
            return []
        return super().pull_messages(ids)


def test_a_client_killed_while_it_sends_holds_nobody_up():
    there = fgmp.simulate(METHOD, over(FED, kind=Halting, deadline=1.0), 3, rng=0)
    assert not Halting.waited  # the run has ended before Flower gave up
    Halting.ends.set()
    assert_left_out(there, "late")
