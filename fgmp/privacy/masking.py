"""Sums under masks: the arithmetic of secure aggregation, every message of it.

Four trips, after Bonawitz et al. (2017): the clients publish keys; each splits two secrets among all; each sends its
vector under masks that cancel in the sum; those still there open what is needed to take the rest of the masks away.
`masked_sum` carries the messages on this machine, `fgmp.flower` between machines. The masks come from the system's
random numbers and leave no trace in the sum. The cryptography is that of `cryptography` and `pycryptodome`: keys are
X25519, letters ChaCha20-Poly1305, secrets are split by Shamir's scheme, masks are the stream of ChaCha20.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..sparse_model import Array, IndexArray

SECRET = 16  # bytes of a seed, which stands for a private key: Shamir's scheme is in GF(2^128)

# The methods of a `SecAggClient`, in their order, and what each of them is told.
TRIPS = {
    "public": (),
    "split": ("places", "keys", "threshold"),
    "masked": ("split", "received"),
    "opened": ("uploaded",),
}
Told = Mapping[int, Mapping[str, Any]]


class TooFewClients(ValueError):
    """Fewer clients than the threshold stay to the end of a secure sum."""


class Unmasked(NamedTuple):
    """The sum of what was uploaded, whose that is, bytes of all trips, and what the server held of each vector.

    `liars` sent letters that too many could not open, and were left out.
    """

    total: Array
    uploaded: IndexArray
    bytes_up: int
    bytes_down: int
    masked: dict[int, Array]
    liars: frozenset[int] = frozenset()


def masked_sum(vectors: Sequence[Array], threshold: int, lost: Mapping[int, str]) -> Unmasked:
    """The sum of vectors of unsigned integers, one for each client, of which the server sees each under masks only.

    `threshold` clients must be there to the end, and so many together could open the mask of another. `lost` says
    before which trip a client is lost: before "opened", the last, its vector is in the sum. `TooFewClients` where fewer
    are left. K. Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning, CCS 2017.
    """
    members: dict[int, SecAggClient] = {}

    def trip(name: str, told: Told) -> dict[int, Any]:
        if name == "public":
            members.update({i: SecAggClient(i, vectors[i]) for i in told})
        return {i: getattr(members[i], name)(**told[i]) for i in told if lost.get(i) != name}

    return sum_under_masks(trip, len(vectors), threshold)


def sum_under_masks(
    trip: Callable[[str, Told], dict[int, Any]],
    n_clients: int,
    threshold: int,
    releasable: Callable[[IndexArray], IndexArray] = lambda uploaded: uploaded,
    about: bytes = b"",
) -> Unmasked:
    """The server's part, whoever carries the messages; `TooFewClients` where fewer clients than the threshold are left.

    `about` is what the masks are agreed on for; the masks of clients that were told something else do not cancel.

    ``trip(name, {place: arguments})`` calls that method of the `SecAggClient` of each place, one of `TRIPS`, and
    returns what those return who are still there, by place; "public" begins anew, with other secrets. `releasable`
    says whose sum may be opened of those who uploaded, before anything is.

    A sender whose letters so many cannot open that its masks could not be taken away is a liar: what was uploaded stays
    closed, and all begins anew without it.
    """
    liars: frozenset[int] = frozenset()
    up, down = 0, 0
    while True:
        there = [i for i in range(n_clients) if i not in liars]
        found = _one_session(trip, there, n_clients, threshold, releasable, about)
        up, down = up + found.bytes_up, down + found.bytes_down
        if not found.liars:
            return found._replace(bytes_up=up, bytes_down=down, liars=liars)
        liars |= found.liars


def _one_session(
    trip: Callable[[str, Told], dict[int, Any]],
    asked: list[int],
    n_clients: int,
    threshold: int,
    releasable: Callable[[IndexArray], IndexArray],
    about: bytes,
) -> Unmasked:
    """Four trips with the clients asked; three, and no sum, where these find liars."""
    from Crypto.Protocol.SecretSharing import Shamir

    def left(name: str, told: Told) -> dict[int, Any]:
        if len(replies := trip(name, told)) < threshold:
            found = f"a secure sum has {len(replies)} of {n_clients} clients left"
            raise TooFewClients(f"{found}; expected at least {threshold}, the threshold")
        return replies

    def size(texts: dict[int, list[bytes]]) -> int:
        return sum(len(text) for of_one in texts.values() for text in of_one)

    public = left("public", {i: {} for i in asked})
    there = sorted(public)
    keys = [key for place in there for key in public[place]]
    letters = left(
        "split", dict.fromkeys(there, {"places": there, "keys": keys, "threshold": threshold})
    )
    split = sorted(letters)
    received = {i: [letters[sender][there.index(i)] for sender in split] for i in split}
    sent = left("masked", {i: {"split": split, "received": received[i]} for i in split})
    masked = {place: vector for place, (vector, _) in sent.items()}
    up = size(public) + size(letters) + sum(vector.nbytes for vector in masked.values())
    down = len(there) * size(public) + size(letters)

    complaints = Counter(
        sender for _, unopened in sent.values() for sender in set(unopened) & set(split)
    )
    liars = frozenset(
        sender for sender, times in complaints.items() if len(sent) - times < threshold
    )
    if liars:
        return Unmasked(np.zeros(0, np.uint64), np.arange(0), up, down, masked, liars)

    uploaded = releasable(np.array(sorted(masked))).tolist()
    if len(uploaded) < threshold:
        raise TooFewClients(
            f"a sum of {len(masked)} of {n_clients} clients would tell of single ones; expected the former"
        )
    shares = left("opened", dict.fromkeys(uploaded, {"uploaded": uploaded}))

    def secret(place: int) -> bytes:
        each = [(there.index(i) + 1, opened[split.index(place)]) for i, opened in shares.items()]
        of_one = [(index, share) for index, share in each if share]
        if len(of_one) < threshold:
            raise TooFewClients(
                f"{len(of_one)} shares are left of {n_clients}; expected at least {threshold}, the threshold"
            )
        return bytes(Shamir.combine(of_one[:threshold], False))

    total = np.zeros_like(masked[uploaded[0]])
    for place in uploaded:
        total += masked[place] - _stream(secret(place), total)
    for place in set(split) - set(uploaded):
        seed = secret(place)
        for other in uploaded:
            mask = _stream(agreed(seed, public[other][1], b"mask" + about), total)
            total += mask if other > place else -mask
    up += size(shares)
    down += len(shares) * 4 * len(uploaded)
    return Unmasked(total, np.array(uploaded), up, down, masked)


class SecAggClient:
    """One client: its vector, which only `masked` needs, its two keys, and the seed of its own mask.

    `kept` is what the member of an earlier process kept, of which nobody else may see any.
    """

    def __init__(
        self,
        place: int,
        vector: Any = None,
        kept: Mapping[str, Any] | None = None,
        about: bytes = b"",
    ) -> None:
        self.place, self.vector, self.about = place, vector, about
        self.kept = {"secrets": [secrets.token_bytes(SECRET) for _ in range(3)], **(kept or {})}
        self.letters, self.seed, self.own = self.kept["secrets"]

    def public(self) -> list[bytes]:
        """The public keys: one for letters to other clients, one that masks are agreed on with."""
        return [_key_of(seed).public_key().public_bytes_raw() for seed in (self.letters, self.seed)]

    def split(self, places: list[int], keys: list[bytes], threshold: int) -> list[bytes]:
        """A sealed letter for each other client with its shares of the two secrets; its own stay here."""
        from Crypto.Protocol.SecretSharing import Shamir

        if "share" in self.kept or self.place not in places:
            raise ValueError(f"places is {places}; expected this client among them, and once")
        parts = (
            Shamir.split(threshold, len(places), secret, False) for secret in (self.seed, self.own)
        )
        shares = [
            bytes(of_seed) + bytes(of_own) for (_, of_seed), (_, of_own) in zip(*parts, strict=True)
        ]
        self.kept |= {"places": places, "keys": keys, "threshold": threshold}
        self.kept["share"] = shares[places.index(self.place)]
        # Each key seals one letter, so that its nonce may be zero.
        return [
            b""
            if to == self.place
            else self._cipher(to, self.place, to).encrypt(bytes(12), share, None)
            for to, share in zip(places, shares, strict=True)
        ]

    def masked(self, split: list[int], received: list[bytes]) -> tuple[Array, list[int]]:
        """The vector under masks, and of whom letters cannot be opened.

        That is with its own mask, plus those it has with later clients, minus those with earlier ones.
        """
        if "split" in self.kept or self.place not in split:
            raise ValueError(f"split is {split}; expected this client among them, and one upload")
        self._check("split", split, self.kept["places"])
        self.kept |= {"split": split, "received": received}
        total: Array = self.vector + _stream(self.own, self.vector)
        for place in split:
            if place != self.place:
                purpose = b"mask" + self.about
                mask = _stream(agreed(self.seed, self._key_of(place, 1), purpose), total)
                total += mask if place > self.place else -mask
        return total, [place for place in split if not self._share_of(place)]

    def opened(self, uploaded: list[int]) -> list[bytes]:
        """One share of each of `split`: of its own mask where its vector arrived, of its key where it did not.

        An empty one of whom the letter could not be opened.
        """
        if "split" not in self.kept or "opened" in self.kept:
            raise ValueError(
                f"uploaded is {uploaded}; expected shares to be opened once, after an upload"
            )
        self._check("uploaded", uploaded, self.kept["split"])
        self.kept["opened"] = True
        shares = []
        for place in self.kept["split"]:
            share = self._share_of(place)
            shares.append(share[SECRET:] if place in uploaded else share[:SECRET])
        return shares

    def _share_of(self, place: int) -> bytes:
        """The shares that a letter brought of both secrets of its sender; nothing where it cannot be opened."""
        from cryptography.exceptions import InvalidTag

        if place == self.place:
            return bytes(self.kept["share"])
        letter = bytes(self.kept["received"][self.kept["split"].index(place)])
        try:
            opened: bytes = self._cipher(place, place, self.place).decrypt(bytes(12), letter, None)
        except (InvalidTag, ValueError):
            return b""
        return opened if len(opened) == 2 * SECRET else b""

    def _check(self, name: str, places: list[int], of: list[int]) -> None:
        if not set(places) <= set(of) or len(set(places)) < self.kept["threshold"]:
            raise ValueError(
                f"{name} is {places}; expected at least {self.kept['threshold']} of {of}"
            )

    def _key_of(self, place: int, which: int) -> bytes:
        return bytes(self.kept["keys"][2 * self.kept["places"].index(place) + which])

    def _cipher(self, other: int, sender: int, receiver: int) -> Any:
        """What seals and opens a letter, which is 16 bytes longer, between this client and another."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        purpose = b"letter %d %d" % (sender, receiver)
        return ChaCha20Poly1305(agreed(self.letters, self._key_of(other, 0), purpose))


def agreed(seed: bytes, public: bytes, purpose: bytes) -> bytes:
    """The 32 bytes that two clients derive alike from one seed and the other public key, for one purpose.

    A ValueError where that is no key.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return _derived(_key_of(seed).exchange(X25519PublicKey.from_public_bytes(public)), purpose)


def _key_of(seed: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(_derived(seed, b"key"))


def _derived(secret: bytes, purpose: bytes) -> bytes:
    """32 bytes (HKDF, SHA-256)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def _stream(seed: bytes, like: Array) -> Array:
    """Numbers that nobody tells from uniform ones without the seed (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    key = seed if len(seed) == 32 else _derived(seed, b"own mask")
    numbers = (
        Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None)
        .encryptor()
        .update(bytes(like.nbytes))
    )
    return np.frombuffer(numbers, like.dtype).copy()
