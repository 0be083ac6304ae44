"""Every byte of a run over Flower: with secure sums nothing of a single client is in it but what is documented."""

import numpy as np
import pytest
from flwr.common.serde import message_to_proto
from here import Here, loader

import fgmp
from fgmp.flower import OverFlower, client, client_app
from fgmp.flower.wire import message_of, wire_bytes

ROWS = [10007, 10103, 10211, 10313, 10427]
SECURE = fgmp.SecureSum()
METHODS = {
    "models": fgmp.FedGradMP(3, batch_size=100),
    "sums": fgmp.SharedSupportGradMP(3),
    "dense": fgmp.FedAvg(learning_rate=0.05, local_iterations=2),
}


def federation(seed=0):
    """Clients whose rows, losses and supports are each their own."""
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((count, 16)) for count in ROWS]
    truths = [np.bincount([i, i + 5, i + 11], [3.0, 2.0, 1.5], 16) for i in range(5)]
    noise = (0.1 * (i + 1) * rng.standard_normal(count) for i, count in enumerate(ROWS))
    return fgmp.Federation.from_arrays(As, [A @ x + e for A, x, e in zip(As, truths, noise, strict=True)])


class Tapped(Here):
    """Each message and its reply: whose, to which question, as the bytes that Flower sends, and what they hold."""

    def reply(self, place, message):
        reply = super().reply(place, message)
        question = str(message.content.config_records["fgmp"]["ask"])
        for each in (message, reply):
            raw = message_to_proto(each).SerializeToString()
            self.wire.append((place, question, raw, each.content if each.has_content() else None))
        return reply


def tapped(app, n_clients=5):
    grid = Tapped([app] * n_clients)
    grid.wire = []
    return grid


class Played:
    """A run: what has been on the wire, and what each client answered and lost, as the client itself knows it."""

    def __init__(self, method, secure, seed=0):
        data = federation(seed)
        grid = tapped(client_app(loader(data)))
        self.secrets = {(f"rows {i}", "rows"): count for i, count in enumerate(ROWS)}
        with pytest.MonkeyPatch.context() as patch:
            answer, objective = client._answer, fgmp.Client.objective
            patch.setattr(client, "_answer", lambda *given: self.keep(given[2].key, answer(*given)))
            patch.setattr(fgmp.Client, "objective", lambda own, x: self.keep(own.key, objective(own, x)))
            result = fgmp.federate(method, OverFlower(grid, data.loss, 5), 1, rng=4, secure=secure)
        self.wire, self.history = grid.wire, result.history

    def keep(self, key, said):
        place = len(self.secrets)
        if isinstance(said, float):
            self.secrets[f"loss {key}", place] = said
        for name, array in said.items() if isinstance(said, dict) else ():
            kind = "support" if name.endswith("support") else "answer"
            if array.size:
                self.secrets[f"{kind} {key}", f"{place} {name}"] = array
        return said

    def found(self, questions=("answer", "objective", "secure")):
        """The secrets that occur on the wire."""
        sent = [(raw, list(numbers_in(content))) for _, question, raw, content in self.wire if question in questions]
        whole, numbers = b"\n".join(raw for raw, _ in sent), [held for _, several in sent for held in several]
        return {name for name, secret in self.secrets.items() if occurs(secret, whole, numbers)}


def numbers_in(content):
    """All numbers of a message, each list and array of them on its own."""
    if content is None:
        return
    for record in content.config_records.values():
        for value in record.values():
            if isinstance(value, int | float):
                yield np.array([float(value)])
            elif isinstance(value, list) and value and isinstance(value[0], int | float):
                yield np.array(value, float)
    for record in content.array_records.values():
        yield from (array.reshape(-1).astype(float) for array in message_of(record).values() if array.size)


def occurs(secret, whole, numbers):
    """Whether a secret is somewhere, as bytes, as text, in fixed point, or among the numbers of a message."""
    if isinstance(secret, int):
        raw = [np.array(secret, kind).tobytes() for kind in ("<i4", "<i8", "<f8", "<f4")]
        return any(form in whole for form in [*raw, str(secret).encode()]) or any((n == secret).any() for n in numbers)
    array = np.asarray(secret).reshape(-1)
    if array.dtype.kind == "i":
        text = ", ".join(map(str, array.tolist()))
        raw = [array.astype(kind).tobytes() for kind in ("<i4", "<i8", "<f8")]
        raw += [text.encode(), text.replace(" ", "").encode()]
        return any(form in whole for form in raw) or any(np.array_equal(array, n) for n in numbers)
    values = array[np.abs(array) > 1e-3].astype(float)
    raw = {form for value in values for form in (value.tobytes(), repr(float(value)).encode())}
    raw |= {SECURE.encoded(values, share)[i : i + 1].tobytes() for i in range(len(values)) for share in (1.0, 0.2)}
    raw |= {part for share in SHARES for part in map(bytes, SECURE.encoded(values, share).view("V8").tolist())}
    raw |= {values[i : i + 2].astype("<f4").tobytes() for i in range(len(values) - 1)}
    near = np.concatenate(numbers) if numbers else np.empty(0)
    close = np.isclose(near[:, None], values, rtol=1e-7, atol=0).any()
    return bool(close) or any(form in whole for form in raw)


SHARES = np.array(ROWS) / sum(ROWS)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_in_the_open_shows_each_client(name):
    """So that the next test could fail: all that it looks for is there."""
    run = Played(METHODS[name], None)
    found = {kind for kind, _ in run.found()}
    expected = ["loss", "answer", *(["support"] if name == "models" else [])]
    assert found == {f"{kind} {i}" for kind in expected for i in range(5)}


