"""Tasks that ask together: each by itself would get the same answers, in more messages."""

import time
from contextvars import ContextVar

import pytest

from fgmp.flower.meeting import Meeting

NAME = ContextVar("name", default="nobody")


class Server:
    """Doubles the numbers that it is asked, and keeps which came together."""

    def __init__(self):
        self.asked = []
        self.meeting = Meeting(self.answer)

    def answer(self, questions):
        self.asked.append(sorted(questions))
        if 13 in questions:
            raise OSError("no connection")
        return [2 * question for question in questions]

    def task(self, first, n_questions):
        """Return a task that asks for numbers from the first on, and returns the answers."""

        def ask_all():
            return [self.meeting.ask(first + step) for step in range(n_questions)]

        return ask_all


def test_questions_of_tasks_of_any_length_travel_together_until_each_is_over():
    """The third task asks nothing, and holds nobody up."""
    server = Server()
    tasks = [server.task(0, 3), server.task(100, 1), server.task(200, 0), server.task(300, 2)]
    found = server.meeting.together(tasks)
    assert found == [[0, 2, 4], [200], [], [600, 602]]
    assert server.asked == [[0, 100, 300], [1, 301], [2]]


def test_tasks_of_a_task_ask_together_with_the_others():
    """A task that waits for tasks of its own holds nobody up, and goes on after the last of them."""
    server = Server()

    def outer():
        inner = server.meeting.together([server.task(10, 1), server.task(20, 2)])
        return inner, server.meeting.ask(30)

    found = server.meeting.together([server.task(0, 4), outer])
    assert found == [[0, 2, 4, 6], ([[20], [40, 42]], 60)]
    assert server.asked == [[0, 10, 20], [1, 21], [2, 30], [3]]


def test_one_task_runs_at_a_time_in_the_context_of_the_caller():
    """Tasks share a session and its counts, and have the suppressed advice of their caller."""
    server, running, seen = Server(), set(), []

    def task(name):
        for step in range(5):
            assert not running
            running.add(name)
            time.sleep(0.001)
            seen.append(NAME.get())
            running.remove(name)
            server.meeting.ask(step)

    token = NAME.set("caller")
    server.meeting.together([lambda name=name: task(name) for name in "abc"])
    NAME.reset(token)
    assert seen == ["caller"] * 15
    assert server.asked == [[step] * 3 for step in range(5)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_of_a_task_ends_the_others_and_reaches_the_caller(place):
    """KeyboardInterrupt, too; after that the meeting is as new."""
    server, n_ended = Server(), 0

    def fails():
        server.meeting.ask(0)
        raise KeyboardInterrupt

    def goes_on():
        nonlocal n_ended
        try:
            for _ in range(1000):
                server.meeting.ask(1)
        finally:
            n_ended += 1

    tasks = [goes_on, goes_on]
    tasks.insert(place, fails)
    with pytest.raises(KeyboardInterrupt):
        server.meeting.together([server.task(5, 0), lambda: server.meeting.together(tasks)])
    assert n_ended == 2
    assert len(server.asked) <= 2
    server.asked.clear()
    assert server.meeting.together([server.task(7, 1), server.task(8, 1)]) == [[14], [16]]
    assert server.asked == [[7, 8]]


def test_an_error_while_questions_are_sent_reaches_the_caller_and_the_next_question_is_asked():
    """A connection that failed may be there again."""
    server = Server()
    with pytest.raises(OSError, match="no connection"):
        server.meeting.ask(13)
    with pytest.raises(OSError, match="no connection"):
        server.meeting.together([server.task(1, 3), server.task(13, 1)])
    assert server.meeting.ask(4) == 8
