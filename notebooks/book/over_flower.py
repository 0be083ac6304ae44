"""What the notebook over Flower needs around its runs: bytes that are counted, and a client that sends garbage."""

import numpy as np
from flwr.common.serde import recorddict_to_proto

from fgmp.flower.records import arrays_of, record_of

__all__ = ["CountingGrid", "sending_nan"]


class CountingGrid:
    """A grid of Flower that counts the bytes of the messages of exchanges: names and frames included, encryption not.

    Attributes
    ----------
    down, up : int
        The bytes that went to clients, and that came from them.
    n_up : int
        The messages that came from them.
    """

    def __init__(self, grid):
        self.grid, self.down, self.up, self.n_up = grid, 0, 0, 0
        self.get_node_ids = grid.get_node_ids

    def push_messages(self, messages):
        self.down += sum(_sizes(messages))
        return self.grid.push_messages(messages)

    def pull_messages(self, names):
        replies = list(self.grid.pull_messages(names))
        sizes = _sizes(replies)
        self.up += sum(sizes)
        self.n_up += len(sizes)
        return replies


def _sizes(messages):
    exchanges = [m for m in messages if m.metadata.message_type == "train" and m.has_content()]
    return [recorddict_to_proto(message.content).ByteSize() for message in exchanges]


def sending_nan(client_id, seed):
    """Return a mod of a ClientApp: in the run of a seed a client sends nan in place of its numbers."""

    # Local, so that it travels to the engine's processes by its code.
    def mod(message, context, call_next):
        reply, asked = call_next(message, context), message.content.config_records["fgmp"]
        is_struck = asked["ask"] == "answer" and asked["seed"] == str(seed)
        if is_struck and context.node_config["partition-id"] == client_id:
            answer = arrays_of(reply.content.array_records["message"])
            answer["values"][:] = np.nan
            reply.content["message"] = record_of(answer)
        return reply

    return mod