@pytest.mark.parametrize("name", METHODS)
def test_with_secure_sums_no_byte_shows_a_client(name):
    # What is found in two runs, whose masks and keys differ, is no accident.
    runs = [Played(METHODS[name], SECURE) for _ in range(2)]
    kinds = {kind for kind, _ in runs[0].secrets}
    assert {f"{kind} {i}" for kind in ("loss", "answer", "rows") for i in range(5)} <= kinds
    assert runs[0].found() & runs[1].found() == set()
    # The history holds the sums.
    told = [[loss for (kind, _), loss in runs[0].secrets.items() if kind == f"loss {i}"] for i in range(5)]
    np.testing.assert_allclose(runs[0].history["objective"], SHARES @ np.array(told), rtol=1e-9)


def test_what_is_in_the_clear_is_what_the_table_names():
    run = Played(METHODS["models"], SECURE)
    assert {kind for kind, _ in run.found(["who"])} == {f"rows {i}" for i in range(5)}
    said = [dict(content["fgmp"]) for _, question, _, content in run.wire if question == "who"][1::2]
    assert [set(who) for who in said] == [{"rows", "features", "dtype", "key"}] * 5
    for place, _, raw, _ in run.wire:  # who weighs how much is said to nobody else
        assert not any(SHARES[i].tobytes() in raw for i in range(5) if i != place)
    replies = [content for _, question, _, content in run.wire if question == "secure"][1::2]
    names = {name for content in replies for name in content["fgmp"]}
    assert names == {"public", "sealed", "layout", "shares"}
    assert {name for content in replies for name in content.array_records.get("message", {})} == {"masked"}


@pytest.mark.parametrize("name", METHODS)
def test_no_size_depends_on_the_data(name):
    sizes = [
        [wire_bytes(content) for _, question, _, content in Played(METHODS[name], SECURE, seed).wire if content][1::2]
        for seed in (0, 1)
    ]
    assert sizes[0] == sizes[1]


WORDS = "could not convert '7345.25 Smith'"


def unreadable(*given):
    raise ValueError(WORDS)


def assert_not_said(grid, caplog):
    assert WORDS in caplog.text
    assert not any(b"Smith" in raw or b"7345.25" in raw for _, _, raw, _ in grid.wire)


def test_the_words_of_an_error_in_reading_rows_stay_at_the_client(caplog):
    load = loader(federation())
    grid = tapped(client_app(lambda context, *given: (unreadable if context.node_id == 101 else load)(context, *given)))
    with pytest.warns(fgmp.AdviceWarning, match="clients turned away: .*ValueError at the client") as caught:
        OverFlower(grid, fgmp.SquaredLoss(), 4, deadline=1.0)
    assert "Smith" not in str(caught[0].message)
    assert_not_said(grid, caplog)


@pytest.mark.parametrize("secure", [None, SECURE])
@pytest.mark.parametrize("where", ["_answer", "_model"])
def test_the_words_of_an_error_in_a_reply_stay_at_the_client(where, secure, caplog, monkeypatch):
    data = federation()
    grid = tapped(client_app(loader(data)))
    transport = OverFlower(grid, data.loss, 5, deadline=1.0)
    monkeypatch.setattr(client, where, unreadable)
    history = fgmp.federate(METHODS["dense"], transport, 1, rng=0, secure=secure).history
    assert history["clients"][-1] == (0 if where == "_answer" else 5)
    assert np.isnan(history["objective"]).all() == (where == "_model")
    assert_not_said(grid, caplog)


@pytest.mark.parametrize(("cohort_size", "objective_on", "least"), [(None, 1, 4), (None, [0, 1, 2], 4), (3, [2], 2)])
def test_an_objective_of_fewer_than_the_threshold_is_refused(cohort_size, objective_on, least):
    data = federation()
    transport = OverFlower(tapped(client_app(loader(data))), data.loss, 5)
    words = f"clients with a positive weight; expected {least}, the threshold"
    for run in (
        lambda **options: fgmp.federate(METHODS["dense"], transport, 1, cohort_size, **options),
        lambda **options: fgmp.simulate(METHODS["dense"], data, 1, cohort_size, **options),
    ):
        with pytest.raises(ValueError, match=words):
            run(objective_on=objective_on, secure=SECURE, rng=0)
        allowed = run(objective_on=list(range(least)), secure=SECURE, rng=0).history["objective"]
        assert np.isfinite(allowed).all()


def test_an_objective_beyond_the_range_or_not_asked_for_is_nan():
    data, narrow = federation(), fgmp.SecureSum(bits=32, resolution=2.0**-30)  # up to 1
    assert all(member.objective(np.zeros(16)) > 1 for member in data.clients)
    transport = OverFlower(tapped(client_app(loader(data))), data.loss, 5)
    there = fgmp.federate(METHODS["dense"], transport, 1, rng=0, secure=narrow)
    here = fgmp.simulate(METHODS["dense"], data, 1, rng=0, secure=narrow)
    silent = transport.again(ask_objectives=False)
    silent = fgmp.federate(METHODS["dense"], silent, 1, rng=0, secure=narrow)
    assert all(np.isnan(run.history["objective"]).all() for run in (there, here, silent))
    np.testing.assert_array_equal(there.x, here.x)
    assert np.isfinite(here.x).all() and here.history["clients"][-1] == 5
