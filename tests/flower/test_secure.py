"""Secure sums over Flower's messages: masked on the wire, and in total what the plain fixed-point sums are."""

import numpy as np
import pytest
from cryptography.fernet import InvalidToken
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ConfigRecord
from flwr.common.secure_aggregation.crypto.shamir import create_shares
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from here import Here, grid_of, over, spoiling

import fgmp
from fgmp.flower import OverFlower
from fgmp.flower.primitives import FLOWER
from fgmp.flower.wire import array_record, message_of
from fgmp.running.primitives import derived

FED = fgmp.make_sparse_regression(5, 40, 30, 3, rng=0)
SECURE = fgmp.SecureSum()
METHODS = [
    fgmp.FedGradMP(3, batch_size=10),
    fgmp.SharedSupportGradMP(3),
    fgmp.FedAvg(learning_rate=0.05, local_iterations=2),
    fgmp.FedDualAvg(l1_weight=0.01, learning_rate=0.05),
]
LOST = 3


def compared(history):
    skipped = ("seconds", "relative_error", "bytes_up", "bytes_down")
    return {n: c.tolist() for n, c in history.items() if n not in skipped and not n.startswith("left_out")}


def longer_by(n_clients):
    """What Flower's keys (PEM), letters (Fernet) and shares (padded) add to an exchange: bytes up, bytes down."""
    keys, letters, shares = 2 * (215 - 32), n_clients * (n_clients - 1) * (184 - 48), n_clients**2 * (36 - 16)
    return [n_clients * keys + letters + shares, n_clients**2 * keys + letters]


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("cohort_size", [None, 3])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_bits_of_the_secure_simulation(method, cohort_size, fresh):
    """Masks cancel exactly, so that the sums are those of `simulate(secure=...)`."""
    there = fgmp.federate(method, over(FED, fresh=fresh), 2, cohort_size, rng=4, secure=SECURE)
    here = fgmp.simulate(method, FED, 2, cohort_size, rng=4, secure=SECURE)
    np.testing.assert_array_equal(there.x, here.x)
    assert compared(there.history) == compared(here.history)
    more = [there.history[name] - here.history[name] for name in ("bytes_up", "bytes_down")]
    exchanges = np.arange(3) * len(method.exchanges())
    np.testing.assert_array_equal(more, np.outer(longer_by(cohort_size or 5), exchanges))
    # And near the sums without masks, as near as the resolution.
    plain = fgmp.simulate(method, FED, 2, cohort_size, rng=4)
    np.testing.assert_allclose(there.x, plain.x, atol=1e-8)


class Killing(Here):
    """The node of one client is gone before a trip of the first secure sum, for good."""

    at = ""

    def push_messages(self, messages):
        if any(message.content.config_records["fgmp"].get("trip") == self.at for message in messages):
            self.gone.add(LOST)
        return super().push_messages(messages)


@pytest.mark.parametrize(("trip", "is_in"), [("keys", False), ("shares", False), ("upload", False), ("open", True)])
def test_a_client_killed_between_the_stages(trip, is_in):
    grid = grid_of(FED)
    grid.__class__, grid.at = Killing, trip
    transport = OverFlower(grid, FED.loss, 5, deadline=0.3, ask_objectives=False)
    there = fgmp.federate(METHODS[0], transport, 1, rng=4, secure=SECURE)
    faults = [] if is_in else fgmp.DropOut(clients=[LOST])
    here = fgmp.simulate(METHODS[0], FED, 1, rng=4, secure=SECURE, faults=faults)
    np.testing.assert_array_equal(there.x, here.x)
    assert there.history["clients"][-1] == (5 if is_in else 4)
    assert there.history["left_out_late"][-1] == (0 if is_in else 1)


def test_fewer_than_the_threshold_is_an_error():
    transport = over(FED, deadline=0.3)
    transport.grid.gone |= {1, 2}
    with pytest.raises(ValueError, match="3 of 5 clients left; expected at least 4, the threshold"):
        fgmp.federate(METHODS[0], transport, 1, rng=4, secure=SECURE)


