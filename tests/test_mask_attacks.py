"""Servers that lie or keep everything, against clients whose keys last as long as a run.

Each attack is played against `SecAggClient`, where it must fail, and against a client that is naive
in one respect, where it must succeed: so that a test that never finds anything is found out.
"""

import copy
import itertools
from functools import partial

import numpy as np
import pytest
from masked_sums import masked_sum
from scipy.sparse.csgraph import connected_components

from fgmp.flower.meeting import Meeting
from fgmp.privacy import secagg_client
from fgmp.privacy.ledger import Ledger
from fgmp.privacy.masking import Sessions, TooFewClients, sum_under_masks
from fgmp.privacy.neighbours import (
    COLLUDING,
    SECURITY,
    Neighbourhoods,
    log2_of_many_neighbours,
    log2_of_parts,
    sharing_of,
)
from fgmp.privacy.secagg_client import SEED, KeyPair, SecAggClient, mask_of, self_mask
from fgmp.privacy.secret_sharing import SECRET, combine_shares, random_secrets, split_secrets

pytest.importorskip("cryptography")

N, THRESHOLD, VICTIM = 5, 4, 2
SECRET_VECTOR = np.array([7, 2**63, 11], np.uint64)


class Cohort:
    """Five clients, and a server that asks what it likes and keeps what it hears."""

    def __init__(self, kind=SecAggClient):
        self.clients = [kind(i, KeyPair()) for i in range(N)]
        for i, client in enumerate(self.clients):
            client.vector = SECRET_VECTOR if i == VICTIM else np.full(3, i, np.uint64)
        self.opened_keys = {}  # of the victim's pairs: opened in any sum

    def begin(self):
        advertised = [client.advertise_keys() for client in self.clients]
        self.keys = [text for texts in advertised for text in texts]
        self.positions = list(range(N))
        self.texts = [
            client.share_keys(self.positions, self.keys, THRESHOLD) for client in self.clients
        ]

    def agree(self, session="a session"):
        """Begin a session without shares: the server knows the public keys."""
        self.keys = [client.keys.public for client in self.clients]
        for client in self.clients:
            client.kept = {}  # of another session
            client.agree(session, self.keys)

    def upload(self, number, asked=range(N)):
        """Return what clients upload in a sum, by position."""
        uploads = {}
        for i in asked:
            first = ([], [])
            if number == 0:
                first = self.positions, [texts[i][:-SEED] for texts in self.texts]
            uploads[i] = self.clients[i].masked_input(number, *first)[0]
        return uploads

    def unmask(self, uploaded, asked):
        """Return the secrets that the shares of those asked combine to, by position."""
        opened = {i: self.clients[i].unmask(uploaded) for i in asked}
        numbers = [i + 1 for i in asked]
        return [combine_shares(numbers, [opened[i][of] for i in asked]) for of in range(N)]

    def learn_first_keys(self, wrapping_secret):
        """Keep the keys of the victim's pairs, which its wrapping secret tells."""
        others = [i for i in range(N) if i != VICTIM]
        wrapped = b"".join(self.texts[VICTIM][i][-SEED:] for i in others)
        keys = secagg_client.under_wrapping_secret(wrapped, wrapping_secret)
        for index, other in enumerate(others):
            self.opened_keys[other] = keys[index * SEED : (index + 1) * SEED]

    def without_known_masks(self, upload, self_mask_seed, number):
        """Return the victim's upload less its self-mask and every mask that was ever opened."""
        plain = upload.copy()
        if self_mask_seed is not None:
            plain -= self_mask(self_mask_seed, upload)
        for other, key in self.opened_keys.items():
            mask = mask_of(secagg_client.first_mask_key(key, b""), upload, number)
            plain = plain - mask if other > VICTIM else plain + mask
        return plain


class SameMasks(SecAggClient):
    """Naive: two clients derive the same masks in each session."""

    def _pair_keys(self, other, nonce, public):
        return super()._pair_keys(other, bytes(16), public)

    def advertise_keys(self):
        self.kept = {"position": self.position, "nonce": bytes(16)}
        return [bytes(16), self.keys.public]


class OneKey(SecAggClient):
    """Naive: the key of the first sum's masks is that of the later ones, and no session ends."""

    def _pair_keys(self, other, nonce, public):
        keys = super()._pair_keys(other, nonce, public)
        return keys._replace(later_masks=secagg_client.first_mask_key(keys.first_masks, b""))

    def unmask(self, uploaded):
        shares = super().unmask(uploaded)
        self.kept["is_whole"] = True
        return shares


