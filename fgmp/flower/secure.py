"""A secure sum over a Flower grid: the trips of `fgmp.privacy.masking`, carried and validated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..method import Call, Transport
from ..privacy.masking import Request, TooFewClients, sum_under_masks
from ..privacy.secagg_client import NONCE, check_public_key
from ..privacy.secret_sharing import SECRET
from ..privacy.secure_sums import MaskedSum, SecureSum
from ..sparse_model import Array, IndexArray
from ..updates import Message, Rejected, RejectReason
from .client import mask_purpose
from .records import Fields, Reply, parse_reply

AlterUpload = Callable[[int, Array], Any]  # what a fault makes of the upload at a position


class AskingTransport(Transport):
    """A transport that puts questions to its clients, as each trip of a secure sum does.

    Attributes
    ----------
    weighting : {"rows", "equal"}
        What the weights of the clients are made of.
    weight_counts : ndarray of int, shape (n_clients,)
        What the weights are the shares of.
    """

    weighting: str
    weight_counts: IndexArray

    def ask_each(
        self, call: Call | None, message: Message | None, questions: Mapping[int, Fields]
    ) -> dict[int, Reply]:
        """Send a question to clients, and return their replies.

        Parameters
        ----------
        call : Call or None
            The exchange that the question is about; None for the objective.
        message : Message or None
            What the exchange, or the objective, is computed from.
        questions : mapping of int to mapping of str
            By the index of a client what its question holds beside that.

        Returns
        -------
        dict of int to Reply
            By the index of the client, in the order of the questions.
        """
        raise NotImplementedError(f"{type(self).__name__} asks no client")

    def public_keys(self, cohort: IndexArray) -> dict[int, bytes]:
        """Return the public keys of clients by their index, of those that have said theirs."""
        return {}


class SecureSession:
    """One secure sum of a cohort: of the updates in an exchange, or of objectives.

    Parameters
    ----------
    transport : AskingTransport
    call : Call or None
        The exchange; None for objectives.
    message : Message
        What the cohort is sent.
    cohort : ndarray of int
        Indices of the clients. A *position* is an index into the cohort.
    weights : ndarray of float, shape (cohort_size,)
    secure : SecureSum
    alter_upload : callable (position, upload) -> upload, optional
        Fault injection: returns what arrives, or None if nothing does.
    """

    def __init__(
        self,
        transport: AskingTransport,
        call: Call | None,
        message: Message,
        cohort: IndexArray,
        weights: Array,
        secure: SecureSum,
        alter_upload: AlterUpload | None,
    ) -> None:
        self.transport = transport
        self.call = call
        self.message = message
        self.cohort = cohort
        self.weights = weights
        self.secure = secure
        self.alter_upload = alter_upload
        self.total_count = int(transport.weight_counts[cohort].sum())
        self.size = 1 if call is None else call.update_spec.length
        self.reasons: dict[int, str] = {}  # why clients are left out, by position

    def run(self) -> MaskedSum:
        """Run all trips, and return the sum."""
        n_clients = len(self.cohort)
        nothing = np.arange(0)
        if self.secure.sessions is not None:
            self.secure.sessions.public_keys.update(self.transport.public_keys(self.cohort))
        try:
            unmasked = sum_under_masks(
                self.carry,
                n_clients,
                self.secure.needed(n_clients),
                self.releasable,
                about=mask_purpose(self.transport.weighting, self.total_count),
                sessions=self.secure.sessions,
                cohort=tuple(self.cohort.tolist()),
                goes_on=self.secure.was_released(self.transport, self.cohort, self.weights),
            )
        except TooFewClients:
            return MaskedSum(None, nothing, 0, 0, Counter(self.reasons.values()))

        self.reasons.update(dict.fromkeys(unmasked.excluded, "malformed"))
        # Rounding adds half a unit for each client. A larger total is noise: some client lied about
        # its shares, or uploaded noise, and nobody can see which one.
        largest = np.abs(self.secure.decoded(unmasked.total)).max(initial=0)
        if largest > self.secure.range + n_clients * self.secure.resolution:
            if self.secure.sessions is not None:
                self.secure.sessions.end()
            everybody = Counter(malformed=n_clients)
            return MaskedSum(None, nothing, unmasked.bytes_up, unmasked.bytes_down, everybody)

        # A client that left after its upload is in the sum.
        uploaded = set(unmasked.uploaded.tolist())
        rejected = Counter(
            reason for position, reason in self.reasons.items() if position not in uploaded
        )
        return MaskedSum(
            unmasked.total, unmasked.uploaded, unmasked.bytes_up, unmasked.bytes_down, rejected
        )

    def carry(self, request: Request) -> dict[int, Any]:
        """Carry one trip to clients, and return the replies that can be used, by position."""
        questions = {
            int(self.cohort[position]): self._question(request, position)
            for position in request.arguments
        }
        # The message of the exchange is needed where a client computes, and nowhere else.
        message = self.message if request.trip == "masked_input" else None
        replies = self.transport.ask_each(self.call, message, questions)

        usable = {}
        for position in request.arguments:
            parsed = self._parse(request, position, replies[int(self.cohort[position])])
            if isinstance(parsed, Rejected):
                self.reasons[position] = parsed.reason
            else:
                usable[position] = parsed
        return usable

    def releasable(self, present: IndexArray) -> IndexArray:
        """Return the positions whose sum may be opened; the others are withheld."""
        chosen = self.secure.releasable(
            self.transport, self.cohort, self.weights, present, is_objective=self.call is None
        )
        withheld = set(present.tolist()) - set(chosen.tolist())
        self.reasons.update(dict.fromkeys(withheld, "withheld"))
        return chosen

    def _question(self, request: Request, position: int) -> dict[str, Any]:
        """Return what a client receives in a trip."""
        keys = {"public_keys": list(request.keys)} if request.keys else {}
        return {
            "trip": request.trip,
            "session": request.session,
            "resolution": self.secure.resolution,
            "by": self.transport.weighting,
            "total": self.total_count,
            "position": position,
            "weight": float(self.weights[position]),
            **request.arguments[position],
            **keys,
        }

    def _parse(self, request: Request, position: int, reply: Reply) -> Any:
        """Return a client's part in a trip, or `Rejected`."""
        if request.trip == "masked_input":
            upload = parse_reply(reply, lambda reply: _upload(reply, self.size))
            if self.alter_upload is None or isinstance(upload, Rejected):
                return upload
            return _altered(upload, self.alter_upload(position, upload.vector), self.size)

        parse = {"advertise_keys": _keys, "share_keys": _texts, "unmask": _shares}[request.trip]
        n_texts = request.n_texts[position]
        return parse_reply(reply, lambda reply: parse(reply, n_texts))


