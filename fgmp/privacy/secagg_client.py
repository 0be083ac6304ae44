"""One client of a secure sum: what it keeps, what it answers, and what it refuses.

The protocol is described in `fgmp.privacy.masking`, which has the server's part. A client trusts no
server to follow it: each method refuses what would tell more than one sum of each number.

What is derived from what:

- Two clients agree on 32 bytes in a run, from the key of one and the public key of the other.
- From these and the nonces of both they derive three keys for a session: one that shares are
  encrypted by, one of the first sum's masks, and one of the later ones, of which the number of the
  sum is the nonce. What the sum is for goes into the keys of masks.
- In a session without shares they derive one key, from the name of the session, and all sums are
  later ones.
- The self-mask of the first sum comes from a secret of its own.

Only the key of the first sum's masks, and the self-mask, are ever opened.
"""

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from ..sparse_model import Array
from .neighbours import Neighbourhoods
from .secret_sharing import SECRET, random_secrets, split_secrets

NONCE = 16  # bytes that a client adds to a session
SEED = 32  # bytes of a key that masks are made of

# Names of the trips, which are methods of a `SecAggClient`, and of the arguments of each. These
# names travel over the network.
TRIPS = {
    "advertise_keys": (),
    "share_keys": ("positions", "keys", "threshold"),
    "masked_input": ("number", "senders", "received"),
    "unmask": ("uploaded",),
}


