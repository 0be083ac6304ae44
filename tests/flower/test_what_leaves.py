"""Every byte of a run over Flower: with secure sums nothing of one client is in it but is documented."""

import warnings
from functools import cache

import numpy as np
import pytest
from flwr.common.serde import recorddict_to_proto
from in_process_grid import FIRST_NODE, InProcessGrid, load_from, transport_to

import fgmp
from fgmp.flower import OverFlower, client_app
from fgmp.flower.records import fields_of
from fgmp.sparse_model import SparseModel

# Where all updates are lost.
pytestmark = pytest.mark.filterwarnings("ignore:no update arrived")

ROWS = [10007, 10103, 10211, 10313, 10427]
SHARES = np.array(ROWS) / sum(ROWS)
CLIENTS = range(len(ROWS))
SECURE = fgmp.SecureSum()
METHODS = {
    "models": fgmp.FedGradMP(3, batch_size=100),
    "sums": fgmp.SharedSupportGradMP(3),
    "dense": fgmp.FedAvg(learning_rate=0.05, local_iterations=2),
}


@cache
def federation(seed=0):
    """Return clients whose rows, losses and supports are each their own."""
    rng = np.random.default_rng(seed)
    features = [rng.standard_normal((n_rows, 16)) for n_rows in ROWS]
    truths = [np.bincount([i, i + 5, i + 11], [3.0, 2.0, 1.5], 16) for i in CLIENTS]
    noise = [0.1 * (i + 1) * rng.standard_normal(n_rows) for i, n_rows in enumerate(ROWS)]
    targets = [features[i] @ truths[i] + noise[i] for i in CLIENTS]
    return fgmp.Federation.from_arrays(features, targets)


class RecordedRun:
    """A run with all that was on the wire, and what each client knows of itself.

    Attributes
    ----------
    secrets : dict
        Rows, updates, supports and losses, by a name of kind and client and by a number.
    sent : list of Sent
    history : dict of ndarray
    """

    def __init__(self, method, secure, seed=0):
        self.secrets = {(f"rows {i}", "rows"): n_rows for i, n_rows in enumerate(ROWS)}
        transport = transport_to(federation(seed))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fgmp.LocalClients, "run_clients", self._recording_updates())
            patch.setattr(fgmp.LocalClients, "objectives", self._recording_losses())
            result = fgmp.simulate(method, transport, 1, rng=4, aggregator=secure)
        self.sent = transport.grid.sent
        self.history = result.history

    def _recording_updates(self):
        honest = fgmp.LocalClients.run_clients

        def run_clients(client, *arguments):
            updates = honest(client, *arguments)
            client_id = int(client.info.client_ids[0])
            number = len(self.secrets)
            update = updates[0]
            if isinstance(update, SparseModel):
                self.secrets[f"support {client_id}", number] = update.support
                update = update.values
            self.secrets[f"update {client_id}", number] = update
            return updates

        return run_clients

    def _recording_losses(self):
        honest = fgmp.LocalClients.objectives

        def objectives(client, *arguments):
            indices, values = honest(client, *arguments)
            name = f"loss {int(client.info.client_ids[0])}"
            self.secrets[name, len(self.secrets)] = float(values[0])
            return indices, values

        return objectives

    def secrets_found(self, questions=("answer", "objective")):
        """Return the names of the secrets that occur in messages about some questions."""
        messages = [sent for sent in self.sent if sent.question["ask"] in questions]
        texts = [repr(dict(fields_of(sent.content))).encode() for sent in messages]
        whole = b"\n".join([*(sent.raw for sent in messages), *texts])
        return {
            name
            for name, secret in self.secrets.items()
            if any(form in whole for form in forms_of(secret))
        }

    def replies(self, *questions):
        """Return the contents of the replies to some questions."""
        contents = [sent.content for sent in self.sent if sent.question["ask"] in questions]
        return [content for content in contents if "ask" not in fields_of(content)]


def forms_of(secret):
    """Return how a secret may look: as bytes of any type, as text, as integers under any weight."""
    array = np.ravel(secret)
    if array.dtype.kind == "i":
        raw = {array.astype(dtype).tobytes() for dtype in ("<i4", "<i8", "<f8")}
        texts = {comma.join(map(str, array.tolist())).encode() for comma in (",", ", ")}
        return raw | texts
    values = array[np.abs(array) > 1e-3].astype(float)
    doubles = {value.tobytes() for value in values}
    texts = {repr(float(value)).encode() for value in values}
    pairs = {values[i : i + 2].astype("<f4").tobytes() for i in range(len(values) - 1)}
    integers = {
        bytes(entry)
        for weight in (1.0, *SHARES)
        for entry in SECURE.encoded(values, weight).view("V8").tolist()
    }
    return doubles | texts | pairs | integers


@cache
def secure_run(name, seed=0, repetition=0):
    """Return a recorded run with secure sums; repetitions differ in masks and keys."""
    return RecordedRun(METHODS[name], SECURE, seed)