class Listening(Here):
    """What the server could see of the uploads."""

    def pull_messages(self, ids):
        found = super().pull_messages(ids)
        for reply in found:
            arrays = reply.content.array_records.get("message") if reply.has_content() else None
            if arrays is not None:
                self.seen.append(message_of(arrays))
        return found


def test_the_server_sees_masks_only():
    grid = grid_of(FED)
    grid.__class__, grid.seen = Listening, []
    transport = OverFlower(grid, FED.loss, 5, ask_objectives=False)
    method = fgmp.FedAvg(learning_rate=0.05)
    fgmp.federate(method, transport, 1, rng=4, secure=SECURE)
    assert len(grid.seen) == 5 and all(set(message) == {"masked"} for message in grid.seen)
    plain = [method.exchanges()[0].answer(c, {"dense": np.zeros(30)}, None)["dense"] for c in FED.clients]
    for message, answer in zip(grid.seen, plain, strict=True):
        unmasked = SECURE.encoded(answer, 0.2)
        assert not (message["masked"] == unmasked).any()
        # Uniform on 64 bits: the mean of 30 is within 5 standard errors of the middle.
        assert abs(message["masked"].astype(float).mean() / 2**64 - 0.5) < 5 * np.sqrt(1 / 12 / 30)


class Asking(Here):
    """A server that wants more than it should get: it asks for the shares twice, as if nobody had uploaded."""

    def push_messages(self, messages):
        trips = [message.content.config_records["fgmp"].get("trip") for message in messages]
        if trips[0] == "open" and not self.errors:
            super().push_messages(messages)
            self.replies.clear()
            for message in messages:
                asked = message.content.config_records["fgmp"]
                message.content["fgmp"] = ConfigRecord({**asked, "uploaded": [p for p in asked["uploaded"] if p != 0]})
                place = message.metadata.dst_node_id - 100
                assert self.reply(place, message).error.reason.endswith("ValueError at the client; its log says more")
                self.errors.append(place)
            return []
        return super().push_messages(messages)


def test_a_client_opens_its_shares_once(caplog):
    grid = grid_of(FED)
    grid.__class__, grid.errors = Asking, []
    transport = OverFlower(grid, FED.loss, 5, deadline=0.3, ask_objectives=False)
    with pytest.raises(ValueError, match="clients left"):
        fgmp.federate(METHODS[0], transport, 1, rng=4, secure=SECURE)
    assert len(grid.errors) == 5 == caplog.text.count("ValueError: this client opens its shares once")


def test_a_low_threshold_is_refused_by_the_clients():
    """With half of them or fewer a server could play two halves against each other."""
    with pytest.raises(ValueError, match="0 of 5 clients left"):
        fgmp.federate(METHODS[0], over(FED), 1, rng=4, secure=fgmp.SecureSum(threshold=2))


def longer(reply):
    arrays = reply.content.array_records.get("message")
    if arrays is not None:
        message = message_of(arrays)
        reply.content["message"] = array_record({"masked": np.append(message["masked"], np.uint64(7))})


def told(**said):
    def spoil(reply):
        mine = reply.content.config_records["fgmp"]
        if "layout" in mine:
            reply.content["fgmp"] = ConfigRecord({**mine, **said})

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [longer, told(layout="[]"), told(layout="x"), told(layout='[["dense", [-30], "<f8"]]'), told(layout=3)],
)
def test_an_upload_that_does_not_fit_is_left_out_and_its_masks_taken_away(spoil):
    there = fgmp.federate(METHODS[2], over(FED, {LOST: [spoiling(spoil, "secure")]}), 2, rng=4, secure=SECURE)
    here = fgmp.simulate(METHODS[2], FED, 2, rng=4, secure=SECURE, faults=fgmp.DropOut(clients=[LOST]))
    np.testing.assert_array_equal(there.x, here.x)
    assert there.history["left_out_malformed"].tolist() == [0, 1, 2]


