"""Tasks that do not wait for one another, and whose questions travel in the same messages."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from threading import Condition, Thread
from typing import Any


class Meeting:
    """Runs tasks in threads, one at a time: each until it asks something.

    Once all tasks wait for an answer, their questions are answered together. The first task runs in
    the thread of the caller. An error of one task ends the others at their next question.

    Parameters
    ----------
    answer : callable (questions) -> answers
        Return the answers to several questions, in their order.
    """

    def __init__(self, answer: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        self._answer = answer
        self._turn = Condition()  # whoever runs holds its lock
        self._n_running = 1  # tasks that are not over, and do not wait for tasks of their own
        self._asked: list[tuple[Any, Future[Any]]] = []
        self._error: BaseException | None = None

    def ask(self, question: Any) -> Any:
        """Return the answer to a question, once every other task has asked one, too."""
        with self._turn:
            answer: Future[Any] = Future()
            self._asked.append((question, answer))
            self._answer_if_all_wait()
            self._turn.wait_for(lambda: answer.done() or self._error is not None)
            if self._error is not None and not answer.done():
                raise self._error
            return answer.result()

    def together(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return what tasks return; raise the error of the first that fails."""
        found: list[Future[Any]] = [Future() for _ in tasks]
        with self._turn:
            is_outermost = self._n_running == 1
            self._n_running += len(tasks) - 1
            for task, result in zip(tasks[1:], found[1:], strict=True):
                arguments = (self._run, task, result, found)
                Thread(target=copy_context().run, args=arguments, daemon=True).start()
            self._run(tasks[0], found[0], found)
            self._turn.wait_for(lambda: all(result.done() for result in found))
            error = self._error
            if is_outermost:
                self._error = None
                self._asked = []
            if error is not None:
                raise error
            return [result.result() for result in found]

    def _run(
        self, task: Callable[[], Any], result: Future[Any], found: Sequence[Future[Any]]
    ) -> None:
        """Run a task whose result is one of those found together."""
        with self._turn:
            try:
                result.set_result(task())
            except BaseException as error:
                result.set_exception(error)
                self._error = self._error or error
            if not all(other.done() for other in found):
                self._n_running -= 1  # the last one leaves its place to whoever waits for all
                self._answer_if_all_wait()
            self._turn.notify_all()

    def _answer_if_all_wait(self) -> None:
        """Have all questions answered if no task runs that could ask another."""
        if len(self._asked) < self._n_running or self._error is not None:
            return
        questions, answers = zip(*self._asked, strict=True)
        self._asked = []
        try:
            values = self._answer(questions)
        except BaseException as error:
            for answer in answers:
                answer.set_exception(error)
        else:
            for answer, value in zip(answers, values, strict=True):
                answer.set_result(value)
        self._turn.notify_all()
