"""Secure sums on the wire: the four trips of `fgmp.layers.masking` as Flower messages, of which the server adds masks.

Sums, and the bytes that histories count, are those of `simulate` on one machine. What a client has to keep between
trips stays in the state of the run. It opens its shares once, and never both of one client. Public keys go through the
server: one that follows the protocol learns the sum only; one that hands out keys of its own is not defended against.
Under masks nobody can look: a client that lies by a little spoils a sum unseen; one that sends noise, or shares that
are none, makes a total beyond the range, and then the whole sum is left out, and counted.

=====================================================  =======================================================
what leaves a client with ``reduce=SecureSum()``       who can read it
=====================================================  =======================================================
once: number of rows, of features, precision, key      the server, which makes weights of the rows by default
its answer to an exchange, times its weight's share    nobody: under masks; the server learns the cohort's sum
its objective at a record, times its share             nobody: under masks; the history holds the sum
the length of what is under masks                      the server: dense, and alike for all clients
public keys, and the shares that open the masks        the server, which opens the masks of the sum alone
shares of its own two secrets, sealed                  the one client that a letter is for
that it has no answer: late, not finite, out of range  the server
the class of an error, whose words stay in its log     the server
=====================================================  =======================================================

Nothing else does. To a client go the method, settings, seed, models and other sums over clients, its own share of the
weight, and the cohort's places, public keys and letters. `weights="equal"` makes no use of the rows, which are said all
the same. Whoever asks twice, the second time with one client less, has that client's. A client answers in the open too,
unless its app is ``client_app(..., masked_only=True)``. `fgmp.polish` and `fgmp.tune` have no protocol.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..layers.masking import TRIPS, Member, TooFew, sum_under_masks
from ..layers.primitives import SECRET, agreed
from ..layers.secure_sums import SecureSum
from ..models import Array, Support, dense
from ..rounds import REASONS, Form, Message, Missing
from .records import arrays_of, content_of, said_in

__all__ = ["reply_to_trip", "secure_sum"]

_STATE = "fgmp.secure"


def secure_sum(
    channel: Any,
    asked: Mapping[str, Any],
    message: Message,
    cohort: Support,
    form: Form | None,
    weights: Array,
    secure: SecureSum,
) -> tuple[Array | None, Support, int, int, Counter[str]]:
    """The sum of answers, or of objectives, each times its client's weight, of which the server sees masks only.

    The total, or None where nobody answers, and TooFew where fewer than the threshold stay to the end; whose numbers
    are in it, by position in the cohort; bytes up and down of all four trips; and why others are not.
    """
    size = 1 if form is None else len(form.centre)
    common = {**asked, "session": secrets.token_hex(8), "resolution": secure.resolution}
    there, reasons, split = set(range(len(cohort))), {}, 0  # type: tuple[set[int], dict[int, str], int]

    def trip(name: str, told: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
        nonlocal there, split
        each = {i: {"trip": name, "place": i, "weight": float(weights[i])} for i in told}
        questions = {int(cohort[i]): {**common, **each[i], **given} for i, given in told.items()}
        replies = channel.ask_each(questions, message if name == "masked" else None)
        split = len(told) if name == "masked" else split
        found = {i: _taken(replies[int(cohort[i])], name, split or len(told), size) for i in told}
        reasons.update({i: what.reason for i, what in found.items() if isinstance(what, Missing)})
        there = set(found) - set(reasons)
        return {i: found[i] for i in there}

    try:
        total, uploaded, up, down, _ = sum_under_masks(trip, len(cohort), secure.needed(len(cohort)))
    except TooFew:
        if there:
            raise
        return None, np.arange(0), 0, 0, Counter(reasons.values())
    # Rounding adds half a unit for each; somebody lied about its shares, or uploaded noise, where it is more.
    if np.abs(secure.decoded(total)).max(initial=0) > secure.range + len(cohort) * secure.resolution:
        return None, np.arange(0), up, down, Counter(malformed=len(cohort))
    left_out = Counter(reason for i, reason in reasons.items() if not uploaded[i])  # who left later is in the sum
    return total, np.flatnonzero(uploaded), up, down, left_out


def reply_to_trip(asked: Any, context: Any, answer: Callable[[], Any]) -> Any:
    """What a client replies in one of the trips; what it keeps for the next is in the state of the run."""
    trip, place = str(asked["trip"]), int(asked["place"])
    told: dict[str, Any] = {name: asked[name] for name in TRIPS[trip]}
    mine: dict[str, Any] = dict(context.state.config_records.get(_STATE, {}))
    if trip == "public":
        mine = {"session": asked["session"], "place": place}
    elif (mine.get("session"), mine.get("place")) != (asked["session"], place):
        raise ValueError("session is one that this client has no part in")
    member = Member(place, kept=mine if trip != "public" else None)
    if trip == "split":
        size, least = len(set(told["places"])), int(told["threshold"])
        if size < len(told["places"]) or size < 2 or not size / 2 < least <= size:
            raise ValueError(f"threshold is {least} of {told['places']}; expected more than half, of two at least")
    if trip == "masked":
        secure, found = SecureSum(float(asked["resolution"])), answer()
        row = None if isinstance(found, Missing) else dense(found).reshape(-1)
        if row is None or not np.abs(row).max(initial=0) <= secure.range:
            return content_of({"refused": "not_finite"})
        member.vector = secure.encoded(row, float(asked["weight"]))
    reply = getattr(member, trip)(**told)
    context.state[_STATE] = content_of({**mine, **member.kept})["fgmp"]
    return content_of({}, message={"masked": reply}) if trip == "masked" else content_of({"texts": reply})


def _taken(reply: Any, trip: str, count: int, size: int) -> Any:
    """What came in a trip, or `Missing`: nobody else uses what is not as it has to be."""
    said: Any = said_in(reply)
    if said.get("refused") in REASONS:
        return Missing(str(said["refused"]))
    try:
        if trip == "masked":
            vector = arrays_of(reply.array_records.get("message"))["masked"]
            return vector if vector.dtype == np.uint64 and vector.shape == (size,) else Missing("malformed")
        texts = list(said["texts"])
        fits = len(texts) == (2 if trip == "public" else count) and all(isinstance(text, bytes) for text in texts)
        for key in texts if trip == "public" else ():
            agreed(bytes(SECRET), key, b"")  # a ValueError where it is none: nobody could agree on anything with it
        fits = fits and (trip != "opened" or all(len(text) == SECRET for text in texts))
        return texts if fits else Missing("malformed")
    except (ValueError, TypeError, KeyError):
        return Missing("malformed")