def keyed(public):
    def spoil(reply):
        mine = reply.content.config_records["fgmp"]
        if "public" in mine:
            reply.content["fgmp"] = ConfigRecord({**mine, "public": [mine["public"][0], public]})

    return spoil


OTHER_CURVE = ec.generate_private_key(ec.SECP256R1()).public_key()


@pytest.mark.parametrize("public", [b"", b"x" * 215, public_key_to_bytes(OTHER_CURVE)])
def test_a_key_that_is_none_is_left_out_before_anybody_uses_it(public):
    there = fgmp.federate(METHODS[2], over(FED, {LOST: [spoiling(keyed(public), "secure")]}), 1, rng=4, secure=SECURE)
    here = fgmp.simulate(METHODS[2], FED, 1, rng=4, secure=SECURE, faults=fgmp.DropOut(clients=[LOST]))
    np.testing.assert_array_equal(there.x, here.x)
    assert there.history["left_out_malformed"].tolist() == [0, 1]


def opening(reply):
    mine = reply.content.config_records["fgmp"]
    if "shares" in mine:
        false = [share[:-1] + bytes([share[-1] ^ 1]) for share in mine["shares"]]
        reply.content["fgmp"] = ConfigRecord({**mine, "shares": false})


def test_a_share_that_is_another_is_an_error_and_no_sum():
    transport = over(FED, {0: [spoiling(opening, "secure")]})
    with pytest.raises(ValueError, match="shares of client 0 of the cohort do not fit together"):
        fgmp.federate(METHODS[2], transport, 1, rng=4, secure=SECURE)


@pytest.mark.parametrize("length", [1, 16, 200])
def test_what_is_sealed_and_split_is_found_again_by_so_many_as_the_threshold(length):
    secret, seeds = bytes(range(length)), [b"a" * 16, b"b" * 16]
    one, two = (FLOWER.agreed(seeds[i], FLOWER.public(seeds[1 - i]), b"letter") for i in (0, 1))
    assert one == two != FLOWER.agreed(seeds[0], FLOWER.public(seeds[1]), b"mask")
    assert FLOWER.open(two, FLOWER.seal(one, secret)) == secret
    shares = list(enumerate(FLOWER.split(secret, 3, 5), start=1))
    assert FLOWER.joined([shares[i] for i in (4, 0, 2)]) == secret
    assert create_shares(secret, 3, 5)[1][:4] == shares[1][1][:4]
    with pytest.raises(InvalidToken):
        FLOWER.open(derived(one, b"another"), FLOWER.seal(one, secret))


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_a_client_that_diverged_says_so_itself():
    federation = fgmp.Federation(FED.clients[:4], np.ones(4))
    huge = fgmp.Client(np.eye(30) * 1e150, np.ones(30), fgmp.SquaredLoss(), 4)
    mixed = fgmp.Federation((*federation.clients, huge), np.ones(5))
    method = fgmp.FedAvg(learning_rate=0.05, local_iterations=4)
    there = fgmp.federate(method, over(mixed, weights="equal"), 1, rng=4, secure=SECURE)
    assert there.history["left_out_not_finite"][-1] == 1
    assert there.history["clients"][-1] == 4 and np.isfinite(there.x).all()


def test_a_method_that_is_no_sum_is_refused():
    with pytest.raises(ValueError, match="is no sum"):
        fgmp.federate(fgmp.SharedSupportGradMP(3, fgmp.LargestEntries()), over(FED), 1, rng=4, secure=SECURE)


def test_a_node_that_was_started_again_between_two_rounds_is_told_again():
    transport = over(FED)

    def restart(history):
        transport.grid.restarted.add(LOST)
        return False

    there = fgmp.federate(METHODS[2], transport, 3, rng=4, secure=SECURE, callback=restart)
    here = fgmp.simulate(METHODS[2], FED, 3, rng=4, secure=SECURE)
    np.testing.assert_array_equal(there.x, here.x)