@pytest.mark.parametrize("kind", [SecAggClient, SameMasks])
def test_the_secret_of_a_lost_client_opens_nothing_of_another_session(kind):
    """The client is lost once, its pairs' keys are opened, and in the next session it is back."""
    cohort = Cohort(kind)
    others = [i for i in range(N) if i != VICTIM]
    cohort.begin()
    cohort.upload(0, others)
    cohort.learn_first_keys(cohort.unmask(others, others)[VICTIM])

    cohort.begin()
    uploads = cohort.upload(0)
    seeds = cohort.unmask(cohort.positions, cohort.positions[:THRESHOLD])
    found = cohort.without_known_masks(uploads[VICTIM], seeds[VICTIM], 0)
    assert (found == SECRET_VECTOR).all() == (kind is SameMasks)


@pytest.mark.parametrize("kind", [SecAggClient, OneKey])
def test_the_secret_of_a_lost_client_opens_nothing_of_another_sum_of_its_session(kind):
    """The server says of the first sum that the victim is lost, and asks all for a second one."""
    cohort = Cohort(kind)
    others = [i for i in range(N) if i != VICTIM]
    cohort.begin()
    cohort.upload(0)
    cohort.learn_first_keys(cohort.unmask(others, others)[VICTIM])
    if kind is SecAggClient:
        for client in others:
            with pytest.raises(ValueError, match="number is 1; .* and a first sum of everybody"):
                cohort.upload(1, [client])
        with pytest.raises(ValueError, match="number is 1; .* and a first sum of everybody"):
            cohort.upload(1, [VICTIM])  # which has opened nothing
    # Only with the naive client do the keys fit, had the victim itself uploaded.
    cohort.clients[VICTIM].kept["is_whole"] = True
    upload = cohort.upload(1, [VICTIM])[VICTIM]
    found = cohort.without_known_masks(upload, None, 1)
    assert (found == SECRET_VECTOR).all() == (kind is OneKey)


def test_a_server_that_asks_for_the_same_sum_twice_gets_one_upload_and_one_opening():
    """Another vector under the same masks would tell the difference of two."""
    cohort = Cohort()
    cohort.begin()
    cohort.upload(0)
    for number in (0, 1):  # the first one again; the next one before this one is opened
        with pytest.raises(ValueError, match="expected increasing numbers, and a first sum"):
            cohort.upload(number, [VICTIM])
    cohort.unmask(cohort.positions, cohort.positions)
    for uploaded in (cohort.positions, [i for i in cohort.positions if i != VICTIM]):
        with pytest.raises(ValueError, match="expected shares to be opened once"):
            cohort.clients[0].unmask(uploaded)
    cohort.upload(2)
    for number in (0, 1, 2):
        with pytest.raises(ValueError, match="expected increasing numbers"):
            cohort.upload(number, [VICTIM])
    for client in cohort.clients:
        with pytest.raises(ValueError, match="expected shares to be opened once"):
            client.unmask(cohort.positions)


@pytest.mark.parametrize("has_shares", [True, False])
def test_uploads_of_a_later_sum_open_the_sum_of_everybody_and_of_no_others(has_shares):
    """All sets of uploads, with all that was ever opened: any but the whole one is noise."""
    cohort = Cohort()
    if has_shares:
        cohort.begin()
        cohort.upload(0)
        cohort.unmask(cohort.positions, cohort.positions)
    else:
        cohort.agree()
    for number in (1, 2):
        uploads = cohort.upload(number)
        for size in range(1, N + 1):
            for some in itertools.combinations(range(N), size):
                found = np.add.reduce([uploads[i] for i in some])
                vectors = np.add.reduce([cohort.clients[i].vector for i in some])
                assert (found == vectors).all() == (size == N)


class SameMasksWithoutShares(SecAggClient):
    """Naive: masks do not depend on the name of a session."""

    def agree(self, session, keys):
        super().agree("any", keys)


