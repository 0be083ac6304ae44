"""Secure sums on the wire: the four trips of `fgmp.running.masking` as Flower messages, of which the server adds masks.

Keys, letters and shares are Flower's (`fgmp.flower.primitives`), so that the bytes are more than those of `simulate`,
and the sums are the same. What a client has to keep between trips stays in the state of the run. It opens its shares
once, and never both of one client. Public keys go through the server: one that follows the protocol learns the sum
only; one that hands out keys of its own, or asks without masks, is not defended against.

=====================================================  =======================================================
what leaves a client with ``secure=SecureSum()``       who can read it
=====================================================  =======================================================
once: number of rows, of features, precision, key      the server, which makes weights of the rows by default
its answer to an exchange, times its weight's share    nobody: under masks; the server learns the cohort's sum
its objective at a record, times its share             nobody: under masks; the history holds the sum
names, shapes and types of what is under masks         the server: dense, and alike for all clients
public keys, and the shares that open the masks        the server, which opens the masks of the sum alone
shares of its own two secrets, sealed                  the one client that a letter is for
that it has no answer: late, not finite, out of range  the server
the class of an error, whose words stay in its log     the server
=====================================================  =======================================================

Nothing else does. To a client go the method, settings, seed, models and other sums over clients, its own share of the
weight, and the cohort's places, public keys and letters. `weights="equal"` makes no use of the rows, which are said all
the same. An objective of fewer clients than the threshold is refused; whoever asks twice, the second time with one
client less, has that client's. `fgmp.polish` and `fgmp.tune` run in one process, and have no protocol.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..client import Client
from ..methods.answers import Missed
from ..methods.contract import Exchange
from ..models import Array, Message, SparseModel
from ..running.masking import Member, unmasked_total
from ..running.secure_sums import SecureSum
from ..shapes import Shape
from .primitives import FLOWER
from .wire import model_message

if TYPE_CHECKING:
    from flwr.app import Context, RecordDict

    from .grid import OverFlower

__all__ = ["Summed", "TooFew", "reply_to_trip", "secure_objective", "secure_sum"]

_STATE = "fgmp.secure"


class TooFew(ValueError):
    """Fewer clients than the threshold stay to the end of a secure sum."""


class Summed(NamedTuple):
    """What a server knows of a secure sum.

    Attributes
    ----------
    total : ndarray of unsigned int or None
        None where nobody's answer came.
    like : dict of str to ndarray
        Arrays of the names, shapes and types that are added up.
    reasons : list of str
        Why the answer of each of the cohort is not in it; "" where it is.
    bytes_up, bytes_down : int
        Of all four trips.
    """

    total: Array | None
    like: Message
    reasons: list[str]
    bytes_up: int
    bytes_down: int


def secure_sum(
    transport: OverFlower,
    cohort: Sequence[int],
    message: Message,
    asked: Mapping[str, Any],
    shares: Array,
    secure: SecureSum,
) -> Summed:
    """The sum of the cohort's answers times their shares, of which the server sees each under masks only.

    Raises
    ------
    TooFew
        Where fewer clients than the threshold stay to the end.
    """
    threshold, session = secure.needed(len(cohort)), secrets.token_hex(8)
    nodes, common = [int(i) for i in cohort], {**asked, "ask": "secure", "session": session}
    reasons = [""] * len(nodes)

    def trip(name: str, there: Sequence[int], say: Any, content: Message | None = None) -> dict[int, RecordDict]:
        """What those there reply, who then are those left."""
        told = {nodes[i]: {**common, "trip": name, **say(i)} for i in there}
        replies = transport.ask_each(told, content or {})
        found: dict[int, RecordDict] = {}
        for i in there:
            reply = replies[nodes[i]]
            if isinstance(reply, Missed):
                reasons[i] = reasons[i] or reply.reason
            else:
                found[i] = reply
        return found

    def enough(left: Mapping[int, Any]) -> list[int]:
        if len(left) < threshold:
            raise TooFew(
                f"a secure sum has {len(left)} of {len(nodes)} clients left; expected at least {threshold}, the "
                "threshold"
            )
        return sorted(left)

    replies = trip("keys", range(len(nodes)), lambda i: {"place": i})
    found = {i: _bytes_of(reply, "public", 2, None) for i, reply in replies.items()}
    keys = {i: pair for i, pair in found.items() if pair and all(map(FLOWER.is_public, pair))}
    _name(reasons, replies, keys)
    up = sum(len(part) for pair in keys.values() for part in pair)
    down, there = len(keys) * up, enough(keys)

    known = {"places": there, "letters": [keys[i][0] for i in there], "masks": [keys[i][1] for i in there]}
    replies = trip("shares", there, lambda i: {**known, "threshold": threshold})
    sealed = {i: letters for i, reply in replies.items() if (letters := _bytes_of(reply, "sealed", len(there), None))}
    _name(reasons, replies, sealed)
    moved = sum(len(letter) for letters in sealed.values() for letter in letters)
    up, down, split = up + moved, down + moved, enough(sealed)

    def letters_for(i: int) -> dict[str, Any]:
        # In the order of `split`; its own is empty.
        return {"split": split, "received": [sealed[u][there.index(i)] for u in split]}

    told = {"bits": secure.bits, "resolution": secure.resolution}
    replies = trip("upload", split, lambda i: {**letters_for(i), **told, "share": float(shares[i])}, message)
    masked, layouts = {}, {}
    for i, reply in replies.items():
        vector, layout, refused = _upload_in(reply, secure.bits)
        if refused:
            reasons[i] = refused
        else:
            masked[i], layouts[i] = vector, layout
    usual = max(sorted(set(layouts.values())), key=list(layouts.values()).count, default="[]")
    for i in [i for i in masked if layouts[i] != usual or len(masked[i]) != _length(usual)]:
        reasons[i] = "malformed"
        del masked[i]
    up += sum(vector.nbytes for vector in masked.values())
    if not masked:
        return Summed(None, {}, reasons, up, down)
    uploaded = enough(masked)

    replies = trip("open", uploaded, lambda i: {"split": split, "uploaded": uploaded})
    told_by = {i: _bytes_of(reply, "shares", len(split), 4 + FLOWER.share_bytes) for i, reply in replies.items()}
    opened = {i: dict(zip(split, parts, strict=True)) for i, parts in told_by.items() if parts is not None}
    enough(opened)
    for i in uploaded:
        reasons[i] = ""  # its answer is in the sum, whoever left afterwards
    down += len(opened) * 4 * len(uploaded)
    up += sum(len(share) for shares_of in opened.values() for share in shares_of.values())
    total = unmasked_total(masked, split, opened, keys, threshold, FLOWER)
    like = {name: np.zeros(shape, dtype) for name, shape, dtype in json.loads(usual)}
    return Summed(total, like, reasons, up, down)


def secure_objective(
    transport: OverFlower, places: Sequence[int], model: Array | SparseModel, shares: Array, secure: SecureSum
) -> tuple[Array | None, Array]:
    """The sum of some clients' objectives under masks, None where too few say theirs, and who is in it."""
    nobody = np.zeros(len(places), bool)
    if not transport.ask_objectives:
        return None, nobody
    try:
        summed = secure_sum(transport, places, model_message(model), {"exchange": "objective"}, shares, secure)
    except TooFew:
        return None, nobody
    return summed.total, np.array([not reason for reason in summed.reasons])