class _Upload(NamedTuple):
    """A masked vector, and the positions of the senders whose shares could not be decrypted."""

    vector: Array
    unopened: list[int]


def _is_masked_vector(vector: Any, size: int) -> bool:
    is_array = isinstance(vector, np.ndarray)
    return is_array and vector.dtype == np.uint64 and vector.shape == (size,)


def _upload(reply: Reply, size: int) -> _Upload:
    """Return a client's upload, or raise an error."""
    vector = reply.arrays["masked"]
    unopened = reply.fields.get("unopened", [])
    if not _is_masked_vector(vector, size):
        raise ValueError("the upload is no vector of unsigned integers of the size of the sum")
    if not isinstance(unopened, list) or any(type(position) is not int for position in unopened):
        raise ValueError("unopened is no list of positions")
    return _Upload(vector, unopened)


def _altered(upload: _Upload, arrived: Any, size: int) -> _Upload | Rejected:
    """Return an upload as a fault has left it."""
    if arrived is None:
        return Rejected()
    if isinstance(arrived, Rejected):
        return arrived
    if not _is_masked_vector(arrived, size):
        return Rejected(RejectReason.MALFORMED)
    return upload._replace(vector=arrived)


def _texts(reply: Reply, count: int) -> list[bytes]:
    """Return the texts of a reply, `count` of them, or raise an error."""
    texts = list(reply.fields["texts"])
    if len(texts) != count or not all(isinstance(text, bytes) for text in texts):
        raise ValueError(f"texts are no {count} texts of bytes")
    return texts


def is_public_key(value: Any) -> bool:
    """Return whether what a client has said is a key that others can agree on a secret with."""
    try:
        check_public_key(value)
    except (ImportError, TypeError, ValueError):
        return False
    return True


def _keys(reply: Reply, count: int) -> list[bytes]:
    """Return the nonce and the public key of a client, or raise an error."""
    nonce, public = _texts(reply, count)
    if len(nonce) != NONCE:
        raise ValueError("a nonce has another length")
    check_public_key(public)
    return [nonce, public]


def _shares(reply: Reply, count: int) -> list[bytes]:
    """Return the shares that a client opens, or raise an error.

    A share that the client could not decrypt is empty.
    """
    shares = _texts(reply, count)
    if any(len(share) not in (0, SECRET) for share in shares):
        raise ValueError("a share has another length than a secret")
    return shares
