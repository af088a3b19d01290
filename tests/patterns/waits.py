"""The patterns that tasks wait in, behind one face: for the contract that they share."""

from collections.abc import Hashable
from typing import Any

from purgatory_async import OperationCancelled, OperationExpired, Purgatory, PurgatoryClosed, Timer
from purgatory_async.patterns import Barrier, Correlator, Generation, HandOff, Watermark
from purgatory_async.testing import ManualClock, assert_clean

__all__ = ["SUBJECTS", "TIMEOUT", "LostError", "Subject", "kind_of"]

TIMEOUT = 5


class LostError(Exception):
    """Every wait fails with it."""


class Subject:
    """A pattern on a clock of its own; every wait has the timeout `TIMEOUT`.

    Args:
        max_pending: Of its purgatory.
        timers: How many the timer holds.
    """

    keys: tuple[Hashable, ...] = ("key",)
    spare = 0
    """How many timers may outlive their waits until the tasks run."""

    def __init__(self, max_pending: int | None = None, timers: int | None = None) -> None:
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock, max_pending=timers)
        self.purgatory = Purgatory(timer=self.timer, max_pending=max_pending)
        self.entered = 0
        self.lost = LostError()

    async def enter(self) -> str:
        """Wait; returns ``"completed"``, or ``"expired"`` if that is no error."""
        raise NotImplementedError

    def complete(self) -> int:
        """Complete every wait; returns how many took it."""
        raise NotImplementedError

    def fail(self) -> int:
        """Fail every wait with `lost`; returns how many took it."""
        return sum(self.purgatory.fail_for_key(key, self.lost) for key in self.keys)

    def expire(self) -> None:
        """Let the time of every wait pass."""
        self.clock.advance(TIMEOUT)

    def cancel_keys(self) -> None:
        """Cancel every wait for its key."""
        for key in self.keys:
            self.purgatory.cancel_for_key(key)

    def close(self) -> None:
        """End every wait for good."""
        self.purgatory.close()

    @property
    def deadlines(self) -> int:
        """How many entries its waits should have in the timer."""
        return self.purgatory.pending

    def check_empty(self) -> None:
        """See that no wait, no deadline and no result is left."""
        assert self.purgatory.pending == 0
        assert (self.timer.pending, self.timer.next_deadline) == (0, None)
        assert_clean(self.purgatory)


class BarrierWaits(Subject):
    spare = 1

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.released: list[Generation[int]] = []
        self.group = Barrier[int](
            self.purgatory, "key", expect=99, timeout=TIMEOUT, on_release=self.released.append
        )

    async def enter(self) -> str:
        self.entered += 1
        member = self.entered
        generation = await self.group.arrive(member)
        assert member in generation.members
        assert generation is self.released[-1]
        return "completed" if generation.complete else "expired"

    def complete(self) -> int:
        before = len(self.released)
        self.group.expect = 1
        self.group.expect = 99
        return sum(len(generation.members) for generation in self.released[before:])

    def fail(self) -> int:
        present = len(self.group.present)
        super().fail()  # counts a member just cancelled, like any operation
        return present

    @property
    def deadlines(self) -> int:
        return int(self.group.present != ())

    def check_empty(self) -> None:
        super().check_empty()
        assert self.group.present == ()
        assert all(generation.members for generation in self.released)


class CorrelatorWaits(Subject):
    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.calls = Correlator[str](self.purgatory)
        self.in_time = 0

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        return tuple(range(1, self.entered + 1))

    async def enter(self) -> str:
        self.entered += 1
        return await self.calls.expect(self.entered, TIMEOUT)

    def complete(self) -> int:
        late = self.calls.late
        answers = [self.calls.resolve(number, "completed") for number in self.keys]
        assert self.calls.late - late == answers.count(False)
        return answers.count(True)

    def fail(self) -> int:
        return self.calls.fail_all(self.lost)


class HandOffWaits(Subject):
    keys = ("key", "other")

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.jobs = HandOff[Hashable, int](self.purgatory)
        self.put = self.taken = 0

    async def enter(self) -> str:
        await self.jobs.take("other", "key", timeout=TIMEOUT)
        self.taken += 1
        return "completed"

    def complete(self) -> int:
        waiting = self.purgatory.pending
        self.put += waiting
        return [self.jobs.put("key", number) for number in range(waiting)].count(True)

    def check_empty(self) -> None:
        super().check_empty()
        assert self.taken + len(self.jobs.clear()) == self.put


class WatermarkWaits(Subject):
    def __init__(self, max_pending: int | None = None, timers: int | None = None) -> None:
        super().__init__(timers=timers)
        self.high = Watermark(timer=self.timer)
        self.purgatory = self.high._purgatory

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        return (self.high.value + 1,)

    async def enter(self) -> str:
        value = self.high.value + 1
        assert await self.high.reach(value, TIMEOUT) == value
        return "completed"

    def complete(self) -> int:
        return self.high.advance(self.high.value + 1)

    def fail(self) -> int:
        return self.high.fail_all(self.lost)

    def close(self) -> None:
        self.high.close()

    def check_empty(self) -> None:
        super().check_empty()
        assert self.high.waiting == 0


SUBJECTS = (BarrierWaits, CorrelatorWaits, HandOffWaits, WatermarkWaits)

_KINDS = {
    LostError: "failed",
    OperationExpired: "expired",
    OperationCancelled: "cancelled for its key",
    PurgatoryClosed: "closed",
}


def kind_of(end: object) -> object:
    """A word for how a wait has ended."""
    return _KINDS.get(type(end), end)  # type: ignore[call-overload]
