"""The other workers of a supervisor, as one worker sees them."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from purgatory_async import Timer
from purgatory_async.service.channel import Answer, Ask, Serving

PATIENCE: Final = 1.0  # seconds for all answers to a question


@dataclass(slots=True)
class _Question:
    """A question under way: who is still to answer, and the answers so far."""

    missing: set[int]
    done: asyncio.Future[None]
    answers: dict[int, bytes] = field(default_factory=dict[int, bytes])

    def settle(self, missing: set[int]) -> None:
        """Wait for fewer workers; done when none is left."""
        self.missing = missing
        if not missing and not self.done.done():
            self.done.set_result(None)


class Peers:
    """The other workers of a supervisor; none in a process without one.

    Attributes:
        number: The number of this worker, from 1; None without a supervisor.
        complete: Whether all workers of the supervisor were ready at some time.
        total: How many workers the supervisor keeps, this one included.
    """

    def __init__(self, timer: Timer) -> None:
        self.number: int | None = None
        self.complete = True
        self.total = 1
        self._timer = timer
        self._serving: Collection[int] = ()
        self._send: Callable[[Ask], None] | None = None
        self._asked = 0
        self._questions: dict[int, _Question] = {}

    def __repr__(self) -> str:
        return f"<Peers number={self.number} serving={sorted(self._serving)} of {self.total}>"

    def join(self, number: int, send: Callable[[Ask], None], serving: Serving) -> None:
        """Become a worker of a supervisor.

        Args:
            number: The number of this worker.
            send: Sends a question to all others.
            serving: Who serves now.
        """
        self.number, self._send = number, send
        self.note(serving)

    async def ask(self, what: str) -> dict[int, bytes | None]:
        """Ask all others, for at most a second.

        Returns:
            The answer of each by its number: None if it is not serving, or did not answer.
        """
        if self._send is None or self.number is None:
            return {}
        self._asked += 1
        number = self._asked
        question = _Question(set(), asyncio.get_running_loop().create_future())
        self._questions[number] = question
        patience = self._timer.call_later(PATIENCE, question.settle, set[int]())
        try:
            # The question also goes to workers that are about to serve, but their answers are not waited for.
            self._send(Ask(what, self.number, number))
            question.settle({*self._serving} - {self.number})
            await question.done
        finally:
            patience.cancel()
            del self._questions[number]
        others = (worker for worker in range(1, self.total + 1) if worker != self.number)
        return {worker: question.answers.get(worker) for worker in others}

    def note(self, message: Serving | Answer) -> None:
        """Take a message of the supervisor: an answer, or who serves."""
        if isinstance(message, Serving):
            self._serving, self.total, self.complete = message.workers, message.total, message.complete
            for question in self._questions.values():
                question.settle(question.missing.intersection(message.workers))
        elif message.number in self._questions:
            question = self._questions[message.number]
            question.answers[message.worker] = message.body
            question.settle(question.missing - {message.worker})