def reply_to_trip(asked: Any, context: Context, answer: Any) -> RecordDict:
    """What a client replies in one of the trips.

    Parameters
    ----------
    asked : ConfigRecord
    context : Context
    answer : callable () -> (message, reason)
        Its answer to the exchange, laid out; or why it has none.
    """
    from flwr.app import ConfigRecord, RecordDict

    from .wire import array_record

    trip, state = str(asked["trip"]), context.state
    if trip == "keys":
        member = Member(int(asked["place"]), np.empty(0, np.uint64), primitives=FLOWER)
        kept: dict[str, Any] = {
            "session": str(asked["session"]),
            "place": member.place,
            "secrets": list(member.secrets),
        }
        state[_STATE] = ConfigRecord(kept)
        return RecordDict({"fgmp": ConfigRecord({"public": list(member.public())})})
    mine = dict(state.config_records.get(_STATE, {}))
    if mine.get("session") != asked["session"]:
        raise ValueError("session is one that this client has no part in")
    member = Member(int(mine["place"]), np.empty(0, np.uint64), tuple(mine["secrets"]), FLOWER)
    if trip == "shares":
        if "kept" in mine:
            raise ValueError("this client has shared its secrets in this session")
        places = [int(place) for place in asked["places"]]
        threshold = int(asked["threshold"])
        if len(set(places)) != len(places) or not len(places) / 2 < threshold <= len(places) or len(places) < 2:
            raise ValueError(f"threshold is {threshold} of {places}; expected more than half of at least two clients")
        keys = dict(zip(places, zip(asked["letters"], asked["masks"], strict=True), strict=True))
        sealed = member.split(places, keys, threshold)
        mine |= {
            "kept": member.kept,
            "places": places,
            "letters": list(asked["letters"]),
            "masks": list(asked["masks"]),
        }
        mine["threshold"] = threshold
        state[_STATE] = ConfigRecord(mine)
        return RecordDict({"fgmp": ConfigRecord({"sealed": [sealed.get(place, b"") for place in places]})})
    keys = dict(zip(mine["places"], zip(mine["letters"], mine["masks"], strict=True), strict=True))
    member.go_on(mine["kept"], mine["places"])
    split = [int(place) for place in asked["split"]]
    if not set(split) <= set(keys) or member.place not in split or len(split) < int(mine["threshold"]):
        raise ValueError(f"split is {split}; expected at least {mine['threshold']} of {mine['places']}")
    if trip == "upload":
        if "split" in mine:
            raise ValueError("this client has uploaded in this session")
        state[_STATE] = ConfigRecord(mine | {"split": split, "received": list(asked["received"])})
        message, reason = answer()
        secure = SecureSum(int(asked["bits"]), float(asked["resolution"]))
        if reason or not np.abs(_flat(message)).max(initial=0) <= secure.range:
            return RecordDict({"fgmp": ConfigRecord({"refused": reason or "not_finite"})})
        member.vector = secure.encoded(_flat(message), float(asked["share"]))
        layout = json.dumps([[name, list(array.shape), array.dtype.str] for name, array in message.items()])
        upload = array_record({"masked": member.masked(split, keys)})
        return RecordDict({"fgmp": ConfigRecord({"layout": layout}), "message": upload})
    uploaded = [int(place) for place in asked["uploaded"]]
    if trip != "open" or split != mine.get("split") or "opened" in mine:
        raise ValueError("this client opens its shares once, after an upload")
    if not set(uploaded) <= set(split) or len(set(uploaded)) < int(mine["threshold"]):
        raise ValueError(f"uploaded is {uploaded}; expected at least {mine['threshold']} of {split}")
    state[_STATE] = ConfigRecord(mine | {"opened": True})
    letters = {u: text for u, text in zip(split, mine["received"], strict=True) if u != member.place}
    shares = member.opened(letters, keys, uploaded)
    return RecordDict({"fgmp": ConfigRecord({"shares": [shares[u] for u in split]})})


