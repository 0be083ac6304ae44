"""A secure sum over a Flower grid: the trips of `fgmp.privacy.masking`, carried and validated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..method import Call, Transport
from ..privacy.masking import MaskedSum, Request, TooFewClients, sum_under_masks
from ..privacy.secagg_client import NONCE, check_public_key
from ..privacy.secret_sharing import SECRET
from ..privacy.secure_sums import SecureSum
from ..sparse_model import Array, IndexArray
from ..updates import Message, Rejected
from .client import mask_purpose
from .records import Fields, Reply, parse_reply

AlterUpload = Callable[
    [int, Array], Array | Rejected | None
]  # what a fault makes of the upload at a position


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


@dataclass(eq=False)
class SecureSession:
    """One secure sum of a cohort: of the updates in an exchange, or of objectives.

    Attributes
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
    reasons : dict of int to str
        Why clients are left out, by position.
    """

    transport: AskingTransport
    call: Call | None
    message: Message
    cohort: IndexArray
    weights: Array
    secure: SecureSum
    alter_upload: AlterUpload | None
    reasons: dict[int, str] = field(default_factory=dict)

    @property
    def total_count(self) -> int:
        """The total of what the weights of the cohort are the shares of."""
        return int(self.transport.weight_counts[self.cohort].sum())

    def run(self) -> MaskedSum:
        """Run all trips, and return the sum."""
        n_clients = len(self.cohort)
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
            return MaskedSum(rejected=Counter(self.reasons.values()))

        self.reasons.update(dict.fromkeys(unmasked.excluded, "malformed"))
        # Rounding adds half a unit for each client. A larger total is noise: some client lied about
        # its shares, or uploaded noise, and nobody can see which one.
        largest = np.abs(self.secure.decoded(unmasked.total)).max(initial=0)
        if largest > self.secure.range + n_clients * self.secure.resolution:
            if self.secure.sessions is not None:
                self.secure.sessions.end()
            everybody = Counter(malformed=n_clients)
            return unmasked._replace(uploaded=np.arange(0), rejected=everybody)

        # A client that left after its upload is in the sum.
        uploaded = set(unmasked.uploaded.tolist())
        rejected = Counter(
            reason for position, reason in self.reasons.items() if position not in uploaded
        )
        return unmasked._replace(rejected=rejected)

    def carry(self, request: Request) -> dict[int, _Part]:
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
                self.reasons[position] = str(parsed.reason)
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

    def _question(self, request: Request, position: int) -> dict[str, object]:
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

    def _parse(self, request: Request, position: int, reply: Reply) -> _Part | Rejected:
        """Return a client's part in a trip, or `Rejected`."""
        if request.trip == "masked_input":
            return self._arrived(position, parse_reply(reply, self._upload))

        parse = {"advertise_keys": _keys, "share_keys": _texts, "unmask": _shares}[request.trip]
        n_texts = request.n_texts[position]
        return parse_reply(reply, lambda reply: parse(reply, n_texts))

    def _upload(self, reply: Reply) -> _Upload:
        """Return a client's upload, or raise an error."""
        vector = reply.arrays["masked"]
        unopened = reply.fields.get("unopened", [])
        size = 1 if self.call is None else self.call.update_spec.length
        is_array = isinstance(vector, np.ndarray)
        if not is_array or vector.dtype != np.uint64 or vector.shape != (size,):
            raise ValueError("the upload is no vector of unsigned integers of the size of the sum")
        if not isinstance(unopened, list) or any(
            type(position) is not int for position in unopened
        ):
            raise ValueError("unopened is no list of positions")
        return _Upload(vector, unopened)

    def _arrived(self, position: int, upload: _Upload | Rejected) -> _Upload | Rejected:
        """Return an upload as a fault leaves it, if there is one."""
        if self.alter_upload is None or isinstance(upload, Rejected):
            return upload
        vector = self.alter_upload(position, upload.vector)
        if vector is None or isinstance(vector, Rejected):
            return vector or Rejected()
        altered = Reply({"unopened": upload.unopened}, {"masked": vector})
        return parse_reply(altered, self._upload)


class _Upload(NamedTuple):
    """A masked vector, and the positions of the senders whose shares could not be decrypted."""

    vector: Array
    unopened: list[int]


_Part = _Upload | list[bytes]  # a client's part in a trip


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
