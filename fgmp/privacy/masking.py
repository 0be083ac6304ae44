"""Sums under masks: the arithmetic of secure aggregation, and every message of it.

The protocol is that of K. Bonawitz et al., Practical secure aggregation for privacy-preserving
machine learning, CCS 2017, with neighbours as in J. Bell et al., CCS 2020
(`fgmp.privacy.neighbours`). It has four trips between the server and the clients:

==================  =====================  ========================================================
trip                in the papers          what a client sends
==================  =====================  ========================================================
``advertise_keys``  AdvertiseKeys          a nonce, and its public key
``share_keys``      ShareKeys              shares of its secrets, encrypted for each neighbour
``masked_input``    MaskedInputCollection  its vector, under masks that cancel in the sum
``unmask``          Unmasking              the shares that take the rest of the masks away
==================  =====================  ========================================================

**A session is used for many sums.** The first takes all four trips. If everybody is in it, each
later sum takes one: its masks are derived from what two neighbours have agreed on and from its
number in the session, and they cancel in the sum of everybody alone. Nothing can remove the mask of
a pair there, so that no self-mask is needed against a vector that arrives late. It completes a sum
of everybody. A session goes on only if one was released before (`SecureSum.was_released`), after
which the ledger opens no sum of others that would tell of a client beside it.

**A session without shares** has later sums only. It begins where they may go on from the start,
and the server knows the public keys, which its first question tells everybody. So it is in a fit:
clients say their keys with the number of their rows, and the ledger has everybody before the first
sum, because a fit that somebody leaves ends anyway. The name of the session stands for nonces: a
client agrees once on masks for a name.

A session ends as soon as anything goes wrong: somebody does not reply, cannot decrypt a share, or
must not be in the sum. The same sum then begins anew, in a new session with shares. So clients may
be lost in the first sum of a session with shares, and in others only after they have uploaded.

**No key is ever opened.** In the papers the server learns the key of a client that is lost, and
with it all masks of its pairs. Here a key lasts as long as a run, and what is shared is made for
the first sum: the seed of the self-mask, and one more secret, the wrapping secret. Under that the
server holds the seeds of the client's pairs, of the first sum. If the client is lost, its
neighbours open the wrapping secret, which tells the masks of that sum and nothing of
others. They take part in no further sum of that session, and two clients agree on other masks in
each session, because each adds a nonce of its own.

`Sessions.trip_here` carries the messages on this machine, `fgmp.flower` over a network; the code
that decides is the same. Masks come from the random numbers of the operating system and leave no
trace in the sum. Keys are X25519, shares are encrypted by ChaCha20-Poly1305, masks are the stream
of ChaCha20, all by `cryptography`; what is derived, is by HKDF with SHA-256 (RFC 5869); secrets are
split by Shamir's scheme (`fgmp.privacy.secret_sharing`).
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..sparse_model import Array, IndexArray
from .neighbours import Neighbourhoods
from .secagg_client import (
    SEED,
    KeyPair,
    SecAggClient,
    first_mask_key,
    mask_of,
    self_mask,
    under_wrapping_secret,
)
from .secret_sharing import combine_shares


class Request(NamedTuple):
    """One trip: what the server asks clients.

    Attributes
    ----------
    trip : str
        One of `TRIPS`.
    session : str
        The name of the session.
    arguments : mapping of int to mapping of str
        Of the method, by the position of the client.
    n_texts : mapping of int to int
        How many texts of bytes each of them has to send.
    keys : sequence of bytes
        In the first sum of a session without shares the public keys of all.
    """

    trip: str
    session: str
    arguments: Mapping[int, Mapping[str, Any]]
    n_texts: Mapping[int, int] = MappingProxyType({})
    keys: Sequence[bytes] = ()


Replies = dict[int, Any]  # of the clients that are still present, by position
Trip = Callable[[Request], Replies]


class TooFewClients(ValueError):
    """Fewer clients than the threshold stay to the end of a secure sum."""


class MaskedSum(NamedTuple):
    """A sum under masks that was opened, or none.

    Attributes
    ----------
    total : ndarray
        The sum of the vectors that were uploaded.
    uploaded : ndarray of int
        Positions of the clients whose vectors are in it, increasing; empty if no sum was opened, or
        if it is noise.
    bytes_up, bytes_down : int
        Of all trips.
    excluded : frozenset of int
        Clients that were left out, because too many others could not decrypt their shares.
    rejected : Counter of str
        How many clients are not in the sum, by `fgmp.RejectReason`, where reasons are known.
    """

    total: Array = np.empty(0, np.uint64)
    uploaded: IndexArray = np.empty(0, np.intp)
    bytes_up: int = 0
    bytes_down: int = 0
    excluded: frozenset[int] = frozenset()
    rejected: Counter[str] = Counter()


@dataclass
class Sessions:
    """What outlasts a sum, of one run: the sessions in which everybody has replied, and keys.

    Sums that are made at the same time may be of one session.

    Attributes
    ----------
    key_pairs : dict of int to KeyPair
        Of clients on this machine, by their id, made when they are first asked for.
    clients : dict of (str, int) to SecAggClient
        The clients on this machine, by the name of a session and their position in it.
    public_keys : dict of int to bytes
        Of clients that have said theirs before any sum, by their id.
    whole : dict of hashable to _Session
        The sessions, by whom and what their sums are of.
    has_ended : bool
        Whether sessions were ended, so that all others begin with shares.
    """

    key_pairs: dict[int, KeyPair] = field(default_factory=lambda: defaultdict(KeyPair))
    clients: dict[tuple[str, int], SecAggClient] = field(default_factory=dict)
    public_keys: dict[int, bytes] = field(default_factory=dict)
    whole: dict[Hashable, "_Session"] = field(default_factory=dict)
    has_ended: bool = False

    def __reduce__(self) -> tuple[type["Sessions"], tuple[()]]:
        """A copy, or a pickle, begins anew: keys are written nowhere."""
        return Sessions, ()

    def branch(self) -> "Sessions":
        """Return the same sessions and keys; those that begin in one of the two are its own."""
        return replace(self, clients=dict(self.clients), whole=dict(self.whole))

    def trip_here(
        self, vectors: Mapping[int, Array], client_ids: Sequence[int], about: bytes = b""
    ) -> Trip:
        """Return what carries trips to clients on this machine.

        Parameters
        ----------
        vectors : mapping of int to ndarray of unsigned integers
            What is summed, by the position of the client. A client without a vector is lost before
            "masked_input".
        client_ids : sequence of int
            Of the clients at the positions.
        about : bytes
            As in `sum_under_masks`.
        """

        def trip(request: Request) -> Replies:
            replies = {}
            for position, arguments in request.arguments.items():
                if request.trip == "masked_input" and position not in vectors:
                    continue
                own = request.session, position
                if request.trip == "advertise_keys" or request.keys:
                    pair = self.key_pairs[client_ids[position]]
                    self.clients[own] = SecAggClient(position, pair, about=about)
                client = self.clients[own]
                client.vector = vectors.get(position)
                if request.keys:
                    client.agree(request.session, request.keys)
                replies[position] = getattr(client, request.trip)(**arguments)
            return replies

        return trip

    def end(self) -> None:
        """Forget all sessions, because something went wrong."""
        self.whole.clear()
        self.clients.clear()
        self.has_ended = True


def sum_under_masks(
    trip: Trip,
    n_clients: int,
    threshold: int,
    releasable: Callable[[IndexArray], IndexArray] = lambda uploaded: uploaded,
    about: bytes = b"",
    sessions: Sessions | None = None,
    cohort: Sequence[int] = (),
    goes_on: bool = True,
) -> MaskedSum:
    """Return the sum of the clients' vectors: the server's part, however messages are carried.

    A client is excluded if so many others cannot decrypt its shares that its masks could not be
    taken away. What was uploaded then stays closed, and all begins anew without it.

    Parameters
    ----------
    trip : callable
        ``trip(request)`` calls a method of the `SecAggClient` at each position, and returns the
        replies of those that are still present, by position. "advertise_keys" begins anew, with
        other secrets.
    n_clients, threshold : int
    releasable : callable, optional
        Return, of the positions that uploaded, those whose sum may be opened; called before
        anything is opened. By default all of them.
    about : bytes
        What the masks are agreed on for. The masks of clients that were given something else do not
        cancel.
    sessions : Sessions, optional
        Of the run: a session of the same cohort, threshold and purpose goes on.
    cohort : sequence of int
        The ids of the clients at the positions.
    goes_on : bool
        Whether a session may go on: a sum of all of them may be opened, whoever is late. If their
        public keys are known, it needs no first sum with shares then.

    Raises
    ------
    TooFewClients
        If fewer clients than the threshold stay, or if the sum must not be opened.
    """
    sessions = Sessions() if sessions is None else sessions
    identity = (tuple(cohort), n_clients, threshold, about)
    server = _Server(trip, n_clients, threshold, releasable, about)

    session = sessions.whole.get(identity)
    if session is None and goes_on and not sessions.has_ended:
        keys = [sessions.public_keys[i] for i in cohort if i in sessions.public_keys]
        if len(keys) == n_clients:
            session = sessions.whole[identity] = _Session(secrets.token_hex(8), keys)
    if session is not None and goes_on:
        unmasked = server.later_sum(session)
        if unmasked is not None:
            return unmasked
        sessions.end()

    try:
        unmasked, session = server.first_sum()
    except TooFewClients:
        sessions.end()
        raise
    if session is None:
        sessions.end()
    else:
        sessions.whole[identity] = session
    return unmasked


@dataclass
class _Session:
    """What outlasts a sum: a session in which sums are of everybody, or stay closed.

    Attributes
    ----------
    name : str
    keys : sequence of bytes
        The public keys of all, if they agree on masks without shares, with the first sum.
    number : int
        Of the last sum.
    """

    name: str
    keys: Sequence[bytes] = ()
    number: int = 0


@dataclass
class _Shares:
    """What the server holds in the first sum of a session with shares.

    Attributes
    ----------
    session : str
        The name of the session.
    senders : list of int
        The clients that shared their secrets, increasing.
    holders : dict of int to list of int
        Of each sender: who received shares of its secrets, in the order of their numbers.
    threshold : int
        How many shares open a secret.
    wrapped : dict of int to bytes
        Of each sender the keys of its pairs' masks, under its wrapping secret: 32 bytes for each
        other holder, in their order.
    received : dict of int to list of bytes
        Of each sender the encrypted shares that it has to receive.
    is_whole : bool
        Whether everybody has replied to everything.
    """

    session: str
    senders: list[int]
    holders: dict[int, list[int]]
    threshold: int
    wrapped: dict[int, bytes]
    received: dict[int, list[bytes]]
    is_whole: bool

    def partners(self, position: int) -> list[int]:
        """Return the neighbours of a sender that shared secrets, too, and itself, increasing."""
        senders = set(self.senders)
        return [holder for holder in self.holders[position] if holder in senders]


@dataclass
class _Server:
    """The server's part in one sum, and what has travelled. Parameters as in `sum_under_masks`."""

    trip: Trip
    n_clients: int
    threshold: int
    releasable: Callable[[IndexArray], IndexArray]
    about: bytes
    bytes_up: int = 0
    bytes_down: int = 0

    def share_secrets(self, members: list[int]) -> _Shares:
        """Begin a session in which secrets are shared: AdvertiseKeys and ShareKeys."""
        name = secrets.token_hex(8)
        # AdvertiseKeys: everybody learns everybody's nonce and public key.
        n_texts = dict.fromkeys(members, 2)
        advertised = self._texts(
            Request("advertise_keys", name, dict.fromkeys(members, {}), n_texts)
        )
        positions = sorted(advertised)
        keys = [text for position in positions for text in advertised[position]]
        self.bytes_down += len(positions) * sum(map(len, keys))

        # ShareKeys: encrypted shares go through the server, each to its receiver.
        neighbourhoods = Neighbourhoods(keys[1::2], self.threshold)
        holders = {
            position: [positions[holder] for holder in neighbourhoods.holders_of(index)]
            for index, position in enumerate(positions)
        }
        question = {"positions": positions, "keys": keys, "threshold": self.threshold}
        n_texts = {position: len(of_position) for position, of_position in holders.items()}
        arguments = dict.fromkeys(positions, question)
        texts = self._texts(Request("share_keys", name, arguments, n_texts))
        senders = sorted(texts)
        holders = {sender: holders[sender] for sender in senders}
        wrapped: dict[int, bytes] = {}
        received: dict[int, list[bytes]] = {position: [] for position in senders}
        for sender in senders:  # increasing, so that receivers know whose text is whose
            wrapped[sender] = b""
            for receiver, text in zip(holders[sender], texts[sender], strict=True):
                if receiver in received:
                    received[receiver].append(text[:-SEED])
                if receiver != sender:
                    wrapped[sender] += text[-SEED:].ljust(SEED, b"\0")
        self.bytes_down += _size(received)
        is_whole = len(senders) == self.n_clients
        threshold = neighbourhoods.threshold
        return _Shares(name, senders, holders, threshold, wrapped, received, is_whole)

    def first_sum(self) -> tuple[MaskedSum, _Session | None]:
        """Return the first sum of a session, and the session if it may go on."""
        excluded: frozenset[int] = frozenset()
        while True:
            members = [position for position in range(self.n_clients) if position not in excluded]
            shares = self.share_secrets(members)
            arguments = {
                position: {"number": 0, "senders": shares.senders, "received": received}
                for position, received in shares.received.items()
            }
            replies = self._uploads(Request("masked_input", shares.session, arguments))
            self._check_enough(replies)
            complaints = {position: unopened for position, (_, unopened) in replies.items()}
            newly_excluded = _senders_to_exclude(shares, complaints)
            if not newly_excluded:
                break
            excluded |= newly_excluded

        uploaded = self.releasable(np.array(sorted(replies))).tolist()
        if len(uploaded) < self.threshold:
            raise TooFewClients(
                f"a sum of {len(replies)} of {self.n_clients} clients would tell of single ones; "
                "expected the former"
            )
        shares.is_whole &= uploaded == shares.senders and not any(complaints.values())
        masked = {position: vector for position, (vector, _) in replies.items()}
        total = self._unmask(shares, masked, uploaded)
        unmasked = MaskedSum(total, np.array(uploaded), self.bytes_up, self.bytes_down, excluded)
        return unmasked, _Session(shares.session) if shares.is_whole else None

    def later_sum(self, session: _Session) -> MaskedSum | None:
        """Return another sum of a session; None if not everybody is in it, or may be."""
        session.number += 1
        everybody = list(range(self.n_clients))
        # It is asked first, because the uploads alone open the sum.
        if self.releasable(np.array(everybody)).tolist() != everybody:
            return None
        question = {"number": session.number, "senders": [], "received": []}
        keys = session.keys if session.number == 1 else ()
        self.bytes_down += self.n_clients * sum(map(len, keys))
        arguments = dict.fromkeys(everybody, question)
        replies = self._uploads(Request("masked_input", session.name, arguments, keys=keys))
        if len(replies) < self.n_clients:
            return None
        total = np.add.reduce([replies[position][0] for position in everybody])
        return MaskedSum(total, np.array(everybody), self.bytes_up, self.bytes_down)

    def _texts(self, request: Request) -> dict[int, list[bytes]]:
        """Return the texts of a trip; raise `TooFewClients` if there are too few."""
        replies = self.trip(request)
        self.bytes_up += _size(replies)
        self._check_enough(replies)
        return replies

    def _check_enough(self, replies: Replies) -> None:
        if len(replies) < self.threshold:
            raise TooFewClients(
                f"a secure sum has {len(replies)} of {self.n_clients} clients left; expected at "
                f"least {self.threshold}, the threshold"
            )

    def _uploads(self, request: Request) -> Replies:
        """Return the masked vectors, and whose shares each client could not decrypt.

        This is MaskedInputCollection.
        """
        replies = self.trip(request)
        self.bytes_up += sum(vector.nbytes for vector, _ in replies.values())
        return replies

    def _unmask(self, shares: _Shares, masked: Mapping[int, Array], uploaded: list[int]) -> Array:
        """Return the sum of the vectors that were uploaded, without their masks: Unmasking.

        Of a client whose vector is in the sum the holders open their shares of the seed of the
        self-mask, of another client those of its wrapping secret.
        """
        partners = {position: shares.partners(position) for position in shares.senders}
        question = {"uploaded": uploaded}
        n_texts = {position: len(partners[position]) for position in uploaded}
        arguments = dict.fromkeys(uploaded, question)
        opened = self._texts(Request("unmask", shares.session, arguments, n_texts))
        self.bytes_down += len(opened) * 4 * len(uploaded)
        shares.is_whole &= len(opened) == len(uploaded)

        shares_of: dict[int, dict[int, bytes]] = {position: {} for position in shares.senders}
        for holder, texts in opened.items():
            for position, share in zip(partners[holder], texts, strict=True):
                if share:
                    shares_of[position][holder] = share
        secret_of = {
            position: _combined(shares, position, of_holders)
            for position, of_holders in shares_of.items()
        }

        total = np.zeros_like(masked[uploaded[0]])
        for position in uploaded:
            total += masked[position]
            total -= self_mask(secret_of[position], total)
        is_uploaded = set(uploaded)
        for position in sorted(set(shares.senders) - is_uploaded):
            keys = under_wrapping_secret(shares.wrapped[position], secret_of[position])
            others = [other for other in shares.holders[position] if other != position]
            for index, other in enumerate(others):
                if other not in is_uploaded:
                    continue
                key = first_mask_key(keys[index * SEED : (index + 1) * SEED], self.about)
                mask = mask_of(key, total)
                total += mask if other > position else -mask
        return total


