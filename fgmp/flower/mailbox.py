"""Questions to the nodes of a Flower grid, and their replies until a deadline.

A node has at most one open question, which is one without a reply. It is in one of three states:

- *idle*: it has no open question, and is sent the next one;
- *waited for*: it has an open question, and has met all deadlines before;
- *silent*: it has missed a deadline. It is sent no question before its open one has a reply or
  expires, and no deadline is waited for on its account until it replies.
"""

import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any

from .._support.optional import needs
from .records import FLOWER, Reply, log_unreadable, reply_of

# Seconds between two looks for a reply: at first, and in the end if a client takes long anyway.
_FIRST_PAUSE = 0.01
_LAST_PAUSE = 0.25

# Flower drops a message, and its reply, after this many deadlines.
_LIFETIME = 3


class Mailbox:
    """Sends questions to nodes, and collects the replies of those that meet a deadline.

    Parameters
    ----------
    grid : Grid
        The grid of a ServerApp.

    Attributes
    ----------
    silent : set of int
        The nodes that have missed a deadline and have not replied since.
    missing : set of int
        The nodes that had no readable reply, or a refusal, when they were last polled.
    """

    def __init__(self, grid: Any) -> None:
        self.grid = grid
        self.silent: set[int] = set()
        self.missing: set[int] = set()
        self._open: dict[int, Future[Reply]] = {}

    def poll(
        self, kind: str, contents: Mapping[int, Any], deadline: float, most_bytes: int
    ) -> dict[int, Reply]:
        """Send each node its question, and return the replies that arrive in time.

        Parameters
        ----------
        kind : str
            Flower's type of the messages.
        contents : mapping of int to RecordDict
            The questions, by node.
        deadline : float
            Seconds to wait.
        most_bytes : int
            A longer reply is malformed.

        Returns
        -------
        dict of int to Reply
            One for each node: its reply, or a refusal for the reason ``late``.
        """
        self._collect()  # replies that came too late for an earlier question
        sent = self._send(kind, contents, deadline, most_bytes)
        wait([reply for node, reply in sent.items() if node not in self.silent], deadline)

        in_time = {node: reply for node, reply in self._collect().items() if node in sent}
        self.silent |= set(contents) - set(in_time)
        late = Reply({"refused": "late", "words": f"no reply in {deadline:g} seconds"})
        replies = {node: in_time.get(node, late) for node in contents}
        self.missing -= set(contents)
        self.missing |= {node for node, reply in replies.items() if reply.is_refusal}
        return replies

    def _send(
        self, kind: str, contents: Mapping[int, Any], deadline: float, most_bytes: int
    ) -> dict[int, Future[Reply]]:
        """Send the questions of the nodes that have no open one, and look for each reply."""
        with needs("federation on Flower", FLOWER):
            from flwr.app import Message as FlowerMessage

        sent: dict[int, Future[Reply]] = {}
        messages = []
        for node, content in contents.items():
            if node not in self._open:
                sent[node] = Future()
                messages.append(FlowerMessage(content, node, kind, ttl=_LIFETIME * deadline))
        self.grid.push_messages(messages)

        # A thread for each reply: Flower itself waits three minutes for one that breaks off.
        for message, reply in zip(messages, sent.values(), strict=True):
            arguments = (message.metadata.message_id, reply, most_bytes)
            Thread(target=self._fetch, args=arguments, daemon=True).start()
        self._open |= sent
        return sent

    def _collect(self) -> dict[int, Reply]:
        """Return the replies that have arrived, by node, and close their questions.

        A node that has replied is silent no longer, unless its question has expired or is refused.
        """
        done = [node for node, reply in self._open.items() if reply.done()]
        replies = {node: self._open.pop(node).result() for node in done}
        self.silent -= {node for node, reply in replies.items() if not reply.is_refusal}
        return replies

    def _fetch(self, message_id: str, reply: Future[Reply], most_bytes: int) -> None:
        """Wait for the reply to one message, in a thread of its own.

        It is parsed at once, so that no bytes are kept if they are too many. A connection that
        fails is an error of the run. Any other error is caused by what one client sent, and makes
        its reply malformed.
        """
        from httpx import HTTPError

        try:
            reply.set_result(self._pull(message_id, most_bytes))
        except (OSError, HTTPError) as error:
            reply.set_exception(error)
        except Exception as error:
            log_unreadable(f"message {message_id}", error)
            reply.set_result(Reply({"refused": "malformed", "words": "what it sent is no message"}))

    def _pull(self, message_id: str, most_bytes: int) -> Reply:
        """Wait until Flower has a reply, or reports that the question has expired."""
        pause = _FIRST_PAUSE
        while True:
            messages = list(self.grid.pull_messages([message_id]))
            if messages:
                break
            time.sleep(pause)
            pause = min(1.5 * pause, _LAST_PAUSE)

        message = messages[0]
        if message.has_content():
            return reply_of(message.content, most_bytes)
        return Reply({"refused": "missing", "words": str(message.error.reason)})