@pytest.mark.parametrize("kind", [SecAggClient, SameMasksWithoutShares])
def test_two_sessions_without_shares_have_masks_of_their_own(kind):
    """The difference of two uploads under one mask would be that of the vectors."""
    cohort = Cohort(kind)
    uploads = []
    for session, vector in (("one", SECRET_VECTOR), ("two", np.zeros(3, np.uint64))):
        cohort.agree(session)
        cohort.clients[VICTIM].vector = vector
        uploads.append(cohort.upload(1)[VICTIM])
    found = uploads[0] - uploads[1]
    assert (found == SECRET_VECTOR).all() == (kind is SameMasksWithoutShares)


def test_a_client_agrees_once_for_a_session_and_opens_nothing_of_it():
    """Not again, not with another key in its place, and not alone; no share is asked for."""
    cohort = Cohort()
    cohort.agree()
    client = cohort.clients[VICTIM]
    with pytest.raises(ValueError, match="expected shares to be opened once"):
        client.unmask(list(range(N)))
    for kept, keys in (
        (client.kept, cohort.keys),
        ({}, [KeyPair().public for _ in range(N)]),
        ({}, [client.keys.public]),
    ):
        other = SecAggClient(VICTIM if len(keys) > 1 else 0, client.keys, SECRET_VECTOR, kept)
        with pytest.raises(ValueError, match="expected two at least, among them"):
            other.agree("a session", keys)


@pytest.mark.parametrize("n_lost", [0, 1, 2])
def test_a_first_sum_without_shares_is_of_everybody_or_begins_anew_under_the_ledger(n_lost):
    """Its late uploads would open the sum of everybody: a sum of all but one stays closed."""
    ledger, sessions, lost = Ledger([range(N)]), Sessions(), range(n_lost)
    pairs = [KeyPair() for _ in range(N)]
    sessions.public_keys.update({i: pair.public for i, pair in enumerate(pairs)})
    trips = []

    def trip(request):
        trips.append(request.trip)
        replies = {}
        for position in set(request.arguments) - set(lost):
            name = (request.session, position)
            if request.trip == "advertise_keys" or request.keys:
                sessions.clients[name] = SecAggClient(position, pairs[position])
            client = sessions.clients[name]
            client.vector = np.full(3, position, np.uint64)
            if request.keys:
                client.agree(request.session, request.keys)
            replies[position] = getattr(client, request.trip)(**request.arguments[position])
        return replies

    def release(uploaded):
        return np.array(ledger.choose(uploaded.tolist(), 3), int)

    arguments = (trip, N, 3, release, b"", sessions, range(N))
    if n_lost == 1:
        with pytest.raises(TooFewClients, match="would tell of single ones"):
            sum_under_masks(*arguments)
        return
    for _ in range(2):
        outcome = sum_under_masks(*arguments)
        assert outcome.uploaded.tolist() == list(range(n_lost, N))
        assert outcome.total.tolist() == [sum(range(n_lost, N))] * 3
    if not n_lost:
        assert trips == ["masked_input"] * 2


def test_the_sum_that_a_late_upload_completes_was_in_the_ledger_before_it_was_asked_for():
    """A client is late in a later sum. The server, which keeps all uploads, has the sum in the end.

    The sum of the others, beside it, would tell what the client sent: it stays closed.
    """
    ledger, sessions, present = Ledger(), Sessions(), set(range(N))

    def trip(request):
        replies = {}
        for position in present.intersection(request.arguments):
            name = (request.session, position)
            if request.trip == "advertise_keys":
                sessions.clients[name] = SecAggClient(position, KeyPair())
            client = sessions.clients[name]
            client.vector = np.full(3, position, np.uint64)
            replies[position] = getattr(client, request.trip)(**request.arguments[position])
        return replies

    def release(uploaded):
        return np.array(ledger.choose(uploaded.tolist(), THRESHOLD), int)

    for _ in range(2):
        outcome = sum_under_masks(trip, N, THRESHOLD, release, sessions=sessions)
        assert outcome.uploaded.tolist() == list(range(N))
    present.remove(VICTIM)
    with pytest.raises(TooFewClients, match="would tell of single ones"):
        sum_under_masks(trip, N, THRESHOLD, release, sessions=sessions)
    assert ledger.sets == [frozenset(range(N))]


