"""Applies the entries of a log to one purgatory: each signal once, in the order of the log."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

from purgatory_async import Purgatory
from purgatory_async.cluster.entries import LEVEL, Signalled, WireEntry, signalled
from purgatory_async.cluster.in_order import InOrder
from purgatory_async.cluster.log import Entry, Head, LogError, LogRefused
from purgatory_async.cluster.repetitions import Repetitions, Verdict
from purgatory_async.errors import check_result
from purgatory_async.patterns import Watermark

__all__ = ["Applier", "Hearer"]

SLICE: Final = 256  # keys checked after a gap before other tasks run

T = TypeVar("T")


class Hearer(Protocol):
    """Hears the signals of a cluster, each once, in the order of the log; see `Cluster.add_hearer`.

    No method raises.
    """

    def heard(self, signalled: Signalled) -> None:
        """A signal was applied and its key checked; its position counts as applied right after this."""

    def lost(self) -> None:
        """There was a gap: signals may be missing, and after a change of the epoch positions mean something else."""

    def close(self) -> None:
        """The cluster is closed, or its log has failed for good; nothing comes after this."""


class Applier:
    """Applies entries: for a new signal ``apply``, then a check of its key; then the entry counts as applied.

    An async ``apply`` is awaited before the next step, so entries may be taken faster than they are applied.

    Args:
        purgatory: The purgatory to check.
        head: The log's state when it was opened; later entries are applied.
        apply: As for `Cluster`.
        settled: Called once an entry is applied, with its position, the entry and its verdict.
        ended: The done callback of each task in which steps waited.
        owner: Named where ``apply`` raises.

    Attributes:
        apply: As for `Cluster`.
        hearers: Each gets each new signal.
        order: The steps under way.
        reached: The position up to which all is applied.
    """

    def __init__(
        self,
        purgatory: Purgatory,
        head: Head,
        *,
        apply: Callable[[Signalled], object] | None,
        settled: Callable[[int, WireEntry, Verdict], object],
        ended: Callable[["asyncio.Task[None]"], object],
        owner: object,
    ) -> None:
        self.order: Final = InOrder(ended)
        self.reached = Watermark(head.position, timer=purgatory.timer)
        self._purgatory: Final = purgatory
        self._repetitions = Repetitions(since_us=head.at_us)
        self.apply = apply
        self.hearers: Final[WeakSet[Hearer]] = WeakSet()
        self._settled: Final = settled
        self._owner: Final = owner

    def take(self, entry: Entry, wire: WireEntry) -> None:
        """Apply the next entry of the log, once the ones before are applied.

        Raises:
            LogRefused: The log is at a level that this version does not know.
        """
        verdict = Verdict.NEW
        if wire.w is not None:
            self._repetitions.forget(entry.at_us)
            verdict = self._repetitions.judge(
                wire.w, wire.n, introduces=wire.k == "alive", position=entry.position, at_us=entry.at_us
            )
        if wire.k == "level" and wire.level > LEVEL:
            raise LogRefused(
                f"the log must be at level {LEVEL} or below, got {wire.level}; upgrade this package"
            )
        if wire.k == "signal" and verdict is Verdict.NEW:
            if self.apply is not None:
                self.order.run(partial(self.call, self.apply, signalled(entry, wire)))
            self.order.run(partial(self._check, wire.key))
        self.order.run(partial(self._settle, entry, wire, verdict))

    def skip(self, position: int, lost: LogError, *, goes_back: bool) -> None:
        """Go on after a position, past a gap.

        Args:
            position: Counts as applied.
            lost: Ends the waits for positions, where these ``goes_back``.
            goes_back: Whether positions may mean other entries now than when the waits began.
        """
        self._repetitions = Repetitions()
        if goes_back:
            reached, self.reached = self.reached, Watermark(position, timer=self._purgatory.timer)
            reached.fail_all(lost)
        else:
            self.reached.advance(position)
        for hearer in self.hearers:
            hearer.lost()

    def close(self, reason: LogError) -> None:
        """Apply no further entry; waits for positions raise ``reason``."""
        self.order.close()
        self.reached.fail_all(reason)
        for hearer in self.hearers:
            hearer.close()

    async def check_all(self) -> None:
        """Check every pending operation on all its keys, a slice at a time. O(watched keys)."""
        keys = dict.fromkeys(key for operation in self._purgatory.operations() for key in operation.keys)
        for count, key in enumerate(keys, start=1):
            self._purgatory.check_and_complete(key)
            if count % SLICE == 0:
                await asyncio.sleep(0)

    def call(self, callback: Callable[[T], object], argument: T) -> Awaitable[None] | None:
        """Call a function of the application; returns what is left to await of an async one.

        What it raises goes to the loop's exception handler.
        """
        try:
            returned = callback(argument)
            if isawaitable(returned):
                return self._awaited(callback, argument, returned)
            check_result("apply or on_gap", callback, returned)
        except Exception as error:  # noqa: BLE001 - the application's; the next signal follows
            self._report(callback, argument, error)
        return None

    async def _awaited(
        self, callback: Callable[[T], object], argument: T, waiting: Awaitable[object]
    ) -> None:
        try:
            await waiting
        except Exception as error:  # noqa: BLE001 - the application's, as in `call`
            self._report(callback, argument, error)
        except asyncio.CancelledError as error:  # of what it awaits, unless this task is cancelled
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            self._report(callback, argument, error)

    def _report(self, callback: object, argument: object, error: BaseException) -> None:
        message = f"{callback!r} of {self._owner!r} raised for {argument!r}"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

    def _check(self, key: str) -> None:
        self._purgatory.check_and_complete(key)

    def _settle(self, entry: Entry, wire: WireEntry, verdict: Verdict) -> None:
        if self.hearers and wire.k == "signal" and verdict is Verdict.NEW:
            for hearer in self.hearers:
                hearer.heard(signalled(entry, wire))
        self.reached.advance(entry.position)
        self._settled(entry.position, wire, verdict)