class KeyPair:
    """The key of a client, which lasts as long as a run.

    It is never shared nor opened.

    Parameters
    ----------
    seed : bytes, optional
        32 bytes, the private key; by default a new one.
    """

    def __init__(self, seed: bytes | None = None) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self.seed = secrets.token_bytes(32) if seed is None else seed
        self._private = X25519PrivateKey.from_private_bytes(self.seed)
        self.public: bytes = self._private.public_key().public_bytes_raw()
        self._agreed: dict[bytes, bytes] = {}

    def agreed(self, public: bytes) -> bytes:
        """Return the 32 bytes that this client and another derive alike, from its public key.

        Raises
        ------
        ValueError
            If `public` is no public key.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        if public not in self._agreed:
            exchanged = self._private.exchange(X25519PublicKey.from_public_bytes(public))
            self._agreed[public] = _extracted(exchanged)
        return self._agreed[public]


@dataclass(eq=False, repr=False)  # its fields are secrets
class SecAggClient:
    """One client of a secure sum.

    Parameters
    ----------
    position : int
        Its position in the cohort.
    keys : KeyPair
    vector : ndarray of unsigned integers, optional
        What is summed; only `masked_input` needs it.
    kept : dict, optional
        What the same client has kept in an earlier process. Nobody else may see any of it.
    about : bytes
        What the masks are agreed on for.
    """

    position: int
    keys: KeyPair
    vector: Any = None
    kept: dict[str, Any] = field(default_factory=dict)
    about: bytes = b""

    def advertise_keys(self) -> list[bytes]:
        """Return a new nonce and the public key, and forget the session of before."""
        self.kept = {"position": self.position, "nonce": secrets.token_bytes(NONCE)}
        return [self.kept["nonce"], self.keys.public]

    def share_keys(self, positions: list[int], keys: list[bytes], threshold: int) -> list[bytes]:
        """Return a text for each holder: encrypted shares, and a seed under the wrapping secret.

        Its own shares stay with this client, and its text for itself is empty.

        Parameters
        ----------
        positions : list of int
            Positions of the clients that take part.
        keys : list of bytes
            What they advertised, two texts of each.
        threshold : int
            How many clients have to stay in each sum.
        """
        if "about" in self.kept or self.position not in positions:
            raise ValueError(f"positions is {positions}; expected this client among them, and once")
        index = positions.index(self.position)
        if keys[2 * index : 2 * index + 2] != [self.kept["nonce"], self.keys.public]:
            raise ValueError("keys has another key of this client; expected the one it advertised")

        neighbourhoods = Neighbourhoods(keys[1::2], threshold)
        indices = neighbourhoods.holders_of(index)
        holders = [positions[holder] for holder in indices]
        pairs = [
            self._pair_keys(positions[holder], keys[2 * holder], keys[2 * holder + 1])
            for holder in indices
        ]

        wrapping_secret, self_mask_seed = random_secrets(2)
        texts = [wrapping_secret, self_mask_seed]
        shares = split_secrets(texts, len(holders), neighbourhoods.threshold)
        self.kept |= {
            "about": self.about,
            "positions": positions,
            "threshold": threshold,
            "share_threshold": neighbourhoods.threshold,
            "partners": holders,  # of whom only senders stay
            "encryption_keys": [pair.encryption for pair in pairs],  # until the first sum
            "first_mask_keys": [pair.first_masks for pair in pairs],  # until the first sum
            "mask_keys": [pair.later_masks for pair in pairs],
            "self_mask_seed": self_mask_seed,  # until the first sum
            "shares": shares[holders.index(self.position)],
            "number": -1,  # of the last sum
            "is_whole": False,  # whether everybody was in the first sum
        }
        first_masks = b"".join(pair.first_masks for pair in pairs)
        wrapped = under_wrapping_secret(first_masks, wrapping_secret)
        texts = []
        for holder, pair, share in zip(holders, pairs, shares, strict=True):
            if holder == self.position:
                texts.append(b"")
                continue
            texts.append(self._encrypted(pair.encryption, holder, share) + wrapped[:SEED])
            wrapped = wrapped[SEED:]
        return texts

    def agree(self, session: str, keys: Sequence[bytes]) -> None:
        """Agree on masks for sums of everybody, in a session in which no secret is shared.

        Parameters
        ----------
        session : str
            Its name, in place of nonces: a client agrees once on masks for a name.
        keys : sequence of bytes
            The public keys of all, in the order of their positions.
        """
        if self.kept or len(keys) < 2 or keys[self.position] != self.keys.public:
            raise ValueError(
                f"keys has {len(keys)} keys for the session {session!r}; expected two at least, "
                "among them that of this client, and a session that has not begun"
            )
        partners = Neighbourhoods(keys, len(keys)).holders_of(self.position)
        purpose = b"masks of everybody" + _extracted(session.encode()) + self.about
        self.kept = {
            "about": self.about,
            "position": self.position,
            "senders": list(range(len(keys))),
            "partners": partners,
            "mask_keys": [
                b"" if other == self.position else _expanded(self.keys.agreed(keys[other]), purpose)
                for other in partners
            ],
            "number": 0,
            "is_whole": True,
        }

    def masked_input(
        self, number: int, senders: list[int], received: list[bytes]
    ) -> tuple[Array, list[int]]:
        """Return the vector under masks, and the senders whose shares cannot be decrypted.

        The masks are those agreed on with neighbours at later positions, minus those with
        neighbours at earlier ones, and in the first sum the self-mask, too.

        Parameters
        ----------
        number : int
            Of the sum in the session: increasing, so that each has masks of its own. There are no
            others than the first unless everybody is in that.
        senders : list of int
            In the first sum positions of the clients that have shared their secrets.
        received : list of bytes
            In the first sum the encrypted shares that each of its neighbours among them sent.
        """
        kept = self.kept
        if kept.get("about") != self.about:
            raise ValueError("the sum is of other weights; expected those of the session")
        if number <= kept["number"] or (number > 0 and not kept["is_whole"]):
            raise ValueError(
                f"number is {number}; expected increasing numbers, and a first sum of everybody"
            )
        unopened: list[int] = []
        total: Array = self.vector.copy()
        if number == 0:
            unopened = self._receive_shares(senders, received)
            mask_keys = [first_mask_key(key, self.about) for key in kept.pop("first_mask_keys")]
            total += self_mask(kept.pop("self_mask_seed"), total)
        elif senders or received:
            raise ValueError(f"senders is {senders}; expected the senders of the first sum")
        else:
            mask_keys = kept["mask_keys"]
        kept["number"] = number

        for partner, key in zip(kept["partners"], mask_keys, strict=True):
            if partner > self.position:
                total += mask_of(key, total, number)
            elif partner < self.position:
                total -= mask_of(key, total, number)
        return total, unopened

    def unmask(self, uploaded: list[int]) -> list[bytes]:
        """Return one share of each neighbour and of itself, empty if it could not be decrypted.

        That is a share of the seed of the self-mask if the vector is in the first sum, and of the
        wrapping secret if it is not: never both, which together would open the vector. If not all
        are in it, there is no other sum in the session.

        Parameters
        ----------
        uploaded : list of int
            The positions of the clients whose vectors are in it.
        """
        kept = self.kept
        if "partner_shares" not in kept:
            raise ValueError(
                f"uploaded is {uploaded}; expected shares to be opened once, after an upload"
            )
        self._check_who_stays("uploaded", uploaded, kept["senders"])
        is_in_sum = set(uploaded)
        kept["is_whole"] = is_in_sum == set(kept["senders"])
        return [
            shares[SECRET:] if partner in is_in_sum else shares[:SECRET]
            for partner, shares in zip(kept["partners"], kept.pop("partner_shares"), strict=True)
        ]

    def _receive_shares(self, senders: list[int], received: list[bytes]) -> list[int]:
        """Decrypt the shares of neighbours, and return the senders of those that make no sense."""
        kept = self.kept
        self._check_who_stays("senders", senders, kept["positions"])
        is_sender = set(senders)
        stays = [partner in is_sender for partner in kept["partners"]]
        for name in ("partners", "encryption_keys", "first_mask_keys", "mask_keys"):
            kept[name] = list(compress(kept[name], stays))
        kept["senders"] = senders
        own = kept.pop("shares")
        keys = kept.pop("encryption_keys")
        kept["partner_shares"] = [
            own if partner == self.position else self._decrypted(key, partner, text)
            for partner, key, text in zip(kept["partners"], keys, received, strict=True)
        ]
        shares_of = zip(kept["partners"], kept["partner_shares"], strict=True)
        return [partner for partner, shares in shares_of if not shares]

    def _check_who_stays(self, name: str, positions: list[int], known: list[int]) -> None:
        """Raise a ValueError unless enough clients stay, of which this is one, and neighbours."""
        staying = set(positions)
        if (
            not staying <= set(known)
            or len(staying) < self.kept["threshold"]
            or self.position not in staying
        ):
            raise ValueError(
                f"{name} is {positions}; expected at least {self.kept['threshold']} of {known}, "
                f"{self.position} among them"
            )
        n_neighbours = len(staying.intersection(self.kept["partners"]))
        if n_neighbours < self.kept["share_threshold"]:
            raise ValueError(
                f"{name} has {n_neighbours} of those that hold shares of this client; expected at "
                f"least {self.kept['share_threshold']}"
            )

    def _pair_keys(self, other: int, nonce: bytes, public: bytes) -> "_PairKeys":
        """Return what this client and another derive for a session; nothing for itself."""
        if other == self.position:
            return _PairKeys(b"", b"", b"")
        nonces = self.kept["nonce"] + nonce if other > self.position else nonce + self.kept["nonce"]
        agreed = self.keys.agreed(public)
        return _PairKeys(
            _expanded(agreed, b"shares" + nonces),
            _expanded(agreed, b"first masks" + nonces),
            _expanded(agreed, b"later masks" + nonces + self.about),
        )

    def _encrypted(self, key: bytes, receiver: int, shares: bytes) -> bytes:
        """Return shares for another client, 16 bytes longer."""
        return _aead()(key).encrypt(_share_nonce(self.position, receiver), shares, None)

    def _decrypted(self, key: bytes, sender: int, text: bytes) -> bytes:
        """Return the shares that another client sent; nothing if they cannot be decrypted."""
        from cryptography.exceptions import InvalidTag

        try:
            shares: bytes = _aead()(key).decrypt(_share_nonce(sender, self.position), text, None)
        except (InvalidTag, ValueError):
            return b""
        return shares if len(shares) == 2 * SECRET else b""


class _PairKeys(NamedTuple):
    """The keys that two clients derive for a session, each alone.

    Attributes
    ----------
    encryption : bytes
        Encrypts shares.
    first_masks : bytes
        Of the masks of the first sum. It is opened if one of the two is lost.
    later_masks : bytes
        Of the masks of all other sums.
    """

    encryption: bytes
    first_masks: bytes
    later_masks: bytes


def check_public_key(public: bytes) -> None:
    """Raise a ValueError if nobody could agree on a secret with a public key."""
    KeyPair(bytes(32)).agreed(public)


def _share_nonce(sender: int, receiver: int) -> bytes:
    """Return the nonce of the one text that a client of a pair sends the other in a session."""
    return bytes(11) + (b"\1" if sender > receiver else b"\0")


def self_mask(seed: bytes, like: Array) -> Array:
    """Return the self-mask that a seed stands for, of the shape and type of an array."""
    return mask_of(_expanded(_extracted(seed), b"self-mask"), like)


def first_mask_key(key: bytes, about: bytes) -> bytes:
    """Return the key of a pair's masks in the first sum of a session, for what the sum is for."""
    return _expanded(key, b"about" + about)


