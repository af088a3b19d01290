"""Followers of this process: readers that want every signal after an index, and wait while there is none.

The signals on its keys and prefixes are collected for a held follower until it wakes. So a burst of signals in
one turn of the loop reaches it whole, however few of them are kept.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final, Generic

from purgatory_async import Timer
from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.fitting import ANSWER_BYTES
from purgatory_async.durable.documents.problems import Kind, Problem
from purgatory_async.durable.fold.kept_signals import KeptSignals, KeySignalled
from purgatory_async.durable.fold.shared import Effect
from purgatory_async.durable.fold.signals import Signal
from purgatory_async.durable.history import continues
from purgatory_async.durable.since import Found, Seen, Survey, Wanted, kept_since, near
from purgatory_async.durable.state import State
from purgatory_async.durable.waiting.waiters import G, Waiters

PATIENCE: Final = 3
"""How often a reader that is far behind searches again, if the state dropped some of what it found meanwhile."""


class _Audience:
    """Those that have listened to one key or prefix since its last signal, and what they hear from the next one on.

    They share it, so a signal costs no more for many of them. It has no more than an answer can have.
    """

    __slots__ = ("asleep", "heard", "left", "most", "size")

    def __init__(self) -> None:
        self.asleep: dict[_Follower, None] = {}  # until the first signal
        self.heard: Final[list[Signal]] = []
        self.left = 0  # how many have not gone
        self.most = 0  # signals of an answer to any of them
        self.size = 0  # bytes

    @property
    def sated(self) -> bool:
        """Whether it has more than an answer holds."""
        return len(self.heard) == self.most or self.size > ANSWER_BYTES


class _Follower:
    """One that waits, and the audiences that it is in."""

    __slots__ = ("audiences", "most")

    def __init__(self, most: int) -> None:
        self.audiences: Final[list[_Audience]] = []
        self.most: Final = most

    @property
    def heard(self) -> Sequence[Signal]:
        """The signals on its keys and prefixes, oldest first, no more than its answer can have. O(signals)."""
        if len(self.audiences) == 1:
            return self.audiences[0].heard[: self.most]
        heard = {signal.view.index: signal for each in self.audiences for signal in each.heard}
        return [heard[index] for index in sorted(heard)[: self.most]]


class Followers(Generic[G]):
    """The followers of this process.

    Args:
        state: Has the kept signals.
        timer: For the waits.
        waiters: Hold the followers.

    Attributes:
        waiting: How many are held.
        gaps: How many answers said that a signal may be missing.
    """

    def __init__(self, state: State, timer: Timer, waiters: Waiters[G]) -> None:
        self.waiting = 0
        self.gaps = 0
        self._state: Final = state
        self._timer: Final = timer
        self._waiters: Final = waiters
        # The audiences of each; only the last can have heard nothing.
        self._by_key: Final[dict[str, list[_Audience]]] = {}
        self._by_prefix: Final[dict[str, list[_Audience]]] = {}
        self._lengths: Final[Counter[int]] = Counter()  # of the prefixes
        self._surveying: Final = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Followers waiting={self.waiting}>"

    async def follow(self, wanted: Wanted, since: Seen, *, most: int, wait: float, by: G) -> Found:
        """Return the signals after an index; wait while there is none.

        An index of another history, or above the newest signal, is a gap before all that is kept. The state must have
        caught up. It does not change before the caller awaits something else, so what the caller reads then belongs to
        the answer.

        Args:
            wanted: The keys and prefixes.
            since: The last index that the client knows, with its history.
            most: The most signals.
            wait: Seconds to wait; may be infinite.
            by: Who follows.

        Raises:
            Problem: ``overloaded`` or ``draining`` (also while held).
            LogUnavailable: The wait is over, but the store is away.
        """
        until = self._timer.time() + wait
        while True:
            found = await self._look(wanted, since, most)
            self.gaps += found.gap
            left = until - self._timer.time()
            if found.signals or found.gap or left <= 0:
                return found
            fold = self._state.fold
            heard = await self._listen(wanted, most, left, by)
            if self._state.fold is fold:
                return Found(heard, gap=False)
            await self._state.caught_up()  # the state was loaded again: what was heard is not all

    def hear(self, effects: Sequence[Effect]) -> None:
        """Give the signals of a step to those that follow their keys. O(audiences and lengths of prefixes) each."""
        for effect in effects:
            if isinstance(effect, KeySignalled):
                key = effect.signal.view.key
                self._tell(self._by_key.get(key, ()), effect.signal)
                for length in self._lengths:
                    if length <= len(key):
                        self._tell(self._by_prefix.get(key[:length], ()), effect.signal)

    def _tell(self, audiences: Iterable[_Audience], signal: Signal) -> None:
        for audience in audiences:
            if audience.sated:
                continue
            audience.heard.append(signal)
            audience.size += signal.size
            if audience.asleep:
                woken, audience.asleep = audience.asleep, {}
                self._waiters.each_happened(woken)

    async def _look(self, wanted: Wanted, since: Seen, most: int) -> Found:
        """Return what is kept after an index, as of the moment of the return."""
        for patience in range(PATIENCE, -1, -1):
            fold, known = self._state.fold, self._is_known(since)
            index = since.index if known else 0
            found = await self._found(fold.signals, wanted, index, most, patience)
            # Otherwise the state was loaded again meanwhile, or dropped some of what was found.
            if found is not None and self._state.fold is fold and self._is_known(since) is known:
                return found if known else Found(found.signals, gap=True)
        raise problems.gap()

    async def _found(
        self, kept: KeptSignals, wanted: Wanted, index: int, most: int, patience: int
    ) -> Found | None:
        """Search all keys if needed: some at a time, one reader after the other, or at once without ``patience``."""
        beginning = near(kept, wanted.prefixes, index)
        if beginning is not None:
            return kept_since(kept, wanted, index, most, beginning)
        async with self._surveying:
            if not patience:
                await self._state.settled()
            survey = Survey(kept, wanted.prefixes, index, most)
            for _ in survey.steps():
                if patience:
                    await asyncio.sleep(0)
            if patience:
                await self._state.settled()
            return survey.found(wanted)

    def _is_known(self, since: Seen) -> bool:
        """Whether an index is of the history of the state."""
        highest = self._state.fold.signals.highest
        return since.index <= highest and continues(self._state, since.history, since.index)

    async def _listen(self, wanted: Wanted, most: int, seconds: float, by: G) -> Sequence[Signal]:
        """Wait until a signal comes, or its wait is over and all before its end is applied."""
        follower = _Follower(most)
        self._add(wanted, follower)
        try:
            if not await self._waiters.until(by, follower, None if seconds == inf else seconds):
                await self._state.caught_up()
        except Problem as problem:
            if problem.kind is not Kind.GAP:  # which the next search finds
                raise
        finally:
            self._remove(wanted, follower)
        return follower.heard

    def _add(self, wanted: Wanted, follower: _Follower) -> None:
        self.waiting += 1
        for table, names in self._tables(wanted):
            for name in names:
                audiences = table.setdefault(name, [])
                if not audiences or audiences[-1].heard:
                    audiences.append(_Audience())
                audience = audiences[-1]
                audience.asleep[follower] = None
                audience.left += 1
                audience.most = max(audience.most, follower.most)
                follower.audiences.append(audience)
        self._lengths.update(map(len, wanted.prefixes))

    def _remove(self, wanted: Wanted, follower: _Follower) -> None:
        self.waiting -= 1
        joined = iter(follower.audiences)
        for table, names in self._tables(wanted):
            for name, audience in zip(names, joined, strict=False):
                audience.asleep.pop(follower, None)
                audience.left -= 1
                if not audience.left:
                    table[name].remove(audience)
                if not table[name]:
                    del table[name]
        for prefix in wanted.prefixes:
            self._lengths[len(prefix)] -= 1
            if not self._lengths[len(prefix)]:
                del self._lengths[len(prefix)]

    def _tables(self, wanted: Wanted) -> Iterable[tuple[dict[str, list[_Audience]], tuple[str, ...]]]:
        return (self._by_key, wanted.keys), (self._by_prefix, wanted.prefixes)