def _senders_to_exclude(shares: _Shares, complaints: Mapping[int, Sequence[int]]) -> frozenset[int]:
    """Return the senders whose shares fewer clients than the threshold could decrypt.

    Parameters
    ----------
    shares : _Shares
    complaints : mapping of int to sequence of int
        Of each client that uploaded, the senders whose shares it could not decrypt. Names of others
        than its neighbours do not count.
    """
    counts = Counter(
        sender
        for position, unopened in complaints.items()
        for sender in set(unopened) & set(shares.holders[position])
    )
    excluded = []
    for sender, count in counts.items():
        n_holders = sum(holder in complaints for holder in shares.holders.get(sender, ()))
        if n_holders - count < shares.threshold:
            excluded.append(sender)
    return frozenset(excluded)


def _combined(shares: _Shares, position: int, of_holders: Mapping[int, bytes]) -> bytes:
    """Return the secret of a client, from shares of it by their holders."""
    if len(of_holders) < shares.threshold:
        raise TooFewClients(
            f"{len(of_holders)} shares of a client's secret are left; expected at least "
            f"{shares.threshold}, the threshold"
        )
    usable = sorted(of_holders.items())[: shares.threshold]
    number_of = {holder: number for number, holder in enumerate(shares.holders[position], 1)}
    return combine_shares([number_of[holder] for holder, _ in usable], [text for _, text in usable])


def _size(texts: Mapping[int, list[bytes]]) -> int:
    """Return how many bytes the texts of all clients have."""
    return sum(len(text) for of_client in texts.values() for text in of_client)
