"""Sums under masks: the arithmetic of secure aggregation, and every message of it.

The protocol is that of K. Bonawitz et al., Practical secure aggregation for privacy-preserving
machine learning, CCS 2017. It has four trips between the server and the clients:

==========  =====================  ================================================================
trip        in the paper           what a client sends
==========  =====================  ================================================================
``public``  AdvertiseKeys          two public keys
``split``   ShareKeys              shares of two secrets, encrypted for each other client
``masked``  MaskedInputCollection  its vector, under masks that cancel in the sum
``opened``  Unmasking              the shares that take the rest of the masks away
==========  =====================  ================================================================

`masked_sum` carries the messages on this machine, `fgmp.flower` over a network. Masks come from the
random numbers of the operating system and leave no trace in the sum. The cryptography is that of
`cryptography` and `pycryptodome`: keys are X25519, shares are encrypted by ChaCha20-Poly1305,
secrets are split by Shamir's scheme, and masks are the stream of ChaCha20.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..sparse_model import Array, IndexArray

SECRET = 16  # bytes of a seed, which stands for a private key: Shamir's scheme is in GF(2^128)

# Names of the trips, which are methods of a `SecAggClient`, and of the arguments of each. These
# names travel over the network.
TRIPS = {
    "public": (),
    "split": ("places", "keys", "threshold"),
    "masked": ("split", "received"),
    "opened": ("uploaded",),
}

Arguments = Mapping[int, Mapping[str, Any]]  # of a trip, by the position of the client
Replies = dict[int, Any]  # of the clients that are still present, by position
Trip = Callable[[str, Arguments], Replies]


class TooFewClients(ValueError):
    """Fewer clients than the threshold stay to the end of a secure sum."""


class Unmasked(NamedTuple):
    """A sum that was opened.

    Attributes
    ----------
    total : ndarray
        The sum of the vectors that were uploaded.
    uploaded : ndarray of int
        Positions of the clients whose vectors are in it, increasing.
    bytes_up, bytes_down : int
        Of all trips.
    masked : dict of int to ndarray
        What the server held of each client's vector.
    excluded : frozenset of int
        Clients that were left out, because too many others could not decrypt their shares.
    """

    total: Array
    uploaded: IndexArray
    bytes_up: int
    bytes_down: int
    masked: dict[int, Array]
    excluded: frozenset[int] = frozenset()


def masked_sum(vectors: Sequence[Array], threshold: int, lost: Mapping[int, str]) -> Unmasked:
    """Return the sum of vectors, of which the server sees each under masks only.

    Parameters
    ----------
    vectors : sequence of ndarray of unsigned integers
        One for each client.
    threshold : int
        How many clients must stay to the end. As many clients together could open the mask of
        another.
    lost : mapping of int to str
        Before which trip a client is lost. If it is lost before "opened", the last, its vector is
        in the sum.

    Raises
    ------
    TooFewClients
        If fewer clients than the threshold stay.
    """
    clients: dict[int, SecAggClient] = {}

    def trip(name: str, arguments: Arguments) -> Replies:
        if name == "public":
            clients.update(
                {position: SecAggClient(position, vectors[position]) for position in arguments}
            )
        present = [position for position in arguments if lost.get(position) != name]
        return {
            position: getattr(clients[position], name)(**arguments[position])
            for position in present
        }

    return sum_under_masks(trip, len(vectors), threshold)


def sum_under_masks(
    trip: Trip,
    n_clients: int,
    threshold: int,
    releasable: Callable[[IndexArray], IndexArray] = lambda uploaded: uploaded,
    about: bytes = b"",
) -> Unmasked:
    """Return the sum of the clients' vectors: the server's part, however messages are carried.

    A client is excluded if so many others cannot decrypt its shares that its masks could not be
    taken away. What was uploaded then stays closed, and all begins anew without it.

    Parameters
    ----------
    trip : callable
        ``trip(name, {position: arguments})`` calls that method of the `SecAggClient` at each
        position, one of `TRIPS`, and returns the replies of those that are still present, by
        position. "public" begins anew, with other secrets.
    n_clients, threshold : int
    releasable : callable, optional
        Return, of the positions that uploaded, those whose sum may be opened; called before
        anything is opened. By default all of them.
    about : bytes
        What the masks are agreed on for. The masks of clients that were given something else do not
        cancel.

    Raises
    ------
    TooFewClients
        If fewer clients than the threshold stay, or if the sum must not be opened.
    """
    excluded: frozenset[int] = frozenset()
    bytes_up = 0
    bytes_down = 0
    while True:
        members = [position for position in range(n_clients) if position not in excluded]
        session = _Session(trip, n_clients, threshold, about)
        outcome = session.run(members, releasable)
        bytes_up += outcome.bytes_up
        bytes_down += outcome.bytes_down
        if not outcome.excluded:
            return outcome._replace(bytes_up=bytes_up, bytes_down=bytes_down, excluded=excluded)
        excluded |= outcome.excluded


class _Session:
    """The server's part of one session of four trips."""

    def __init__(self, trip: Trip, n_clients: int, threshold: int, about: bytes) -> None:
        self.trip = trip
        self.n_clients = n_clients
        self.threshold = threshold
        self.about = about

    def run(self, members: list[int], releasable: Callable[[IndexArray], IndexArray]) -> Unmasked:
        """Return the sum; or no sum, after three trips, if these find clients to exclude."""
        # AdvertiseKeys: everybody learns everybody's public keys.
        public_keys = self._replies("public", {position: {} for position in members})
        sharing = sorted(public_keys)

        # ShareKeys: encrypted shares go through the server, each to its receiver.
        all_keys = [key for position in sharing for key in public_keys[position]]
        request = {"places": sharing, "keys": all_keys, "threshold": self.threshold}
        encrypted = self._replies("split", dict.fromkeys(sharing, request))
        masking = sorted(encrypted)
        received = {
            position: [encrypted[sender][sharing.index(position)] for sender in masking]
            for position in masking
        }

        # MaskedInputCollection.
        uploads = self._replies(
            "masked",
            {position: {"split": masking, "received": received[position]} for position in masking},
        )
        masked = {position: vector for position, (vector, _) in uploads.items()}
        bytes_keys = _size(public_keys)
        bytes_shares = _size(encrypted)
        bytes_up = bytes_keys + bytes_shares + sum(vector.nbytes for vector in masked.values())
        bytes_down = len(sharing) * bytes_keys + bytes_shares

        excluded = self._senders_to_exclude([unopened for _, unopened in uploads.values()], masking)
        if excluded:
            no_sum = np.zeros(0, np.uint64)
            return Unmasked(no_sum, np.arange(0), bytes_up, bytes_down, masked, excluded)

        # Unmasking: one share of each client's mask, or of its key if its vector did not arrive.
        uploaded = releasable(np.array(sorted(masked))).tolist()
        if len(uploaded) < self.threshold:
            raise TooFewClients(
                f"a sum of {len(masked)} of {self.n_clients} clients would tell of single ones; "
                "expected the former"
            )
        shares = self._replies("opened", dict.fromkeys(uploaded, {"uploaded": uploaded}))
        seeds = {
            position: self._combine(
                {sharing.index(i) + 1: opened[index] for i, opened in shares.items()}
            )
            for index, position in enumerate(masking)
        }
        total = self._unmask(masked, uploaded, seeds, public_keys)
        bytes_up += _size(shares)
        bytes_down += len(shares) * 4 * len(uploaded)
        return Unmasked(total, np.array(uploaded), bytes_up, bytes_down, masked)

    def _replies(self, name: str, arguments: Arguments) -> Replies:
        """Return the replies of a trip; raise `TooFewClients` if there are too few."""
        replies = self.trip(name, arguments)
        if len(replies) < self.threshold:
            raise TooFewClients(
                f"a secure sum has {len(replies)} of {self.n_clients} clients left; expected at "
                f"least {self.threshold}, the threshold"
            )
        return replies

    def _senders_to_exclude(
        self, complaints: list[list[int]], masking: list[int]
    ) -> frozenset[int]:
        """Return the senders whose shares fewer clients than the threshold could decrypt.

        Parameters
        ----------
        complaints : list of list of int
            Of each client that uploaded, the senders whose shares it could not decrypt.
        masking : list of int
            All senders. Other names in a complaint do not count.
        """
        counts = Counter(
            sender for unopened in complaints for sender in set(unopened) & set(masking)
        )
        return frozenset(
            sender for sender, count in counts.items() if len(complaints) - count < self.threshold
        )

    def _combine(self, shares: Mapping[int, bytes]) -> bytes:
        """Return the secret that shares, by their number, were split from."""
        from Crypto.Protocol.SecretSharing import Shamir

        usable = [(number, share) for number, share in shares.items() if share]
        if len(usable) < self.threshold:
            raise TooFewClients(
                f"{len(usable)} shares are left of {self.n_clients}; expected at least "
                f"{self.threshold}, the threshold"
            )
        return bytes(Shamir.combine(usable[: self.threshold], False))

    def _unmask(
        self,
        masked: Mapping[int, Array],
        uploaded: list[int],
        seeds: Mapping[int, bytes],
        public_keys: Replies,
    ) -> Array:
        """Return the sum of the vectors that were uploaded, without their masks.

        Parameters
        ----------
        masked : mapping of int to ndarray
        uploaded : list of int
        seeds : mapping of int to bytes
            Of clients in `uploaded` the seed of the self-mask, of all others that of the key.
        public_keys : mapping of int to list of bytes
        """
        total = np.zeros_like(masked[uploaded[0]])
        for position in uploaded:
            total += masked[position] - _stream(seeds[position], total)
        for position in sorted(set(seeds) - set(uploaded)):
            for other in uploaded:
                key = agreed(seeds[position], public_keys[other][1], b"mask" + self.about)
                mask = _stream(key, total)
                total += mask if other > position else -mask
        return total