def test_sums_side_by_side_have_masks_of_their_own():
    """In branches of one session, whose questions travel together, and after one of them ended."""
    sessions, used, away = Sessions(), [], []

    def trip(request):
        replies = {}
        for position, arguments in request.arguments.items():
            name = (request.session, position)
            if request.trip == "advertise_keys":
                sessions.clients[name] = SecAggClient(position, KeyPair())
            if request.trip == "masked_input":
                number = arguments["number"]
                if (number, position) in away:
                    away.remove((number, position))
                    continue
                used.append((*name, number))
            client = sessions.clients[name]
            client.vector = np.full(3, position, np.uint64)
            replies[position] = getattr(client, request.trip)(**arguments)
        return replies

    def total(branch):
        return sum_under_masks(meeting.ask, N, THRESHOLD, sessions=branch).total.tolist()

    meeting = Meeting(lambda requests: [trip(request) for request in requests])
    for lost in ([], [], [(4, VICTIM)], []):
        away += lost
        tasks = [partial(total, branch) for branch in (sessions, sessions.branch())]
        everybody, once_lost = meeting.together(tasks)
        assert everybody == [sum(range(N))] * 3
        assert once_lost == everybody
        assert not away
    assert {number for *_, number in used} == set(range(7))
    assert len(set(used)) == len(used)


def test_a_client_that_is_asked_twice_at_once_uploads_two_vectors_under_one_mask():
    """Two processes begin with the same state: docs/promises.md says that this is not hindered."""
    cohort = Cohort()
    cohort.begin()
    cohort.upload(0)
    cohort.unmask(cohort.positions, cohort.positions)
    victim = cohort.clients[VICTIM]
    uploads = []
    for vector in (SECRET_VECTOR, np.zeros(3, np.uint64)):
        process = SecAggClient(VICTIM, victim.keys, vector, copy.deepcopy(victim.kept))
        uploads.append(process.masked_input(1, [], [])[0])
    assert (uploads[0] - uploads[1] == SECRET_VECTOR).all()


def test_a_later_sum_that_the_ledger_refuses_is_not_asked_for():
    """The uploads alone would open it."""
    sessions, asked = Sessions(), []
    vectors = [np.full(3, i, np.uint64) for i in range(N)]
    masked_sum(vectors, THRESHOLD, {}, sessions)

    def trip(request):
        asked.append(request.trip)
        return {}

    identity = (tuple(range(N)), N, THRESHOLD, b"")
    assert identity in sessions.whole
    with pytest.raises(TooFewClients):
        sum_under_masks(
            trip, N, THRESHOLD, lambda uploaded: uploaded[:0], b"", sessions, identity[0]
        )
    assert asked == ["advertise_keys"]  # of another session, in which a sum is opened at the end


def test_a_server_that_tells_two_halves_different_things_never_has_both_secrets():
    """Whoever is asked opens one share of each client: of the self-mask, or of the wrapping secret.

    The threshold is above half of the holders, so that they are too few for both.
    """
    others = [i for i in range(N) if i != VICTIM]
    for n_told_in in range(1, N):
        cohort = Cohort()
        cohort.begin()
        seed = cohort.clients[VICTIM].kept["self_mask_seed"]
        cohort.upload(0)
        holders_asked = [VICTIM, *others[: n_told_in - 1]]
        told_out = others[n_told_in - 1 :]
        shares = {i: cohort.clients[i].unmask(cohort.positions)[VICTIM] for i in holders_asked}
        shares |= {i: cohort.clients[i].unmask(others)[VICTIM] for i in told_out}
        assert min(len(holders_asked), len(told_out)) < THRESHOLD
        # And a client that is told that it has no part opens nothing at all.
        numbers = [i + 1 for i in told_out[:THRESHOLD]]
        found = combine_shares(numbers, [shares[i] for i in told_out[:THRESHOLD]])
        is_both = len(holders_asked) >= THRESHOLD and len(told_out) >= THRESHOLD
        assert not is_both
        if len(told_out) < THRESHOLD:
            assert found != seed


def test_what_a_client_gets_again_or_too_late_is_refused():
    """Another session with old keys, or a list without it."""
    cohort = Cohort()
    cohort.begin()
    client = cohort.clients[0]
    with pytest.raises(ValueError, match="expected this client among them, and once"):
        client.share_keys(cohort.positions, cohort.keys, THRESHOLD)
    old_keys = cohort.keys
    client.advertise_keys()
    with pytest.raises(ValueError, match="another key of this client"):
        client.share_keys(cohort.positions, old_keys, THRESHOLD)


