"""Every byte of a run over Flower: with secure sums nothing of a single client is in it but what is documented."""

import warnings

import numpy as np
import pytest
from flwr.common.serde import recorddict_to_proto
from here import Here, loader, over

import fgmp
from fgmp.flower import OverFlower, client_app
from fgmp.flower.records import fields_of
from fgmp.sparse_model import SparseModel

pytestmark = pytest.mark.filterwarnings("ignore:no update arrived")  # where everybody is lost

ROWS = [10007, 10103, 10211, 10313, 10427]
SHARES = np.array(ROWS) / sum(ROWS)
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
    return fgmp.Federation.from_arrays(
        As, [A @ x + e for A, x, e in zip(As, truths, noise, strict=True)]
    )


class Played:
    """A run: what has been on the wire, and what each client answered and lost, as the client itself knows it."""

    def __init__(self, method, secure, seed=0):
        self.secrets = {(f"rows {i}", "rows"): count for i, count in enumerate(ROWS)}
        transport = over(federation(seed))
        with pytest.MonkeyPatch.context() as patch:
            for name in ("run_clients", "objectives"):
                patch.setattr(
                    fgmp.Federation, name, self.kept(name, getattr(fgmp.Federation, name))
                )
            result = fgmp.simulate(method, transport, 1, rng=4, aggregator=secure)
        self.wire, self.history = transport.grid.wire, result.history

    def kept(self, name, honest):
        def listening(own, *given):
            said, key, place = honest(own, *given), int(own.client_ids[0]), len(self.secrets)
            if name == "objectives":
                self.secrets[f"loss {key}", place] = float(said[1][0])
            elif isinstance(said[0], SparseModel):
                self.secrets[f"support {key}", place] = said[0].support
                self.secrets[f"answer {key}", place] = said[0].values
            else:
                self.secrets[f"answer {key}", place] = said[0]
            return said

        return listening

    def found(self, questions=("answer", "objective")):
        """The secrets that occur on the wire."""
        sent = [
            (raw, fields_of(content))
            for _, asked, raw, content in self.wire
            if asked["ask"] in questions
        ]
        whole = b"\n".join(raw + repr(dict(said)).encode() for raw, said in sent)
        return {
            name
            for name, secret in self.secrets.items()
            if any(form in whole for form in forms(secret))
        }

    def replies(self, *questions):
        sent = [(asked, content) for _, asked, _, content in self.wire if asked["ask"] in questions]
        return [content for asked, content in sent if "ask" not in fields_of(content)]


def forms(secret):
    """How a secret may look: as bytes of any type, as text, in fixed point under any weight."""
    array = np.ravel(secret)
    if array.dtype.kind == "i":
        raw = {array.astype(kind).tobytes() for kind in ("<i4", "<i8", "<f8")}
        return raw | {comma.join(map(str, array.tolist())).encode() for comma in (",", ", ")}
    values = array[np.abs(array) > 1e-3].astype(float)
    found = {form for value in values for form in (value.tobytes(), repr(float(value)).encode())}
    found |= {values[i : i + 2].astype("<f4").tobytes() for i in range(len(values) - 1)}
    return found | {
        form
        for p in (1.0, *SHARES)
        for form in map(bytes, SECURE.encoded(values, p).view("V8").tolist())
    }


@pytest.mark.parametrize("name", METHODS)
def test_a_run_in_the_open_shows_each_client(name):
    """So that the next test could fail: all that it looks for is there."""
    found = {kind for kind, _ in Played(METHODS[name], None).found()}
    expected = ["loss", "answer", *(["support"] if name == "models" else [])]
    assert found == {f"{kind} {i}" for kind in expected for i in range(5)}


@pytest.mark.parametrize("name", METHODS)
def test_with_secure_sums_no_byte_shows_a_client_and_no_size_depends_on_the_data(name):
    # What is found in two runs, whose masks and keys differ, is no accident.
    runs = [Played(METHODS[name], SECURE, seed) for seed in (0, 0, 1)]
    replies = [run.replies("answer", "objective") for run in runs[1:]]
    sizes = [[recorddict_to_proto(content).ByteSize() for content in each] for each in replies]
    assert sizes[0] == sizes[1] and len(sizes[0]) >= 40
    kinds = {kind for kind, _ in runs[0].secrets}
    assert {f"{kind} {i}" for kind in ("loss", "answer", "rows") for i in range(5)} <= kinds
    assert runs[0].found() & runs[1].found() == set()
    # The history holds the sums.
    told = [
        [loss for (kind, _), loss in runs[0].secrets.items() if kind == f"loss {i}"]
        for i in range(5)
    ]
    np.testing.assert_allclose(
        runs[0].history["objective"], (SHARES @ np.array(told))[:2], rtol=1e-9
    )


def test_what_is_in_the_clear_is_what_the_table_names():
    run = Played(METHODS["models"], SECURE)
    assert {kind for kind, _ in run.found(["who"])} == {f"rows {i}" for i in range(5)}
    assert [set(content["fgmp"]) for content in run.replies("who")] == [
        {"rows", "features", "dtype", "key"}
    ] * 5
    for place, _, raw, _ in run.wire:  # who weighs how much is said to nobody else
        assert not any(SHARES[i].tobytes() in raw for i in range(5) if i != place)
    replies = run.replies("answer", "objective")
    assert {name for content in replies for name in fields_of(content)} == {"texts"}
    assert {name for content in replies for name in content.array_records.get("message", {})} == {
        "masked"
    }


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_a_run_that_ends_badly_asks_nobody_in_the_open():
    """What is said at its end of a rise is computed of sums, too."""
    transport = over(federation())
    result = fgmp.simulate(fgmp.FedAvg(learning_rate=2.0), transport, 3, rng=4, aggregator=SECURE)
    assert result.history["objective"][-1] > result.history["objective"][0]
    assert all("trip" in asked for _, asked in transport.grid.asked if asked["ask"] != "who")


WORDS = "could not convert '7345.25 Smith'"


def unreadable(*given):
    raise ValueError(WORDS)


@pytest.mark.parametrize("aggregator", [None, SECURE])
@pytest.mark.parametrize("where", ["load", "run_clients", "objectives"])
def test_the_words_of_an_error_stay_at_the_client(where, aggregator, caplog, monkeypatch):
    load = loader(federation())

    def loads(context, said):
        unreadable_here = (where, context.node_id) == ("load", 101)
        return unreadable(context, said) if unreadable_here else load(context, said)

    grid = Here([client_app(loads)] * 5)
    if where != "load":
        monkeypatch.setattr(fgmp.Federation, where, unreadable)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        transport = OverFlower(grid, fgmp.SquaredLoss(), 4, deadline=10.0)
    history = fgmp.simulate(METHODS["dense"], transport, 1, rng=0, aggregator=aggregator).history
    assert history["clients"][-1] == {"load": 4, "run_clients": 0, "objectives": 5}[where]
    assert np.isnan(history["objective"]).all() == (where == "objectives")
    said = [str(each.message) for each in caught]
    assert ["ValueError at the client" in text for text in said] == [True] * (where == "load")
    assert WORDS in caplog.text and "Smith" not in str(said)
    assert not any(b"Smith" in raw or b"7345.25" in raw for _, _, raw, _ in grid.wire)