def _size(texts: Mapping[int, list[bytes]]) -> int:
    """Return how many bytes the texts of all clients have."""
    return sum(len(text) for of_client in texts.values() for text in of_client)


class SecAggClient:
    """One client of a secure sum.

    Parameters
    ----------
    position : int
        Its position in the cohort.
    vector : ndarray of unsigned integers, optional
        What is summed; only `masked` needs it.
    kept : mapping, optional
        The attribute `kept` of the same client in an earlier process. Nobody else may see any of
        it: it holds the seeds of both keys and of the self-mask.
    about : bytes
        What the masks are agreed on for.
    """

    def __init__(
        self,
        position: int,
        vector: Any = None,
        kept: Mapping[str, Any] | None = None,
        about: bytes = b"",
    ) -> None:
        self.position = position
        self.vector = vector
        self.about = about
        fresh = [secrets.token_bytes(SECRET) for _ in range(3)]
        self.kept: dict[str, Any] = {"secrets": fresh, **(kept or {})}
        self.encryption_seed, self.mask_seed, self.self_mask_seed = self.kept["secrets"]

    def public(self) -> list[bytes]:
        """Return the public keys: one for encryption, one that masks are agreed on with."""
        keys = [_key_of(seed).public_key() for seed in (self.encryption_seed, self.mask_seed)]
        return [key.public_bytes_raw() for key in keys]

    def split(self, places: list[int], keys: list[bytes], threshold: int) -> list[bytes]:
        """Return encrypted shares of both secrets for each other client; its own stay with it.

        Parameters
        ----------
        places : list of int
            Positions of the clients that take part.
        keys : list of bytes
            Their public keys, two of each.
        threshold : int
            How many shares open a secret.
        """
        from Crypto.Protocol.SecretSharing import Shamir

        if "share" in self.kept or self.position not in places:
            raise ValueError(f"places is {places}; expected this client among them, and once")
        of_key = Shamir.split(threshold, len(places), self.mask_seed, False)
        of_self_mask = Shamir.split(threshold, len(places), self.self_mask_seed, False)
        shares = [
            bytes(key_share) + bytes(self_mask_share)
            for (_, key_share), (_, self_mask_share) in zip(of_key, of_self_mask, strict=True)
        ]
        self.kept |= {"places": places, "keys": keys, "threshold": threshold}
        self.kept["share"] = shares[places.index(self.position)]
        return [
            self._encrypt(receiver, share) for receiver, share in zip(places, shares, strict=True)
        ]

    def _encrypt(self, receiver: int, share: bytes) -> bytes:
        """Return a share for another client; nothing for this one."""
        if receiver == self.position:
            return b""
        # Each key encrypts one share, so that its nonce may be zero.
        return bytes(
            self._cipher(receiver, self.position, receiver).encrypt(bytes(12), share, None)
        )

    def masked(self, split: list[int], received: list[bytes]) -> tuple[Array, list[int]]:
        """Return the vector under masks, and the senders whose shares cannot be decrypted.

        The masks are the self-mask, plus those agreed on with clients at later positions, minus
        those with clients at earlier ones.

        Parameters
        ----------
        split : list of int
            Positions of the clients that have split their secrets.
        received : list of bytes
            The encrypted shares that each of them sent to this client.
        """
        if "split" in self.kept or self.position not in split:
            raise ValueError(f"split is {split}; expected this client among them, and one upload")
        self._check("split", split, self.kept["places"])
        self.kept |= {"split": split, "received": received}

        total: Array = self.vector + _stream(self.self_mask_seed, self.vector)
        for other in split:
            if other == self.position:
                continue
            key = agreed(self.mask_seed, self._public_key(other, 1), b"mask" + self.about)
            mask = _stream(key, total)
            total += mask if other > self.position else -mask
        return total, [sender for sender in split if not self._shares_of(sender)]

    def opened(self, uploaded: list[int]) -> list[bytes]:
        """Return one share of each client in `split`, empty if it could not be decrypted.

        That is a share of the self-mask if the client's vector arrived, and of its key if it did
        not: never both, which together would open the vector.
        """
        if "split" not in self.kept or "opened" in self.kept:
            raise ValueError(
                f"uploaded is {uploaded}; expected shares to be opened once, after an upload"
            )
        self._check("uploaded", uploaded, self.kept["split"])
        self.kept["opened"] = True

        opened = []
        for sender in self.kept["split"]:
            shares = self._shares_of(sender)
            opened.append(shares[SECRET:] if sender in uploaded else shares[:SECRET])
        return opened

    def _shares_of(self, sender: int) -> bytes:
        """Return the shares of both secrets of a client; nothing if they cannot be decrypted."""
        from cryptography.exceptions import InvalidTag

        if sender == self.position:
            return bytes(self.kept["share"])
        encrypted = bytes(self.kept["received"][self.kept["split"].index(sender)])
        cipher = self._cipher(sender, sender, self.position)
        try:
            shares: bytes = cipher.decrypt(bytes(12), encrypted, None)
        except (InvalidTag, ValueError):
            return b""
        return shares if len(shares) == 2 * SECRET else b""

    def _check(self, name: str, positions: list[int], known: list[int]) -> None:
        """Raise a ValueError if positions are not known, or fewer than the threshold."""
        threshold = self.kept["threshold"]
        if not set(positions) <= set(known) or len(set(positions)) < threshold:
            raise ValueError(f"{name} is {positions}; expected at least {threshold} of {known}")

    def _public_key(self, position: int, which: int) -> bytes:
        """Return a public key of a client: 0 is for encryption, 1 for masks."""
        return bytes(self.kept["keys"][2 * self.kept["places"].index(position) + which])

    def _cipher(self, other: int, sender: int, receiver: int) -> Any:
        """Return the cipher between this client and another; it makes a text 16 bytes longer."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        purpose = b"letter %d %d" % (sender, receiver)
        return ChaCha20Poly1305(agreed(self.encryption_seed, self._public_key(other, 0), purpose))


def agreed(seed: bytes, public: bytes, purpose: bytes) -> bytes:
    """Return the 32 bytes that two clients derive alike, each from its seed and the other's key.

    Raises
    ------
    ValueError
        If `public` is no public key.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return _derived(_key_of(seed).exchange(X25519PublicKey.from_public_bytes(public)), purpose)


def _key_of(seed: bytes) -> Any:
    """Return the private key that a seed stands for."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(_derived(seed, b"key"))


def _derived(secret: bytes, purpose: bytes) -> bytes:
    """Return 32 bytes derived from a secret (HKDF, SHA-256)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def _stream(seed: bytes, like: Array) -> Array:
    """Return numbers that nobody tells from uniform ones without the seed (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    key = seed if len(seed) == 32 else _derived(seed, b"own mask")
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    stream = encryptor.update(bytes(like.nbytes))
    return np.frombuffer(stream, like.dtype).copy()