def test_a_sum_that_is_given_up_begins_anew_and_nothing_of_it_was_opened(monkeypatch):
    """A client is away in the third sum of a session, and its upload of that sum may come late."""
    sessions, vectors = Sessions(), [np.full(3, i, np.uint64) for i in range(N)]
    opened, shared = [], []
    unmask, share_keys = SecAggClient.unmask, SecAggClient.share_keys

    def recorded_unmask(self, uploaded):
        opened.append((self.kept["number"], self.position))
        return unmask(self, uploaded)

    def recorded_share_keys(self, positions, keys, threshold):
        shared.append(self.position)
        return share_keys(self, positions, keys, threshold)

    for _ in range(2):
        masked_sum(vectors, THRESHOLD, {}, sessions)
    monkeypatch.setattr(SecAggClient, "unmask", recorded_unmask)
    monkeypatch.setattr(SecAggClient, "share_keys", recorded_share_keys)
    outcome = masked_sum(vectors, THRESHOLD, {VICTIM: "masked_input"}, sessions)
    assert outcome.total.tolist() == [0 + 1 + 3 + 4] * 3
    assert {number for number, _ in opened} == {0}  # not of the third sum of the old session
    assert shared == list(range(N))


@pytest.mark.parametrize(("n_holders", "threshold"), [(2, 2), (5, 3), (7, 7), (129, 65), (9, 1)])
def test_any_threshold_of_shares_combines_to_the_secrets(n_holders, threshold):
    """Against the polynomial in Python's integers, too."""
    secrets = random_secrets(3)
    shares = split_secrets(secrets, n_holders, threshold)
    rng = np.random.default_rng(0)
    for _ in range(5):
        numbers = (rng.permutation(n_holders)[:threshold] + 1).tolist()
        found = combine_shares(numbers, [shares[number - 1] for number in numbers])
        assert found == b"".join(secrets)
    # Lagrange's formula in rational arithmetic modulo the prime.
    values = [int.from_bytes(shares[i][:2], "little") for i in range(threshold)]
    total = 0
    for i, value in enumerate(values, 1):
        factor = value
        for j in range(1, threshold + 1):
            if j != i:
                factor = factor * j * pow(j - i, -1, 65521)
        total += factor
    assert total % 65521 == int.from_bytes(secrets[0][:2], "little")
    if threshold > 2:
        fewer = list(range(1, threshold))
        assert combine_shares(fewer, shares[: threshold - 1]) != b"".join(secrets)