def under_wrapping_secret(keys: bytes, wrapping_secret: bytes) -> bytes:
    """Return keys under a secret that is used once; the same call takes it away."""
    plain = np.frombuffer(keys, np.uint8)
    key = _expanded(_extracted(wrapping_secret), b"wrap")
    return (plain ^ mask_of(key, plain)).tobytes()


def mask_of(key: bytes, like: Array, number: int = 0) -> Array:
    """Return numbers that nobody tells from uniform ones without the key.

    They are the stream of ChaCha20 for the nonce `number`, with which zeros are encrypted; the
    bytes behind it authenticate the text, and are dropped.

    Parameters
    ----------
    key : bytes
        32 bytes, used once with each number.
    like : ndarray
        How many numbers, and of which type.
    number : int, default 0
    """
    text = _aead()(key).encrypt(number.to_bytes(12, "little"), bytes(like.nbytes), None)
    return np.frombuffer(text, like.dtype, like.size)


@cache
def _aead() -> Any:
    """Return the class ChaCha20Poly1305, of a package that only secure sums need."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305


def _extracted(secret: bytes) -> bytes:
    """Return a key of 32 bytes: the first half of HKDF, without salt."""
    return hmac.digest(bytes(32), secret, "sha256")


def _expanded(key: bytes, purpose: bytes) -> bytes:
    """Return 32 bytes derived from a key: the second half of HKDF."""
    return hmac.digest(key, purpose + b"\1", "sha256")
