"""The survey: the stats that need a walk over all pending operations, shared by concurrent requests.

A walk over a hundred thousand operations takes milliseconds, too long for one pass of the event loop. So it runs in
passes of some thousand steps, at most once a second and a tenth of the time. Requests meanwhile await the survey that
is running.
"""

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Final, cast

import msgspec
from msgspec import UNSET, UnsetType

from purgatory_async import Purgatory, Timer
from purgatory_async.cluster.log import LogError
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.state import State
from purgatory_async.durable.stats.messages import (
    BusyKey,
    Delays,
    FoundOperation,
    History,
    OldOperation,
    Rates,
    SearchPage,
    WheelStrip,
    WheelView,
)
from purgatory_async.durable.stats.oldest import OldestItem
from purgatory_async.durable.stats.recent import Recent
from purgatory_async.durable.stats.search import Found, Listed, search
from purgatory_async.durable.waiting.waits import Wait, Waits
from purgatory_async.timing import TimingWheel

PERIOD: Final = 1.0  # seconds between two surveys
STEPS: Final = 4096  # keys, or entries of the wheel, in one pass
MOST_KEYS: Final = 10
MOST_OPERATIONS: Final = 20
MOST_NARROWER: Final = 64  # surveys of some prefixes that are remembered
SHARE: Final = 0.1  # of the time, at most: a survey of millions of keys takes over a second
_WATCHERS: Final = itemgetter(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The results of a survey; ``taken`` is the timer's time at its end."""

    taken: float
    rates: Rates
    history: History
    delays: Delays
    busiest_keys: list[BusyKey]
    oldest_operations: list[OldOperation]
    wheel: WheelView | None


class Survey:
    """Surveys the pending operations and the timer on demand.

    Args:
        state: Has the operations, and their wheel.
        waits: The one-shot waits.
        timer: For the age of the findings.
        recent: Has the rates and delays.
        wall_clock: The time of the history.
        listed: Lists the operations in order of submission.
        prefixes: All keys of what it names begin with one of these; none for all operations.

    Attributes:
        oldest: The oldest item of all queues, as of the last survey or scrape.
    """

    def __init__(
        self,
        state: State,
        waits: Waits,
        timer: Timer,
        recent: Recent,
        wall_clock: Callable[[], dt.datetime],
        *,
        listed: Listed,
        prefixes: tuple[str, ...] = (),
    ) -> None:
        self._prefixes: Final = prefixes
        self._narrower: Final[dict[tuple[str, ...], Survey]] = {}
        self._state: Final = state
        self._all_waits: Final = waits
        self._waits: Final = waits.purgatory
        self._timer: Final = timer
        self._recent: Final = recent
        self._wall_clock: Final = wall_clock
        self._listed: Final = listed
        self.oldest: Final = OldestItem(state)
        self._findings: Findings | None = None
        self._due = 0.0  # when the findings expire, by the timer's time
        self._resumed = self._spent = 0.0  # start of this pass, and seconds of the earlier ones
        self._under_way: asyncio.Task[Findings] | None = None

    def __repr__(self) -> str:
        age = "none" if self._findings is None else f"{self._timer.time() - self._findings.taken:.3f} s ago"
        return f"<Survey last={age}>"

    def within(self, prefixes: tuple[str, ...]) -> "Survey":
        """Return the survey that names only what lies wholly within some prefixes; itself for none. O(1)."""
        if not prefixes:
            return self
        found = self._narrower.get(prefixes)
        if found is None:
            if len(self._narrower) == MOST_NARROWER:
                del self._narrower[next(iter(self._narrower))]
            found = self._narrower[prefixes] = Survey(
                self._state,
                self._all_waits,
                self._timer,
                self._recent,
                self._wall_clock,
                listed=self._listed,
                prefixes=prefixes,
            )
        return found

    async def findings(self) -> Findings:
        """Return the last survey's findings, or run a new survey if they are a second old or more."""
        if self._findings is not None and self._timer.time() < self._due:
            return self._findings
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.get_running_loop().create_task(self._make(), name="survey")
        # Shielded: cancelling one request must not cancel the survey of the others.
        return await asyncio.shield(self._under_way)

    async def search(self, text: str, first: int, limit: int) -> SearchPage:
        """Return a page of the pending operations whose id or a key begins with a text. O(pending), in passes.

        Args:
            text: Empty for all operations.
            first: How many matches to skip.
            limit: The most to return.
        """
        found = Found(text, first, limit, self._prefixes)
        waits = cast("Iterator[Operation | Wait]", self._waits.operations())
        await search(self._listed, waits, found)
        operation = self._state.fold.operations.by_id.get(text)
        if operation is not None and not self._names(operation):
            operation = None
        ended = None if operation is None or operation.outcome is None else operation.state
        pending = [each for each in found.page if each.outcome is None]
        shown = [
            FoundOperation(**msgspec.structs.asdict(row), title=_title(each))
            for row, each in zip(self._shown(pending), pending, strict=True)
        ]
        return SearchPage(found.total, first, shown, ended)

    async def _make(self) -> Findings:
        self._resumed, self._spent = self._timer.time(), 0.0
        if self._state.connected:
            with suppress(LogError):
                await self._state.caught_up()  # its wheel stands at log time
        wheel = await self._wheel()
        busiest = await self._busiest_keys()
        await self.oldest.look()
        oldest = await self._oldest_operations()
        taken = self._timer.time()
        self._due = taken + max(PERIOD, self._spent / SHARE)
        self._findings = Findings(
            taken=taken,
            rates=self._recent.rates(),
            history=self._recent.history(sum(each.pending for each in self._purgatories), self._wall_clock()),
            delays=self._recent.delays(),
            busiest_keys=busiest,
            oldest_operations=oldest,
            wheel=wheel,
        )
        return self._findings

    async def _let_others_run(self) -> None:
        self._spent += self._timer.time() - self._resumed
        await asyncio.sleep(0)
        self._resumed = self._timer.time()

    async def _wheel(self) -> WheelView | None:
        timer = self._log_timer
        wheel = timer.queue
        if not isinstance(wheel, TimingWheel):
            return None
        size, now_tick = wheel.wheel_size, wheel.now_tick
        strips: list[WheelStrip] = []
        steps = 0
        for ticks_per_bucket, start, count in wheel.buckets():
            while not strips or strips[-1].ticks_per_bucket < ticks_per_bucket:
                strips.append(_empty_strip(size ** len(strips), now_tick, size))
            strip = strips[-1]
            # Overdue entries count as due now; entries newer than `now_tick` are at most just past the last bucket.
            place = (max(start, strip.first_tick) - strip.first_tick) // ticks_per_bucket
            strip.counts[min(place, size)] += count
            steps += count + 1
            if steps >= STEPS:
                steps = 0
                await self._let_others_run()
        while len(strips) < 2:  # noqa: PLR2004 - a wheel always has two
            strips.append(_empty_strip(size ** len(strips), now_tick, size))
        entries = sum(sum(strip.counts) for strip in strips)
        await self._let_others_run()
        # Some may have been submitted after their bucket was counted.
        operations = min(await self._operations_with_deadline(), entries)
        return WheelView(timer.tick, now_tick, entries, operations, strips)

    async def _operations_with_deadline(self) -> int:
        count = after = 0
        while part := list(islice(self._listed(None, after), STEPS)):
            count += sum(each.scheduled for each in part)
            after = part[-1].position
            await self._let_others_run()
        return count

    async def _busiest_keys(self) -> list[BusyKey]:
        purgatories = self._purgatories
        walk = cast("Iterator[tuple[str, int]]", chain(*(each.watchers() for each in purgatories)))
        best: list[tuple[str, int]] = []
        while part := list(islice(walk, STEPS)):
            if self._prefixes:
                part = [busy for busy in part if busy[0].startswith(self._prefixes)]
            best = nlargest(MOST_KEYS, best + part, key=_WATCHERS)
            await self._let_others_run()
        # Again, because each pass counted at another moment, and the operations and the waits each for themselves.
        now: Counter[str] = Counter()
        for each in purgatories:
            now.update(dict(cast("Iterator[tuple[str, int]]", each.watchers([key for key, _ in best]))))
        return [BusyKey(*item) for item in now.most_common()]

    @property
    def _log_timer(self) -> Timer:
        return self._state.fold.shared.timer

    @property
    def _purgatories(self) -> tuple[Purgatory, Purgatory]:
        return self._state.fold.operations.purgatory, self._waits

    async def _oldest_operations(self) -> list[OldOperation]:
        if self._prefixes:
            found = Found("", 0, MOST_OPERATIONS, self._prefixes)
            waits = Found("", 0, MOST_OPERATIONS, self._prefixes)
            await search(self._listed, (), found)
            await search(_no_operations, cast("Iterator[Operation | Wait]", self._waits.operations()), waits)
            oldest = self._shown(each for each in found.page + waits.page if each.outcome is None)
        else:
            oldest = self._shown(
                each
                for purgatory in self._purgatories
                # They have no others.
                for each in cast("Iterator[Operation | Wait]", purgatory.operations(limit=MOST_OPERATIONS))
            )
        return nlargest(MOST_OPERATIONS, oldest, key=attrgetter("elapsed"))

    def _names(self, operation: Operation) -> bool:
        prefixes = self._prefixes
        return not prefixes or all(key.startswith(prefixes) for key in operation.watch_keys)

    def _shown(self, operations: Iterable[Operation | Wait]) -> list[OldOperation]:
        now, now_us = self._timer.time(), self._state.now_us()
        return [
            _old_operation(
                each,
                (now_us - each.submitted_us) / SECOND
                if isinstance(each, Operation)
                else now - each.submitted,
            )
            for each in operations
        ]


def _no_operations(_: str | None, __: int) -> Iterator[Operation]:
    return iter(())


def _empty_strip(ticks_per_bucket: int, now_tick: int, size: int) -> WheelStrip:
    # One more than the level's buckets: the first has begun, so part of one more is in reach.
    return WheelStrip(ticks_per_bucket, now_tick - now_tick % ticks_per_bucket, [0] * (size + 1))


def _title(operation: Operation | Wait) -> str | UnsetType:
    """Return what an operation asks a person."""
    promise = operation.promise if isinstance(operation, Operation) else None
    return UNSET if promise is None or isinstance(promise.ask, UnsetType) else promise.ask.title


def _old_operation(operation: Operation | Wait, elapsed: float) -> OldOperation:
    return OldOperation(
        operation.id if isinstance(operation, Operation) else None,
        keys=operation.watch_keys,
        need=operation.need.wire,
        waiting_for=operation.need.waiting_for(),
        elapsed=round(elapsed, 6),
        expires_in=None if operation.timeout is None else round(max(operation.timeout - elapsed, 0.0), 6),
    )
