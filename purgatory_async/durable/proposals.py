"""What a worker appends to its log, each entry until its caller has an answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from purgatory_async import Timer
from purgatory_async.cluster import Appended, Log, LogUnavailable
from purgatory_async.cluster.connection import retrieve
from purgatory_async.cluster.contact import Contact
from purgatory_async.cluster.repetitions import Verdict
from purgatory_async.cluster.writer import Writer
from purgatory_async.durable.fold.codec import encode_as, size_of
from purgatory_async.durable.fold.entries import Alive, Entry, Tick
from purgatory_async.durable.fold.results import Dropped, Result
from purgatory_async.durable.in_time import in_time
from purgatory_async.durable.state import Guard

A = TypeVar("A")


class Proposals(Generic[A]):
    """The entries of this worker that are not yet applied here.

    Args:
        log: An open log.
        timer: For the timeout.
        timeout: Seconds for which a proposal waits for the engine.
        contact: What was heard of the engine; it hears what is refused.
        noted: Called with each batch that is in the log.

    Attributes:
        writer: Appends them.
        appended, repeated: How many entries were appended, and dropped as repetitions.
    """

    def __init__(
        self,
        log: Log,
        timer: Timer,
        timeout: float,
        *,
        contact: Contact,
        noted: Callable[[Appended, Sequence[bytes]], object],
    ) -> None:
        self.appended = self.repeated = 0
        self._timer: Final = timer
        self._timeout: Final = timeout
        self._contact: Final = contact
        self._noted: Final = noted
        self.writer: Final = Writer[Entry, A](
            log,
            encode=encode_as,
            introduction=Alive(),
            appended=self._note,
            failed=contact.refuse,
        )

    def __repr__(self) -> str:
        return f"<Proposals of {self.writer.name} waiting={self.writer.waiting}>"

    async def propose(self, entry: Entry, guard: Guard) -> A:
        """Append an entry, which becomes this worker's; return its answer once it is durable and applied here.

        Raises:
            Exception: What the guard raises.
            PurgatoryFull: 10 000 entries or 64 MiB wait to be appended.
            LogUnavailable: The timeout has passed, or the state was loaded again; the entry may still happen. To cancel
                the caller has the same effect.
            LogError: The state is closed, or has failed.
        """
        guard.admit()
        proposed = self.writer.propose(entry, size_of(entry), [Tick()] * (entry.positions - 1))
        appended = self.appended
        try:
            late = "the entry was not applied within {} s; it may still happen"
            with guard.revocable(lambda refusal: self.writer.withdraw(proposed, refusal)):
                return await in_time(proposed, self._timer, self._timeout, late)
        except LogUnavailable as error:
            if self.appended == appended and error.cause == "timeout":
                self._contact.give_up(error)
            raise

    def post(self, entry: Entry) -> "asyncio.Future[A]":
        """Append an entry for which no caller waits, however long it takes; raises as `propose`."""
        posted = self.writer.propose(entry, size_of(entry))
        posted.add_done_callback(retrieve)
        return posted

    async def flushed(self) -> None:
        """Return once all that was proposed is in the log; raises as `post`, and `LogError` if it is closed first."""
        if not self.writer.idle:
            await self.post(Tick())

    def settle(self, entry: Entry, result: Result, answer: A) -> None:
        """Answer an entry of this worker that was applied. O(1)."""
        verdict = Verdict.NEW
        if isinstance(result, Dropped):
            verdict = Verdict(result.why)
            self.repeated += verdict is Verdict.REPEATED
        self.writer.settle(entry.number, verdict, answer)

    def _note(self, appended: Appended, batch: Sequence[bytes]) -> None:
        self.appended += len(batch)
        self._noted(appended, batch)