def laid_out(exchange: Exchange, start: Any, answer: Message) -> Message:
    """An answer as arrays that add up entry by entry; of the server's state only shapes are needed."""
    assert exchange.sum is not None
    return exchange.sum.laid_out(start, answer)


def start_of(method: Any, client: Client) -> Any:
    """A state of the shapes that the server's has."""
    return method.start(Shape(client.n_features, client.loss, (client.n_samples,), dtype=client.dtype))


def _flat(message: Message) -> Array:
    return np.concatenate([np.asarray(array, np.float64).reshape(-1) for array in message.values()])


def _length(layout: str) -> int:
    return sum(int(np.prod(shape, dtype=np.int64)) for _, shape, _ in json.loads(layout))


def _bytes_of(reply: Any, name: str, count: int, size: int | None) -> list[bytes] | None:
    """A list of so many strings of bytes in a reply; None where there is something else."""
    said = reply.config_records.get("fgmp", {}).get(name)
    fits = isinstance(said, list) and len(said) == count and all(isinstance(part, bytes) for part in said)
    return list(said) if fits and (size is None or all(len(part) == size for part in said)) else None


def _name(reasons: list[str], replies: Mapping[int, Any], taken: Mapping[int, Any]) -> None:
    for i in replies:
        if i not in taken:
            reasons[i] = "malformed"


def _upload_in(reply: Any, bits: int) -> tuple[Any, str, str]:
    """The masked vector and its layout, or why there is none."""
    from .wire import message_of

    said = reply.config_records.get("fgmp", {})
    if said.get("refused") in ("not_finite", "malformed"):
        return None, "", str(said["refused"])
    arrived, layout = message_of(reply.array_records.get("message")), said.get("layout")
    vector = arrived.get("masked") if isinstance(arrived, dict) else None
    if vector is None or vector.dtype != np.dtype(f"uint{bits}") or vector.ndim != 1 or not isinstance(layout, str):
        return None, "", "malformed"
    try:
        parts = [(name, shape, np.dtype(dtype)) for name, shape, dtype in json.loads(layout)]
        fits = all(type(name) is str and dtype.kind == "f" for name, _, dtype in parts)
        fits &= all(type(size) is int and size >= 0 for _, shape, _ in parts for size in shape)
        fits = fits and _length(layout) == len(vector)
    except (ValueError, TypeError, RecursionError):
        fits = False
    return (vector, layout, "") if fits else (None, "", "malformed")
