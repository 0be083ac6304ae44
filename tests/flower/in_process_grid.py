"""A grid of Flower that hands each message to its ClientApp at once, as bytes, without an engine.

Messages, contexts and apps are Flower's own classes, so that what a run does over a network is
tested without one. `test_engine` and `test_hospitals` run over Flower's own grids.
"""

import time
from itertools import count
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import (
    context_from_proto,
    context_to_proto,
    message_from_proto,
    message_to_proto,
)
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.supercore.task_identity import TaskIdentity

from fgmp.flower import OverFlower, client_app, table_app
from fgmp.flower.records import fields_of, parts_of
from fgmp.privacy.secagg_client import TRIPS

# The trips of a secure sum, by the names that they have in messages.
ADVERTISE_KEYS, SHARE_KEYS, MASKED_INPUT, UNMASK = TRIPS

FIRST_NODE = 100

_RUN_IDS = count(1)


class Sent(NamedTuple):
    """A message on the wire: a question, or the reply to one.

    Attributes
    ----------
    client_index : int
        The client that it goes to, or comes from.
    question : dict
        The fields of the question.
    raw : bytes
        The message as Flower sends it.
    content : RecordDict or None
        What the message holds; None if it is an error.
    """

    client_index: int
    question: dict[str, Any]
    raw: bytes
    content: RecordDict | None


class InProcessGrid:
    """Nodes 100, 101, ... that run a ClientApp each.

    Parameters
    ----------
    apps : iterable of ClientApp
    fresh : bool
        Whether each message goes to a process that has nothing but the state of the run.

    Attributes
    ----------
    absent : set of int
        The clients whose nodes do not reply, by index.
    restarted : set of int
        The clients whose nodes have lost the state of the run.
    questions : list of tuple
        The index of the client and the fields of each message.
    parts : list of tuple
        The same of each question, of which a message may hold several.
    sent : list of Sent
        All messages, both ways.
    """

    def __init__(self, apps, fresh=False):
        self.apps = list(apps)
        self.fresh = fresh
        self.absent = set()
        self.restarted = set()
        self.questions = []
        self.parts = []
        self.sent = []
        self.replies = {}
        self.run_id = next(_RUN_IDS)
        self.contexts = [self._new_context(index) for index in range(len(self.apps))]
        # A message says who sends it, and for which run.
        TaskIdentity.task_id = 1
        TaskIdentity.run_id = self.run_id
        TaskIdentity.node_id = SUPERLINK_NODE_ID

    def _new_context(self, index):
        config = {"partition-id": index, "num-partitions": len(self.apps)}
        return Context(self.run_id, FIRST_NODE + index, config, RecordDict(), {})

    def get_node_ids(self):
        """Return the ids of the nodes."""
        return [FIRST_NODE + index for index in range(len(self.apps))]

    def push_messages(self, messages):
        """Hand over messages, keep the replies until they are pulled, and return the ids."""
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            index = message.metadata.dst_node_id - FIRST_NODE
            self.questions.append((index, message.content.config_records["fgmp"]))
            for part in parts_of(message.content) or [message.content]:
                self.parts.append((index, fields_of(part)))
            arrives = time.monotonic()
            if index in self.absent:
                reply = Message(Error(1, "its time is over"), reply_to=message)
                arrives += message.metadata.ttl
            else:
                reply = self.reply(index, self._carried(index, message))
            self.replies[message.metadata.message_id] = arrives, reply
        return [message.metadata.message_id for message in messages]

    def _carried(self, index, message, question=None):
        """Return a message as it arrives: made of the bytes that were sent."""
        raw = message_to_proto(message).SerializeToString()
        arrived = message_from_proto(ProtoMessage.FromString(raw))
        content = arrived.content if arrived.has_content() else None
        self.sent.append(Sent(index, question or dict(content["fgmp"]), raw, content))
        return arrived

    def reply(self, index, message):
        """Return the reply of a client to a message."""
        if self.fresh:
            self.contexts[index] = context_from_proto(context_to_proto(self.contexts[index]))
        if index in self.restarted:
            self.contexts[index] = self._new_context(index)
            self.restarted.discard(index)
        try:
            reply = self.apps[index](message, self.contexts[index])
        except Exception as error:
            reply = Message(Error(2, f"{type(error).__name__}: {error}"), reply_to=message)
        return self._carried(index, reply, dict(message.content.config_records["fgmp"]))

    def pull_messages(self, ids):
        """Return the replies that are there, once each."""
        now = time.monotonic()
        arrived = [name for name in ids if name in self.replies and self.replies[name][0] <= now]
        return [self.replies.pop(name)[1] for name in arrived]

    def has_update_of(self, client_index, ids):
        """Whether one of the replies is the update of a client."""
        for name in ids:
            if name in self.replies:
                about = self.replies[name][1].metadata
                is_of_client = about.src_node_id == FIRST_NODE + client_index
                if is_of_client and about.message_type == "train":
                    return True
        return False


def load_from(federation):
    """Return what a client reads its rows with: those of its index in a federation."""

    def load(context, settings):
        client = federation.clients[context.node_config["partition-id"]]
        return client.features, client.targets

    return load


def grid_of(federation, mods=None, fresh=False, grid_class=InProcessGrid, masked_only=False):
    """Return a grid of the clients of a federation, some with mods of their own, by index."""
    mods = mods or {}
    load = load_from(federation)
    apps = [
        client_app(load, masked_only=masked_only, mods=mods.get(index, ()))
        for index in range(federation.n_clients)
    ]
    return grid_class(apps, fresh)


def transport_to(
    federation,
    mods=None,
    fresh=False,
    grid_class=InProcessGrid,
    masked_only=False,
    n_clients=None,
    **options,
):
    """Return a transport to the clients of a federation, over a grid of them."""
    grid = grid_of(federation, mods, fresh, grid_class, masked_only)
    return OverFlower(grid, federation.loss, n_clients or federation.n_clients, **options)


def grid_of_tables(X, y, groups, fresh=False, **options):
    """Return a grid of nodes for `fit_over`, each with the rows of its group."""

    def read(context, columns):
        is_own = groups == context.node_config["partition-id"]
        return X[is_own], y[is_own]

    return InProcessGrid([table_app(read, **options) for _ in np.unique(groups)], fresh)


def altering(change, ask="answer"):
    """Return a mod that changes the replies to one kind of question, or to one trip."""

    def mod(message, context, call_next):
        question = message.content.config_records["fgmp"]
        reply = call_next(message, context)
        if ask in (question["ask"], question.get("trip")):
            return change(reply) or reply
        return reply

    return mod


def with_fields(**fields):
    """Return a change of a reply: its fields have other values."""

    def change(reply):
        reply.content["fgmp"] = ConfigRecord({**reply.content.get("fgmp", {}), **fields})

    return change


def assert_same_run(over_flower, in_process):
    """Check that model and history are the same, bit for bit, but for the seconds.

    Objectives are the same to rounding: in one process one product makes those of all clients.
    """
    np.testing.assert_array_equal(over_flower.x, in_process.x)
    assert over_flower.rejected == in_process.rejected
    # A server does not know the truth.
    known = set(in_process.history) - {"relative_error"}
    assert set(over_flower.history) == known
    for name in known - {"seconds", "objective"}:
        np.testing.assert_array_equal(
            over_flower.history[name], in_process.history[name], err_msg=name
        )
    if "objective" in known:
        expected = in_process.history["objective"]
        rounding = 16 * np.finfo(in_process.x.dtype).eps * np.nan_to_num(expected[0])
        np.testing.assert_allclose(over_flower.history["objective"], expected, 0, rounding)