def names_of(*kinds):
    """Return the names of the secrets of some kinds, of all clients."""
    return {f"{kind} {i}" for kind in kinds for i in CLIENTS}


@pytest.mark.parametrize("name", METHODS)
def test_run_in_the_open_shows_each_client(name):
    """All that the other tests look for is there, so that they could fail."""
    found = {secret for secret, _ in RecordedRun(METHODS[name], None).secrets_found()}
    kinds = ["loss", "update", *(["support"] if name == "models" else [])]
    assert found == names_of(*kinds)


@pytest.mark.parametrize("name", METHODS)
def test_run_with_secure_sums_shows_no_client_in_any_byte(name):
    """What is found in two runs, whose masks and keys differ, is no accident."""
    first, second = secure_run(name), secure_run(name, repetition=1)
    assert names_of("loss", "update", "rows") <= {secret for secret, _ in first.secrets}
    assert first.secrets_found() & second.secrets_found() == set()


@pytest.mark.parametrize("name", METHODS)
def test_run_with_secure_sums_has_replies_of_sizes_without_data(name):
    """Two runs on other data have replies of the same numbers of bytes."""
    sizes = [
        [
            recorddict_to_proto(content).ByteSize()
            for content in secure_run(name, seed).replies("answer", "objective")
        ]
        for seed in (0, 1)
    ]
    assert sizes[0] == sizes[1] and len(sizes[0]) >= 40


@pytest.mark.parametrize("name", METHODS)
def test_history_with_secure_sums_has_the_weighted_mean_of_the_losses(name):
    """The server has the sums, and these are right."""
    run = secure_run(name)
    losses = [
        [loss for (secret, _), loss in run.secrets.items() if secret == f"loss {i}"]
        for i in CLIENTS
    ]
    expected = (SHARES @ np.array(losses))[:2]
    np.testing.assert_allclose(run.history["objective"], expected, rtol=1e-9)


def test_report_of_a_client_has_what_the_table_names():
    """Rows, features, precision, key and public key, in the clear and once."""
    run = secure_run("models")
    assert {secret for secret, _ in run.secrets_found(["who"])} == names_of("rows")
    reports = [set(content["fgmp"]) for content in run.replies("who")]
    assert reports == [{"rows", "features", "dtype", "key", "public_key"}] * 5


def test_share_of_a_client_is_sent_to_nobody_else():
    """Each client learns its own share of the weight, and the total."""
    for sent in secure_run("models").sent:
        others = [SHARES[i] for i in CLIENTS if i != sent.client_index]
        assert not any(share.tobytes() in sent.raw for share in others)


def test_reply_under_masks_has_texts_and_a_masked_vector_only():
    """These are public keys, encrypted shares, and what opens the masks of a sum."""
    replies = secure_run("models").replies("answer", "objective")
    assert {name for content in replies for name in fields_of(content)} == {"texts"}
    records = [content.array_records.get("message", {}) for content in replies]
    assert {name for record in records for name in record} == {"masked"}


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_run_that_ends_badly_asks_nobody_in_the_open():
    """The warning of a rise, at its end, is made of sums, too."""
    transport = transport_to(federation())
    diverging = fgmp.FedAvg(learning_rate=2.0)
    result = fgmp.simulate(diverging, transport, 3, rng=4, aggregator=SECURE)
    assert result.history["objective"][-1] > result.history["objective"][0]
    questions = [question for _, question in transport.grid.questions if question["ask"] != "who"]
    assert all("trip" in question for question in questions)


WORDS = "could not convert '7345.25 Smith'"


def raise_with_words(*arguments):
    """Raise an error whose words are data."""
    raise ValueError(WORDS)


@pytest.mark.parametrize("aggregator", [None, SECURE])
@pytest.mark.parametrize(
    ("where", "n_accepted"), [("load", 4), ("run_clients", 0), ("objectives", 5)]
)
def test_words_of_an_error_stay_at_the_client(where, n_accepted, aggregator, caplog, monkeypatch):
    """The server learns its class, whether it comes from loading, an update or an objective."""
    honest = load_from(federation())

    def load(context, settings):
        is_broken = where == "load" and context.node_id == FIRST_NODE + 1
        return raise_with_words() if is_broken else honest(context, settings)

    grid = InProcessGrid([client_app(load)] * 5)
    if where != "load":
        monkeypatch.setattr(fgmp.LocalClients, where, raise_with_words)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        transport = OverFlower(grid, fgmp.SquaredLoss(), 4, deadline=10.0)
    history = fgmp.simulate(METHODS["dense"], transport, 1, rng=0, aggregator=aggregator).history

    assert history["clients"][-1] == n_accepted
    assert np.isnan(history["objective"]).all() == (where == "objectives")
    warned = [str(each.message) for each in caught]
    assert ["ValueError at the client" in text for text in warned] == [True] * (where == "load")
    assert WORDS in caplog.text and "Smith" not in str(warned)
    assert not any(b"Smith" in sent.raw or b"7345.25" in sent.raw for sent in grid.sent)
