"""A grid that hands each message to the ClientApp at once, as bytes: Flower's own classes, and no engine."""

import time
from itertools import count
from uuid import uuid4

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import (
    context_from_proto,
    context_to_proto,
    message_from_proto,
    message_to_proto,
)
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.supercore.task_identity import TaskIdentity

from fgmp.flower import OverFlower, client_app

RUNS = count(1)


class Here:
    """Nodes 100, 101, ... that run a ClientApp each; `fresh` hands each message to a process that has the state alone.

    `gone` holds places whose nodes do not answer; `restarted` those that have lost the state of the run. `wire` has
    each message and its reply: whose, to which question, as the bytes that Flower sends, and what they hold.
    """

    def __init__(self, apps, fresh=False):
        self.apps, self.fresh, self.gone, self.restarted, self.asked = (
            list(apps),
            fresh,
            set(),
            set(),
            [],
        )
        self.run, self.wire, self.replies = next(RUNS), [], {}
        self.contexts = [self.context(place) for place in range(len(self.apps))]
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = (
            1,
            self.run,
            SUPERLINK_NODE_ID,
        )

    def context(self, place):
        return Context(
            self.run,
            100 + place,
            {"partition-id": place, "num-partitions": len(self.apps)},
            RecordDict(),
            {},
        )

    def get_node_ids(self):
        return [100 + place for place in range(len(self.apps))]

    def push_messages(self, messages):
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            place = message.metadata.dst_node_id - 100
            self.asked.append((place, message.content.config_records["fgmp"]))
            over, gone = Message(Error(1, "its time is over"), reply_to=message), place in self.gone
            reply = over if gone else self.reply(place, self.carried(place, message))
            self.replies[message.metadata.message_id] = (
                time.monotonic() + gone * message.metadata.ttl,
                reply,
            )
        return [message.metadata.message_id for message in messages]

    def carried(self, place, message, asked=None):
        raw = message_to_proto(message).SerializeToString()
        arrived = message_from_proto(ProtoMessage.FromString(raw))
        content = arrived.content if arrived.has_content() else None
        self.wire.append((place, asked or dict(content["fgmp"]), raw, content))
        return arrived

    def reply(self, place, message):
        if self.fresh:
            self.contexts[place] = context_from_proto(context_to_proto(self.contexts[place]))
        if place in self.restarted:
            self.contexts[place] = self.context(place)
            self.restarted.discard(place)
        try:
            reply = self.apps[place](message, self.contexts[place])
        except Exception as error:
            reply = Message(Error(2, f"{type(error).__name__}: {error}"), reply_to=message)
        return self.carried(place, reply, dict(message.content.config_records["fgmp"]))

    def pull_messages(self, ids):
        now, there = time.monotonic(), set(ids) & set(self.replies)
        return [self.replies.pop(name)[1] for name in there if self.replies[name][0] <= now]


def loader(federation):
    def load(context, settings):
        client = federation.clients[context.node_config["partition-id"]]
        return client.features, client.targets

    return load


def grid_of(federation, mods=None, fresh=False, kind=Here, masked_only=False):
    """A grid of the clients of a federation, some with mods of their own."""
    mods, load = mods or {}, loader(federation)
    clients = range(federation.n_clients)
    return kind(
        [client_app(load, masked_only=masked_only, mods=mods.get(i, ())) for i in clients], fresh
    )


def over(
    federation, mods=None, fresh=False, kind=Here, masked_only=False, n_clients=None, **options
):
    grid = grid_of(federation, mods, fresh, kind, masked_only)
    return OverFlower(grid, federation.loss, n_clients or federation.n_clients, **options)


def spoiling(spoil, ask="answer"):
    """A mod that changes the replies to questions of a kind, or trip."""

    def mod(message, context, call_next):
        asked = message.content.config_records["fgmp"]
        reply = call_next(message, context)
        return spoil(reply) or reply if ask in (asked["ask"], asked.get("trip")) else reply

    return mod


def assert_same_run(there, here):
    """Model and history, bit for bit, the seconds apart.

    And the rounding of objectives: in one process those of all clients are of one product with all rows.
    """
    np.testing.assert_array_equal(there.x, here.x)
    assert there.rejected == here.rejected
    assert set(here.history) - set(there.history) == {"relative_error"} & set(here.history)
    for name in set(there.history) - {"seconds", "objective"}:
        np.testing.assert_array_equal(there.history[name], here.history[name], err_msg=name)
    if "objective" in here.history:
        start, eps = np.nan_to_num(here.history["objective"][0]), np.finfo(here.x.dtype).eps
        np.testing.assert_allclose(
            there.history["objective"], here.history["objective"], 0, 16 * eps * start
        )
