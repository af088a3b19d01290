"""The table of patterns, a row each, for the tests of what all of them promise: a new pattern adds its row here."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from purgatory_async import OperationCancelled, OperationExpired, Purgatory, PurgatoryClosed, Timer
from purgatory_async.patterns import (
    Barrier,
    Broadcast,
    Correlator,
    Generation,
    HandOff,
    Heartbeat,
    KeyedLock,
    KeyedSemaphore,
    Periodic,
    Published,
    Quorum,
    Retrier,
    SingleFlight,
    Watermark,
)
from purgatory_async.testing import ManualClock, assert_clean

__all__ = ["RUNS", "TIMEOUT", "WAITS", "LostError", "Runs", "Waits", "kind_of", "made"]

TIMEOUT = 5


class LostError(Exception):
    """Every wait fails with it."""


class Waits:
    """A pattern that tasks wait in, on a clock of its own.

    Args:
        max_pending: The limit of its purgatory.
        timers: How many the timer holds.
    """

    keys: tuple[Hashable, ...] = ("key",)
    spare = 0
    """How many timers may outlive their waits until the tasks run."""
    limited = True
    """Whether it takes a purgatory, which may be full."""
    asks = True
    """Whether completing waits asks the purgatory, which knows its loop."""

    def __init__(self, max_pending: int | None = None, timers: int | None = None) -> None:
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock, max_pending=timers)
        self.purgatory = Purgatory(timer=self.timer, max_pending=max_pending)
        self.entered = 0
        self.lost = LostError()
        self.pattern = self.make()

    def make(self) -> Any:
        """The pattern."""
        raise NotImplementedError

    async def enter(self, timeout: float | None = TIMEOUT) -> str:
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


class BarrierWaits(Waits):
    spare = 1
    asks = False

    def make(self) -> Barrier[int]:
        self.released: list[Generation[int]] = []
        return Barrier(self.purgatory, "key", expect=99, timeout=TIMEOUT, on_release=self.released.append)

    async def enter(self, timeout: float | None = TIMEOUT) -> str:
        self.entered += 1
        member = self.entered
        self.pattern.timeout = timeout  # of the window, which is the deadline of all
        generation = await self.pattern.arrive(member)
        assert member in generation.members
        assert generation is self.released[-1]
        return "completed" if generation.complete else "expired"

    def complete(self) -> int:
        before = len(self.released)
        self.pattern.expect = 1
        self.pattern.expect = 99
        return sum(len(generation.members) for generation in self.released[before:])

    def fail(self) -> int:
        present = len(self.pattern.present)
        super().fail()  # counts a member just cancelled, like any operation
        return present

    @property
    def deadlines(self) -> int:
        return int(self.pattern.present != ())

    def check_empty(self) -> None:
        super().check_empty()
        assert self.pattern.present == ()
        assert all(generation.members for generation in self.released)


class BroadcastWaits(Waits):
    def make(self) -> Broadcast[str]:
        return Broadcast(self.purgatory)

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        return (self.pattern._ring.key,)

    async def enter(self, timeout: float | None = TIMEOUT) -> str:
        after = self.pattern.newest
        event = await self.pattern.next(after, timeout=timeout)
        assert event == Published(after + 1, "completed")
        return event.item

    def complete(self) -> int:
        waiting = sum(not each.abandoned for each in self.purgatory.operations())
        self.pattern.publish("completed")
        return waiting


class CorrelatorWaits(Waits):
    def make(self) -> Correlator[str]:
        return Correlator(self.purgatory)

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        return tuple(range(1, self.entered + 1))

    async def enter(self, timeout: float | None = TIMEOUT) -> str:
        self.entered += 1
        reply: str = await self.pattern.expect(self.entered, timeout)
        return reply

    def complete(self) -> int:
        late = self.pattern.late
        answers = [self.pattern.resolve(number, "completed") for number in self.keys]
        assert self.pattern.late - late == answers.count(False)
        return answers.count(True)

    def fail(self) -> int:
        failed: int = self.pattern.fail_all(self.lost)
        return failed


class RequestWaits(CorrelatorWaits):
    def make(self) -> Correlator[str]:
        self.sent: list[int] = []
        return super().make()

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        return tuple(self.sent)

    async def enter(self, timeout: float | None = TIMEOUT) -> str:
        async def send(number: int) -> None:
            self.sent.append(number)

        reply: str = await self.pattern.request(send, timeout=timeout)
        return reply


class HandOffWaits(Waits):
    keys = ("key", "other")

    def make(self) -> HandOff[Hashable, int]:
        self.put = self.taken = 0
        return HandOff(self.purgatory)

    async def enter(self, timeout: float | None = TIMEOUT) -> str:
        await self.pattern.take("other", "key", timeout=timeout)
        self.taken += 1
        return "completed"

    def complete(self) -> int:
        given = [self.pattern.put("key", number) for number in range(self.purgatory.pending)]
        self.put += len(given)
        return given.count(True)

    def check_empty(self) -> None:
        super().check_empty()
        assert self.taken + len(self.pattern.clear()) == self.put


class KeyedSemaphoreWaits(Waits):
    """All permits of the key are held; to complete a wait is to give it one of them."""

    def make(self) -> KeyedSemaphore:
        semaphore = KeyedSemaphore(self.purgatory, permits=99)
        for _ in range(99):
            with suppress(StopIteration):  # at once
                semaphore.acquire("key").send(None)
        return semaphore

    async def enter(self, timeout: float | None = TIMEOUT) -> str:
        await self.pattern.acquire("key", timeout=timeout)
        return "completed"

    def complete(self) -> int:
        waiting: int = self.pattern.waiting("key")
        for _ in range(waiting):
            self.pattern.release("key")
        return waiting

    def fail(self) -> int:
        return sum(operation.fail(self.lost) for operation in self.purgatory.operations())

    def cancel_keys(self) -> None:
        for operation in self.purgatory.operations():
            operation.cancel()

    def check_empty(self) -> None:
        super().check_empty()
        assert self.pattern.waiting("key") == 0


class WatermarkWaits(Waits):
    limited = False

    def make(self) -> Watermark:
        high = Watermark(timer=self.timer)
        self.purgatory = high._purgatory
        return high

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        return (self.pattern.value + 1,)

    async def enter(self, timeout: float | None = TIMEOUT) -> str:
        value = self.pattern.value + 1
        assert await self.pattern.reach(value, timeout) == value
        return "completed"

    def complete(self) -> int:
        released: int = self.pattern.advance(self.pattern.value + 1)
        return released

    def fail(self) -> int:
        failed: int = self.pattern.fail_all(self.lost)
        return failed

    def close(self) -> None:
        self.pattern.close()

    def check_empty(self) -> None:
        super().check_empty()
        assert self.pattern.waiting == 0


class SingleFlightWaits(Waits):
    """Its call never ends by itself, so that the purgatory's verbs can end the callers' waits as they do others."""

    def make(self) -> SingleFlight:
        return SingleFlight(self.purgatory)

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        return tuple({key for operation in self.purgatory.operations() for key in operation.keys})

    async def enter(self, timeout: float | None = TIMEOUT) -> str:
        ended: str = await self.pattern.run("key", self._never, timeout=timeout)
        return ended

    def complete(self) -> int:
        present = self._present()
        for key in self.keys:
            self.purgatory.complete_for_key(key, "completed")
        return present

    def fail(self) -> int:
        present = self._present()
        super().fail()
        return present

    def _present(self) -> int:
        return sum(not caller.abandoned for caller in self.purgatory.operations())

    @staticmethod
    async def _never() -> str:
        await asyncio.get_running_loop().create_future()
        raise AssertionError


WAITS = (
    BarrierWaits,
    BroadcastWaits,
    CorrelatorWaits,
    HandOffWaits,
    KeyedSemaphoreWaits,
    RequestWaits,
    SingleFlightWaits,
    WatermarkWaits,
)

_KINDS = {
    LostError: "failed",
    OperationExpired: "expired",
    OperationCancelled: "cancelled for its key",
    PurgatoryClosed: "closed",
}


def kind_of(end: object) -> object:
    """A word for how a wait has ended."""
    return _KINDS.get(type(end), end)  # type: ignore[call-overload]


Work = Callable[[], object]


class Runs:
    """A pattern that runs a function, first a second after it was made."""

    repeated = True
    """Whether it runs it again and again, every second."""
    has_close = True
    """Whether it has `close`, and is a context manager."""
    is_async = False
    """Whether the function must be async."""
    reports = True
    """Whether it reports what the function raises."""

    @staticmethod
    def make(timer: Timer, work: Work) -> Any:
        """The pattern."""
        raise NotImplementedError


class Beating(Runs):
    @staticmethod
    def make(timer: Timer, work: Work) -> Periodic:
        return Periodic(timer, 1, work)


class BeatingAtARate(Runs):
    @staticmethod
    def make(timer: Timer, work: Work) -> Periodic:
        return Periodic(timer, 1, work, mode="fixed_rate")


class Pinging(Runs):
    @staticmethod
    def make(timer: Timer, work: Work) -> Heartbeat:
        return Heartbeat(timer, interval=1, idle_timeout=1000, send=work, on_dead=print)


class Dying(Runs):
    repeated = False

    @staticmethod
    def make(timer: Timer, work: Work) -> Heartbeat:
        return Heartbeat(timer, interval=0.5, idle_timeout=1, send=int, on_dead=work)


class Retrying(Runs):
    has_close = reports = False
    is_async = True

    @staticmethod
    def make(timer: Timer, work: Work) -> Retrier[str]:
        retrier = Retrier[str](timer, delay=1, attempts=None)
        retrier.submit("key", _Fails(work))
        return retrier


class _Fails:
    """An attempt that fails, so that it runs again and again."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work

    async def __call__(self) -> None:
        result = self._work()
        if isinstance(result, Coroutine):
            await result
        raise OSError("try again")


RUNS = (Beating, BeatingAtARate, Pinging, Dying, Retrying)


@contextmanager
def made() -> Iterator[list[object]]:
    """One of each class of the package."""
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    patterns = [row().pattern for row in WAITS] + [row.make(purgatory.timer, int) for row in RUNS]
    yield [*patterns, Correlator[str](purgatory).expect(7, TIMEOUT), KeyedLock(purgatory), Quorum[str](1)]
    purgatory.close()
    purgatory.timer.close()