def test_shares_fewer_than_the_threshold_are_uniform_whatever_the_secret_is():
    """Two secrets, as different as can be: the distribution of a share is the same."""
    counts = []
    for secret in (bytes(SECRET), b"\xf0\xff" * 8):
        shares = b"".join(split_secrets([secret], 3, 2)[0] for _ in range(20_000))
        counts.append(np.bincount(np.frombuffer(shares, "<u2") // 4096, minlength=16))
    expected = 20_000 * 8 / 16
    for count in counts:  # the last bin is short of fifteen values of 4096
        assert np.abs(count / expected - 1).max() < 0.05


def test_masks_are_the_stream_of_chacha20_and_keys_are_derived_by_hkdf():
    """Against the other interface of the library."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    key, like = bytes(range(32)), np.zeros(100, np.uint64)
    for number in (0, 5):
        counter_and_nonce = (1).to_bytes(4, "little") + number.to_bytes(12, "little")
        cipher = Cipher(algorithms.ChaCha20(key, counter_and_nonce), mode=None)
        stream = cipher.encryptor().update(bytes(800))
        assert mask_of(key, like, number).tobytes() == stream
    derived = HKDF(SHA256(), 32, None, b"purpose").derive(b"secret")
    extracted = secagg_client._extracted(b"secret")
    assert secagg_client._expanded(extracted, b"purpose") == derived


def keys_of(n_clients, seed=0):
    rng = np.random.default_rng(seed)
    # Of 48 bytes each, so that a seed has the keys that it had with a nonce before them.
    return [rng.bytes(16 + 32)[16:] for _ in range(n_clients)]


def neighbours_in(n_clients, seed=0):
    """Return who is whose neighbour, as a matrix of bool."""
    neighbourhoods = Neighbourhoods(keys_of(n_clients, seed), -(-2 * n_clients // 3))
    is_neighbour = np.zeros((n_clients, n_clients), bool)
    for client in range(n_clients):
        holders = neighbourhoods.holders_of(client)
        assert holders == sorted(set(holders)) and client in holders
        is_neighbour[client, holders] = True
    np.fill_diagonal(is_neighbour, False)
    return is_neighbour


def is_connected(is_neighbour, rest):
    return connected_components(is_neighbour[np.ix_(rest, rest)])[0] == 1


def test_everybody_is_a_neighbour_up_to_129_clients_and_128_are_in_larger_cohorts():
    """Neighbours are mutual, their order is another for other keys."""
    for n_clients in (2, 3, 58, 129):
        assert sharing_of(n_clients, 2) == (n_clients - 1, 2)
        assert neighbours_in(n_clients).sum() == n_clients * (n_clients - 1)
    for n_clients in (130, 200, 1000):
        is_neighbour = neighbours_in(n_clients)
        assert (is_neighbour == is_neighbour.T).all() and (is_neighbour.sum(axis=0) == 128).all()
        assert sharing_of(n_clients, -(-2 * n_clients // 3)) == (128, 65)
    assert (neighbours_in(200, seed=1) != neighbours_in(200, seed=2)).any()


def test_bounds_hold_against_counting_and_the_parameters_keep_them():
    """Brute force over all sets of bad clients on a small ring, and scipy's distribution."""
    from scipy.stats import hypergeom

    n_clients, degree, n_bad = 12, 4, 6
    distance = np.abs(np.subtract.outer(np.arange(n_clients), np.arange(n_clients)))
    ring = np.isin(np.minimum(distance, n_clients - distance), [1, 2])
    n_cut = n_sets = 0
    for bad in itertools.combinations(range(n_clients), n_bad):
        rest = np.setdiff1d(np.arange(n_clients), bad)
        n_cut += not is_connected(ring, rest)
        n_sets += 1
    assert 0 < n_cut / n_sets <= 2 ** log2_of_parts(n_clients, n_bad, degree)
    assert log2_of_parts(n_clients, degree - 1, degree) == -np.inf

    tail = np.log2(1000) + hypergeom.logsf(64, 999, 200, 128) / np.log(2)
    assert log2_of_many_neighbours(1000, 200, 128, 65) == pytest.approx(tail, rel=1e-9)
    for n_clients in (130, 500, 1000, 3000, 10_000):
        for threshold in (-(-2 * n_clients // 3), n_clients // 2 + 1, n_clients):
            degree, share_threshold = sharing_of(n_clients, threshold)
            n_colluding = int(COLLUDING * n_clients)
            n_bad = n_colluding + n_clients - threshold
            assert 2 * share_threshold > degree + 1
            assert log2_of_parts(n_clients, n_bad, degree) <= -SECURITY
            assert (
                log2_of_many_neighbours(n_clients, n_colluding, degree, share_threshold)
                <= -SECURITY
            )


def test_sums_with_neighbours_are_the_plain_ones_with_clients_lost_anywhere():
    """200 clients, of whom 30 are lost before each of the trips but the first."""
    rng, n_clients, sessions = np.random.default_rng(0), 200, Sessions()
    for n_lost in (0, 0, 10):
        vectors = list(rng.integers(0, 2**64, (n_clients, 3), np.uint64))
        lost_clients = rng.permutation(n_clients)[: 3 * n_lost].reshape(3, n_lost)
        trips = ("share_keys", "masked_input", "unmask")
        lost = {
            int(client): trip
            for trip, group in zip(trips, lost_clients, strict=True)
            for client in group
        }
        outcome = masked_sum(vectors, 134, lost, sessions)
        there = [i for i in range(n_clients) if lost.get(i, "unmask") == "unmask"]
        assert outcome.uploaded.tolist() == there
        np.testing.assert_array_equal(outcome.total, np.sum([vectors[i] for i in there], axis=0))


def test_a_client_with_too_few_neighbours_left_loses_the_round_and_nothing_is_opened():
    """Enough clients stay, but 70 of the 129 that hold shares of one of them are gone."""
    n_clients, sessions = 200, Sessions()
    vectors = [np.zeros(2, np.uint64)] * n_clients
    for client in range(n_clients):
        sessions.key_pairs[client] = KeyPair()
    keys = [pair.public for pair in sessions.key_pairs.values()]
    holders = Neighbourhoods(keys, 110).holders_of(VICTIM)
    gone = [holder for holder in holders if holder != VICTIM][:70]
    with pytest.raises(TooFewClients):
        masked_sum(vectors, 110, dict.fromkeys(gone, "unmask"), sessions)
    assert not sessions.whole
