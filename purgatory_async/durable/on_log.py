"""The state of a worker on a log that it shares with others, or keeps for its next start.

What is proposed is appended, and applied in the order of the log with what others append. Its answer comes after that,
so it is durable. A read waits until all that was in the log when it began is applied.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from purgatory_async import Timer
from purgatory_async.cluster import Appended, Head, Log, LogDamaged, LogError, LogUnavailable
from purgatory_async.cluster import Entry as LogEntry
from purgatory_async.cluster.outage import Outage
from purgatory_async.cluster.replica import Replica
from purgatory_async.durable.fold.codec import EntryError, decode
from purgatory_async.durable.fold.entries import Entry, SetLimits, Tick, WantItem
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.results import Dropped, InLine, Result
from purgatory_async.durable.fold.shared import Effect
from purgatory_async.durable.heartbeat import Heartbeat
from purgatory_async.durable.in_time import in_time
from purgatory_async.durable.loading import begin, when_there
from purgatory_async.durable.log_time import LogTime
from purgatory_async.durable.progress import Progress
from purgatory_async.durable.proposals import Proposals
from purgatory_async.durable.recovery import Recovery
from purgatory_async.durable.steps import Steps
from purgatory_async.durable.tasks import Tasks
from purgatory_async.durable.ticks import Ticks

_LATE: Final = "the log's end was not reached within {} s"
_LOGGER: Final = logging.getLogger(__name__)

A = TypeVar("A")


class OnLog(Generic[A]):
    """A fold of a log; see `State`.

    Args:
        log: A log that is not yet open.
        timer: For all waits of this object.
        timeout: Seconds for which a proposal or a read waits for the engine.
        make: Makes an empty fold, given its log time in microseconds.
        applied: Called with the result and effects of each step in turn, also at the start; gives proposals answers.
        replaced: Called with each loaded fold, before entries are applied to it; the fold before is closed.
        limits: The limits to set in the log; None for none.
        outage: Logs the engine's failures; None makes one.

    Attributes:
        fold, log, propose, post, settled: The state, and its log; see `State`.
        epoch: The log's epoch; positions of another epoch mean something else.
        applied: How many entries this worker has applied.
        noted: Called with the position and the size in bytes of each entry that was applied; None for no call.
        contact, proposals, recovery, ticks: The parts that count what happens to them.
    """

    def __init__(
        self,
        log: Log,
        *,
        timer: Timer,
        timeout: float,
        make: Callable[[int], Fold] = Fold,
        applied: Callable[[Result, Sequence[Effect]], A],
        replaced: Callable[[Fold], None],
        limits: SetLimits | None = None,
        outage: Outage | None = None,
    ) -> None:
        self.fold = Fold()
        self.epoch = ""
        self.applied = 0
        self.noted: Callable[[int, int], object] | None = None
        self.log: Final = log
        self._timer: Final = timer
        self._timeout: Final = timeout
        self._make: Final = make
        self._applied: Final = applied
        self._replaced: Final = replaced
        self._limits: Final = limits
        self._tasks: Final = Tasks(self._fail)
        self._steps: Final = Steps(timer.time_ns, self._tasks.fail)
        self.settled: Final = self._steps.idle
        self._replica: Final = Replica(log, Head("", 0, 0, 1, 0), self._take, rest=self.settled)
        self.recovery: Final = Recovery(log, self._replica, self._load)
        self._progress: Final = Progress(log, timer, self._tasks.start, outage)
        self.contact: Final = self._progress.contact
        self.proposals: Final = Proposals[A](
            log, timer, timeout, contact=self.contact, noted=self._note_appended
        )
        self._writer: Final = self.proposals.writer
        self.propose = self.proposals.propose
        self.post: Final = self.proposals.post
        self._log_time: Final = LogTime(lambda: timer.time_ns() // 1000)
        self.ticks: Final = Ticks(timer, self._log_time, lambda: self.post(Tick()), self.fold)
        self._looking = self._appending = False
        self._heartbeat: Final = Heartbeat(timer, self.post)
        self._expected = ""
        self._loaded: Callable[[str], object] = lambda _: None

    def __repr__(self) -> str:
        return f"<OnLog at {self.position} of {self.log!r}>"

    @property
    def position(self) -> int:
        """The newest position that is applied here."""
        return self.fold.position

    @property
    def connected(self) -> bool:
        """Whether the state has been up to the log's end since it was loaded, and the log answers and takes entries."""
        return self._tasks.failure is None and self._progress.connected

    @property
    def cause(self) -> str | None:
        """Why the engine does not serve now, a key of `CAUSES`; None while it does."""
        return self.contact.outage.cause

    @property
    def lag(self) -> float:
        """Seconds since this worker had applied all that it knew of; 0.0 if it has, and the engine is heard."""
        return self._progress.lag

    @property
    def writer(self) -> str:
        """The name under which this worker appends now."""
        return self._writer.name

    def take_over(self, epoch: str, loaded: Callable[[str], object]) -> None:
        """Call ``loaded`` with the epoch of each state, which must be this one at first if it is not empty."""
        self._expected, self._loaded = epoch, loaded

    async def open(self) -> None:
        """Open the log, load the newest checkpoint, and apply what came after it; `run` must follow.

        Raises:
            LogUnavailable: The engine is away; make another log, and another state on it.
            LogRefused: The engine's settings rule it out.
            LogDamaged, FoldError: The log cannot be applied.
        """
        head = await (self.log.open(epoch=self._expected) if self._expected else self.log.open())
        self._log_time.correct(head.at_us)
        if not head.position:
            await begin(self.log, self._timer)
        try:
            await self._load(head.epoch, 0.0)
            self._tasks.start(self.recovery.run())
            await self._progress.arrival()
        except BaseException as error:  # noqa: BLE001 - also a cancellation; it is raised below
            failure = self._tasks.failure or error
            await self.aclose()
            raise failure from None
        if self._limits is not None and self.fold.shared.limits.would_change(self._limits):
            self.post(self._limits)

    async def run(self) -> None:
        """Follow the log and append to it, until closed.

        Raises:
            LogDamaged, FoldError: The log cannot be applied any further; the message has the position.
            LogError: The log has failed for good.
        """
        for work in (self._writer.run(), self._heartbeat.run(self._alive), self._progress.listen()):
            self._tasks.start(work)
        await self._tasks.wait()

    async def aclose(self) -> None:
        """Close the log; waiting calls raise `LogError`. Idempotent."""
        try:
            await self._tasks.end()
        finally:
            self._steps.drop()
            self.fold.close()
            await self.log.aclose()

    def is_caught_up(self) -> bool:
        """Whether all that was answered anywhere is known to be applied here, without asking the log. O(1)."""
        return self._tasks.failure is None and not self._steps.busy and self._progress.has_arrived()

    async def caught_up(self) -> None:
        """Return once all that was in the log when this was called is applied here.

        Raises:
            LogUnavailable: It was not within the timeout.
            LogError: The state is closed, or has failed.
        """
        self._tasks.require()
        for _ in range(2):
            await in_time(self._progress.arrival(), self._timer, self._timeout, _LATE)
            await self._steps.idle()
            self._tasks.require()
            if not self._progress.loading:
                break

    def now_us(self) -> int:
        """Return an estimate of log time now, never before the last entry."""
        return max(self.fold.at_us, self._log_time.now_us())

    def _take(self, raw: LogEntry) -> None:
        """Apply the next entry of the log, in its turn."""
        try:
            entry = decode(raw.data)
        except EntryError as error:
            raise LogDamaged(f"entry {raw.position}: {error}", position=raw.position) from error
        taken = self.fold.step(raw.position, raw.at_us, entry)
        self._steps.take(taken, lambda applied: self._end(raw, entry, *applied))

    def _end(self, raw: LogEntry, entry: Entry, result: Result, effects: Sequence[Effect]) -> None:
        """Report a step that has ended."""
        self.applied += 1
        answer = self._applied(result, effects)
        if self.noted is not None:
            self.noted(raw.position, len(raw.data))
        self._log_time.hear(raw.at_us)
        if entry.writer == self._writer.name:
            if not isinstance(result, Dropped):
                taker = None
                if isinstance(result, InLine) and isinstance(entry, WantItem):
                    taker = self.fold.queues.takers[entry.lease_id]
                self.ticks.note(effects, taker)
            self.proposals.settle(entry, result, answer)
        self._progress.advance(raw.position)
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)
        # The error is its reader's. And entries just appended here may have digests of a state that was given up.
        if self.fold.diverged_at is not None and not self._appending and not self._steps.busy:
            self._heartbeat.compare(raw.position, entry, self.fold)

    def _look(self) -> None:
        """After some steps: schedule what is due next, and note how far this worker is."""
        self._looking = False
        if not self._steps.busy:  # else its end looks
            self.ticks.look()
        self._progress.hear(self.position)

    def _note_appended(self, appended: Appended, batch: Sequence[bytes]) -> None:
        self._heartbeat.wrote_at = self._timer.time()
        self.contact.accept()
        self._log_time.hear(appended.at_us)
        self._progress.hear(appended.first + len(batch) - 1)
        if not self._progress.loading:
            self._appending = True
            try:
                self._replica.appended(appended, batch)
            finally:
                self._appending = False

    # Tasks.

    async def _load(self, epoch: str, delay: float) -> int:
        """Load the newest checkpoint after a delay, and return its position; until then nothing is applied or shown.

        The checkpoint's own epoch counts: entries may be lost again meanwhile. Without a checkpoint it is ``epoch``.
        """
        lost = LogUnavailable("the state is loaded again: the outcome is unknown")
        self._progress.unload(lost)
        self._steps.drop()
        await self._timer.sleep(delay)
        (fold, found), end = await when_there(self.log, self._make, self._progress.end, self._timer)
        self._heartbeat.restart(end)
        self._writer.lose(lost)
        before, self.fold, self.epoch = self.fold, fold, found or epoch
        self._loaded(self.epoch)
        self._replica.restart(fold.position, self.epoch)
        self._replaced(fold)
        before.close()
        self._progress.loaded(fold.position, end)
        self.ticks.restart(fold, end)
        return fold.position

    def _alive(self) -> tuple[Fold, bool] | None:
        """Return what the heartbeat needs to know."""
        if self._progress.loading or self._steps.busy:
            return None
        has_takers = self._writer.name in self.fold.queues.takers.by_writer
        # Not with a change, which would be appended again with it after its caller has left.
        asks = self.contact.refusing and self._writer.idle
        return self.fold, has_takers or asks

    def _fail(self, reason: LogError) -> None:
        """Fail waiting and later calls."""
        self.ticks.close()
        self._writer.fail(reason)
        self._progress.fail(reason)
