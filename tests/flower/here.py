"""A grid that hands each message to the ClientApp at once, as bytes: Flower's own classes, and no engine."""

from itertools import count
from uuid import uuid4

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.supercore.task_identity import TaskIdentity

import fgmp
from fgmp.flower import OverFlower, client_app

RUNS = count(1)


class Here:
    """Nodes 100, 101, ... that run a ClientApp each; `fresh` forgets what is in memory before each message.

    `gone` holds places whose nodes do not answer; `restarted` those that have lost the state of the run.
    """

    def __init__(self, apps, fresh=False):
        self.apps, self.fresh, self.gone, self.restarted, self.asked = list(apps), fresh, set(), set(), []
        self.run = next(RUNS)
        self.contexts = [self.context(place) for place in range(len(self.apps))]
        self.replies = {}
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, self.run, SUPERLINK_NODE_ID

    def context(self, place):
        return Context(
            self.run, 100 + place, {"partition-id": place, "num-partitions": len(self.apps)}, RecordDict(), {}
        )

    def get_node_ids(self):
        return [100 + place for place in range(len(self.apps))]

    def push_messages(self, messages):
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            place = message.metadata.dst_node_id - 100
            self.asked.append((place, message.content.config_records["fgmp"]))
            if place not in self.gone:
                self.replies[message.metadata.message_id] = self.reply(place, through_bytes(message))
        return [message.metadata.message_id for message in messages]

    def reply(self, place, message):
        if self.fresh:
            fgmp.flower.client._kept.clear()
        if place in self.restarted:
            self.contexts[place] = self.context(place)
            self.restarted.discard(place)
        try:
            reply = self.apps[place](message, self.contexts[place])
        except Exception as error:
            reply = Message(Error(2, f"{type(error).__name__}: {error}"), reply_to=message)
        return through_bytes(reply)

    def pull_messages(self, ids):
        return [self.replies.pop(name) for name in list(ids) if name in self.replies]


def through_bytes(message):
    return message_from_proto(ProtoMessage.FromString(message_to_proto(message).SerializeToString()))


def loader(federation):
    def load(context, settings):
        client = federation.clients[context.node_config["partition-id"]]
        return client.features, client.targets

    return load


def grid_of(federation, mods=None, fresh=False, keep=None):
    """A grid of the clients of a federation, some with mods of their own."""
    mods = mods or {}
    apps = [client_app(loader(federation), keep, mods=mods.get(i, ())) for i in range(federation.n_clients)]
    return Here(apps, fresh)


def over(federation, mods=None, fresh=False, keep=None, **options):
    return OverFlower(grid_of(federation, mods, fresh, keep), federation.loss, federation.n_clients, **options)


def spoiling(spoil, ask="answer"):
    """A mod that changes the arrays of an answer, or the numbers of another reply."""

    def mod(message, context, call_next):
        asked = message.content.config_records["fgmp"]["ask"]
        reply = call_next(message, context)
        return spoil(reply) or reply if asked == ask else reply

    return mod


def assert_same_run(there, here):
    """Model and history, bit for bit, the seconds apart."""
    np.testing.assert_array_equal(there.x, here.x)
    np.testing.assert_array_equal(there.best.x, here.best.x)
    assert set(here.history) - set(there.history) == {"relative_error"} & set(here.history)
    for name in set(there.history) - {"seconds"}:
        np.testing.assert_array_equal(there.history[name], here.history[name], err_msg=name)


__all__ = ["ArrayRecord", "Here", "assert_same_run", "grid_of", "loader", "over", "spoiling", "through_bytes"]
