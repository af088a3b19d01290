"""The fold: applies the entries of a log, one step each.

A step at log time ``at_us``:

1. Log time becomes ``at_us``.
2. Time passes: everything due at or before log time happens, each at its own time, in the order of (due time in whole
   milliseconds, rounded up; position of the entry that caused it; kind). What this makes due by then takes part.
3. The entry is dropped as a repetition, or applied. What it makes due at once (a timeout of 0) happens too.

As in the library's timer, equal deadlines fire in the order in which they were scheduled. Those that one step
scheduled fire in the order leases, takers, operations, silent writers; its leases end in the order in which they began.

>>> from purgatory_async.durable.fold.entries import SignalKey, SubmitOperation
>>> fold = Fold()
>>> fold.apply(1, 1_000_000, SubmitOperation(id="a", keys=("k",), timeout_us=250_000))[0]
Submitted(id='a', state='pending', replayed=False)
>>> fold.apply(2, 1_100_000, SubmitOperation(id="b", keys=("k",), timeout_us=250_000))[0]
Submitted(id='b', state='pending', replayed=False)
>>> fold.apply(3, 1_250_000, SignalKey(key="k"))[0]  # too late for one, in time for the other
Signalled(index=3, completed=1, replayed=False)
>>> [fold.operations.by_id[name].state for name in ("a", "b")]
['expired', 'completed']
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from purgatory_async import Timer
from purgatory_async.cluster.repetitions import NEW
from purgatory_async.durable.fold import entries as kinds
from purgatory_async.durable.fold.forgetting import Forgetting
from purgatory_async.durable.fold.kept_signals import KeptSignals
from purgatory_async.durable.fold.log_clock import NEVER, LogClock
from purgatory_async.durable.fold.operation_rules import OperationRules
from purgatory_async.durable.fold.operations import Operations
from purgatory_async.durable.fold.queue_rules import QueueRules
from purgatory_async.durable.fold.queues import Queues
from purgatory_async.durable.fold.replays import Replays
from purgatory_async.durable.fold.results import (
    APPLIED,
    Dropped,
    Refused,
    Result,
)
from purgatory_async.durable.fold.shared import Effect, Shared, Work, done
from purgatory_async.durable.fold.signal_rules import SignalRules
from purgatory_async.durable.fold.terms import Terms
from purgatory_async.durable.fold.writers import Writers
from purgatory_async.errors import PurgatoryError
from purgatory_async.events import Observer

LEVEL: Final = 3
"""The highest version of entries and fold that this program applies. Any change of what the fold gives for the same
entries is a new one."""
FIRST_LEVEL: Final = 1
"""The level of a log before its first `SetLevel`, for ever: a program that knows higher ones must not assume them."""

DIGEST_BYTES: Final = 12
DIGESTED: Final = 64
"""Effects of a step that are digested at once."""
REMEMBERED: Final = 10_000
"""Positions whose running digests are remembered."""

Applied = tuple[Result, Sequence[Effect]]
"""The result of an entry, and the effects of its step in order."""


class FoldError(PurgatoryError):
    """The log cannot be applied any further: damaged, or of a higher level. Nothing was applied."""


class LevelError(FoldError):
    """The log, or a checkpoint, is of a level above `LEVEL`: sound, but for a newer program."""


class Fold:
    """The state of the service after the entries of a log.

    Args:
        at_us: Log time before the first entry, in microseconds since 1970.
        zero_us: The log time, in whole milliseconds, that is 0 for events and the timer.
        observer: Receives the events of the operations; it must not change the fold. None for none.
        digests: Whether to keep the running digest, which replicas compare.

    Attributes:
        level: The version of the entries from here on.
        position: The position of the last entry; 0 before the first.
        at_us: Its log time, in microseconds since 1970.
        zero_us: The log time from which events count their nanoseconds.
        running: The running digest over all positions and their results.
        diverged_at: A position at which another replica says that its running digest differs; None if none has.
        operations, signals, queues, writers, replays, terms: The parts, for reading.
    """

    def __init__(
        self, at_us: int = 0, *, zero_us: int = 0, observer: Observer | None = None, digests: bool = True
    ) -> None:
        self.zero_us: Final = zero_us
        self._clock: Final = LogClock(at_us, zero_us)
        self.shared: Final = Shared(self._clock, Timer(clock=self._clock))
        self.signals: Final = KeptSignals(self.shared)
        self.queues: Final = Queues(self.shared)
        self.operations: Final = Operations(self.shared, self.signals, self.queues, observer)
        self.replays: Final = Replays(self.shared)
        self.writers: Final = Writers(self.shared, self.queues.takers.silent)
        self.terms: Final = Terms()
        self.level = FIRST_LEVEL
        self.position = 0
        self.at_us = at_us
        self.running = bytes(DIGEST_BYTES)
        self.diverged_at: int | None = None
        self._digests: Final = digests
        self._forgetting: Final = Forgetting(
            *(self.shared, self.operations, self.signals, self.queues),
            replays=self.replays,
            writers=self.writers,
        )
        self._lately: Final[deque[bytes]] = deque(maxlen=REMEMBERED)
        self._digested = 0  # the position of the last of them; a step that has not ended has none
        by_operation = OperationRules(self.operations, self.signals, self.queues, self.replays, self.shared)
        self._rules: Final[dict[type[kinds.Entry], Callable[[Any], Result | Work[Result]]]] = {
            kinds.Tick: _nothing_more,
            kinds.Alive: self._alive,
            kinds.SetLimits: self._set_limits,
            kinds.SetLevel: self._set_level,
            **by_operation.by_kind,
            **QueueRules(self.queues, self.replays, self.shared, by_operation.replayed).by_kind,
            **SignalRules(
                self.signals,
                self.operations,
                self.replays,
                self.shared,
                replayed=by_operation.replayed,
                observer=observer,
            ).by_kind,
        }

    def __repr__(self) -> str:
        return (
            f"<Fold position={self.position} level={self.level} pending={self.operations.purgatory.pending}>"
        )

    @property
    def next_us(self) -> int | None:
        """When a tick is next of use, in log time; None if nothing is due. Forgetting needs none. O(1)."""
        next_ns = self._clock.next_ns
        return None if next_ns == NEVER else self.zero_us + next_ns // 1000

    def apply(self, position: int, at_us: int, entry: kinds.Entry) -> Applied:
        """Apply the next entry of the log.

        Args:
            position: One above the last.
            at_us: Log time, in microseconds since 1970; not before the last.
            entry: One of the kinds in `entries`.

        Returns:
            The entry's result and the step's effects. O(what happens).

        Raises:
            FoldError: The entry is not the next; nothing has changed.
            LevelError: It sets a level above `LEVEL`; nothing has changed.
        """
        given = self.begin(position, at_us, entry)
        return given if isinstance(given, tuple) else done(given)

    def step(self, position: int, at_us: int, entry: kinds.Entry) -> Iterator[Applied | None]:
        """Do as `apply`, with breaks: yields None for each, and what `apply` returns in the end; see `begin`."""
        given = self.begin(position, at_us, entry)
        yield given if isinstance(given, tuple) else (yield from given)

    def begin(self, position: int, at_us: int, entry: kinds.Entry) -> Applied | Work[Applied]:
        """Do as `apply` if that needs no break, as most steps; else return the rest of the step, which has breaks.

        Where a break is taken, and how long it lasts, makes no difference to what comes of the step. Until its end the
        fold must be neither read nor changed, but may be closed.
        """
        if position != self.position + 1 or at_us < self.at_us or type(entry) is kinds.SetLevel:
            self._check(position, at_us, entry)
        shared, clock = self.shared, self._clock
        self.position = shared.position = position
        self.at_us = at_us
        effects: list[Effect] = []
        shared.effects = effects
        shared.before_us = clock.now_us
        if (
            not clock.moved_to(at_us)
            or at_us >= shared.forget_from_us
            or entry.writer is not None
            or self._digests
        ):
            return self._whole(entry)
        result = self._rules[type(entry)](entry)
        return self._rest(result) if not isinstance(result, Result) or self._unsettled else (result, effects)

    def passed(self, at_us: int) -> bool:
        """Let time pass without an entry, if nothing is due or forgotten by then; return whether it has. O(1).

        For a state without a log: replicas must agree on the time at which each entry is applied, not on what is read.

        Args:
            at_us: Log time, in microseconds since 1970; not before the present.
        """
        if at_us >= self.shared.forget_from_us or not self._clock.moved_to(at_us):
            return False
        self.at_us = at_us
        return True

    @property
    def step_ns(self) -> int:
        """The log time of the step under way or the last one, in nanoseconds from its zero."""
        return (self.at_us - self.zero_us) * 1000

    def running_at(self, position: int) -> bytes | None:
        """Return the running digest after a position; None if it is not one of the last. O(1)."""
        age = self._digested - position
        return self._lately[-1 - age] if 0 <= age < len(self._lately) else None

    def remember(self, running: bytes) -> None:
        """Make this the running digest at the present position."""
        self.running = running
        self._lately.append(running)
        self._digested = self.position

    def close(self) -> None:
        """Release the timer and the purgatories; the state is lost. Idempotent."""
        for purgatory in (
            self.operations.purgatory,
            self.queues.takers.purgatory,
            self.queues.leases.purgatory,
            self.queues.delays,
        ):
            purgatory.close()
        self.shared.timer.close()

    def _check(self, position: int, at_us: int, entry: kinds.Entry) -> None:
        if position != self.position + 1:
            raise FoldError(f"position must be {self.position + 1}, got {position}")
        if at_us < self.at_us:
            raise FoldError(f"log time must be at least {self.at_us} µs at position {position}, got {at_us}")
        if isinstance(entry, kinds.SetLevel) and entry.level > LEVEL:
            raise LevelError(
                f"level must be at most {LEVEL} at position {position}, got {entry.level}; upgrade"
            )

    def _whole(self, entry: kinds.Entry) -> Work[Applied]:
        """Do a step with all that may belong to it."""
        clock = self._clock
        # Most steps have no use for a break: to begin another generator would take a twentieth of one.
        if not clock.moved_to(self.at_us):
            yield from clock.passes(self.at_us)
        if self.at_us >= self.shared.forget_from_us:
            yield from self._forgetting.forget(self.at_us)
        writer = entry.writer
        verdict = NEW
        if writer is not None:
            introduces = type(entry) is kinds.Alive
            verdict = self.writers.judge(
                writer, entry.number, introduces=introduces, position=self.position, at_us=clock.now_us
            )
        result = self._rules[type(entry)](entry) if verdict is NEW else self._drop(verdict)
        if not isinstance(result, Result):
            result = yield from result
        if writer is not None and writer in self.queues.takers.by_writer:
            self.writers.listen(writer)
        return (yield from self._rest(result))

    @property
    def _unsettled(self) -> bool:
        """Whether the entry has made something due, or too much to keep."""
        clock, shared = self._clock, self.shared
        return clock.next_ns <= clock.now_ns or self.at_us >= shared.forget_from_us or shared.bytes_left < 0

    def _rest(self, result: Result | Work[Result]) -> Work[Applied]:
        """Do the rest of a step, from the result of its rule on."""
        if not isinstance(result, Result):
            result = yield from result
        effects = self.shared.effects
        if self._unsettled:
            self.shared.before_us = self._clock.now_us
            yield from self._clock.passes(self.at_us)
            if self.at_us >= self.shared.forget_from_us:
                yield from self._forgetting.forget(self.at_us)
            yield from self._forgetting.shrink()
        if self._digests:
            rest = effects if len(effects) <= DIGESTED else (yield from self._digest_most(effects))
            step = msgspec.msgpack.encode((self.position, result, [each.fact for each in rest]))
            self.remember(blake2b(self.running + step, digest_size=DIGEST_BYTES).digest())
        return result, effects

    def _digest_most(self, effects: list[Effect]) -> Work[list[Effect]]:
        """Digest many effects, always the same ones at once; return the last ones, which belong to the result."""
        for end in range(DIGESTED, len(effects), DIGESTED):
            some = msgspec.msgpack.encode([each.fact for each in effects[end - DIGESTED : end]])
            self.running = blake2b(self.running + some, digest_size=DIGEST_BYTES).digest()
            yield
        return effects[(len(effects) - 1) // DIGESTED * DIGESTED :]

    # The rules, by kind.

    def _drop(self, verdict: Any) -> Dropped:
        self.shared.totals.dropped += 1
        return Dropped(verdict.value)

    def _alive(self, entry: kinds.Alive) -> Result:
        if entry.writer is not None and entry.number == 1:
            self.terms.begin(self.position, entry.writer)
        ours = self.running_at(entry.position)
        if self.diverged_at is None and ours is not None and entry.digest and ours.hex() != entry.digest:
            self.diverged_at = entry.position
        return APPLIED

    def _set_limits(self, entry: kinds.SetLimits) -> Work[Result]:
        self.shared.limits.change(entry)
        self.shared.forget_from_us = 0
        yield from self.signals.cut()
        return APPLIED

    def _set_level(self, entry: kinds.SetLevel) -> Result:
        if entry.level < self.level:
            return Refused("lower-level")
        self.level = entry.level
        return APPLIED


def _nothing_more(_: kinds.Tick) -> Result:
    return APPLIED
