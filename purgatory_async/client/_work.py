"""`AsyncVerbs.work`: handle the items of queues, over the verbs of queues alone."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from math import inf
from typing import Any, Final, NoReturn, TypeVar

from purgatory_async.client._awaiting_queues import QueueCalls
from purgatory_async.client._model import Lease, RequestRefused, ServiceError, ServiceUnreachable
from purgatory_async.clock import as_number, check_delay, describe
from purgatory_async.durations import Duration, as_seconds
from purgatory_async.errors import as_integer

T = TypeVar("T")

Handler = Callable[[Lease], Awaitable[object]]
OnError = Callable[[Lease, Exception], object]
Retry = tuple[Duration, float, Duration]

_BATCH: Final = 100  # the most items of one take
_FIRST_PAUSE: Final = 0.1  # seconds, between two tries while the service or its store is away
_LONGEST_PAUSE: Final = 5.0
_GONE: Final = 410
_TOO_MANY: Final = 429


class Work:
    """One call of `AsyncVerbs.work`.

    A slot is free or an item's. An item has two tasks: one runs the handler; its attendant extends the lease meanwhile,
    then acknowledges the item or gives it back, and with that the slot is free. Each queue may have a held take, and
    there may be more of them than free slots: the one that takes the last slot cancels the others before they return,
    and what the store had for them goes back as if they had never stood in line.
    """

    def __init__(
        self,
        verbs: QueueCalls,
        queues: str | Iterable[str],
        handler: Handler,
        *,
        concurrency: int,
        lease: Duration,
        retry: Retry,
        on_error: OnError | None,
        grace: Duration | None,
    ) -> None:
        self._queues: Final = [queues] if isinstance(queues, str) else list(queues)
        if not self._queues:
            raise ValueError("queues must be at least one, got none")
        if not callable(handler):
            raise TypeError(f"handler must be an async function, got {handler!r}")
        self._handler: Final = handler
        self._on_error: Final = on_error
        self._free = as_integer("concurrency", concurrency)
        if self._free < 1:
            raise ValueError(f"concurrency must be at least 1, got {self._free}")
        seconds = _seconds("lease", lease)
        if not seconds:
            raise ValueError(f"lease must be above 0 seconds, got {lease!r}")
        self._leases: Final = Leases(verbs, seconds)
        try:
            first, factor, most = retry
        except (TypeError, ValueError):
            raise TypeError(f"retry must be (first delay, factor, longest delay), got {retry!r}") from None
        self._first: Final = _seconds("the first delay of retry", first)
        self._factor: Final = float(as_number("the factor of retry", factor))
        if not 1 <= self._factor < inf:
            raise ValueError(f"the factor of retry must be finite and at least 1, got {describe(factor)}")
        self._most: Final = _seconds("the longest delay of retry", most)
        self._grace: Final = seconds if grace is None else _seconds("grace", grace)
        self._loop: Final = asyncio.get_running_loop()
        self._changed: Final = asyncio.Event()  # a slot or a queue's line is free
        self._held: Final[dict[str, asyncio.Task[None]]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()  # all but the handlers
        self._handling: Final[set[asyncio.Task[float | None]]] = set()
        self._taking: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    async def run(self) -> NoReturn:
        """Handle items until it is cancelled or fails, and then end what runs."""
        self._taking = self._begin(self._take())
        try:
            if self._failure is None:  # as an eager task may have left it
                await asyncio.wait({self._taking})
        finally:
            ending = self._loop.create_task(self._end())
            while not ending.done():
                with suppress(asyncio.CancelledError):  # a cancelled scope of anyio cancels again and again
                    await asyncio.wait({ending})
            if self._failure is not None:
                raise self._failure
        raise asyncio.CancelledError

    async def _end(self) -> None:
        """Take no more, let the handlers run for the grace, cancel them, and wait until all have ended."""
        self._take_no_more()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace)
        for each in self._handling:
            each.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _fail(self, error: BaseException) -> None:
        """Let `run` raise an error, the first one."""
        self._failure = self._failure or error
        self._take_no_more()

    # To take.

    async def _take(self) -> None:
        """Fill the free slots, queue by queue; then stand in line of all."""
        try:
            while True:
                self._changed.clear()
                for queue in self._queues:
                    await self._empty(queue)
                for queue in self._queues:
                    if self._free and queue not in self._held:
                        task = self._begin(self._hold(queue))
                        if not task.done():  # as an eager one may be
                            self._held[queue] = task
                await self._changed.wait()
        except Exception as error:  # noqa: BLE001 - raised by `run`
            self._fail(error)

    async def _empty(self, queue: str) -> None:
        """Take what a queue has, for the free slots that no held take may need."""
        while queue not in self._held and (most := min(self._free - len(self._held), _BATCH)) > 0:
            leases = list[Lease]()
            self._free -= most
            try:
                leases = await self._leases.take(queue, most)
            finally:
                self._free += most - len(leases)
            for lease in leases:
                self._attend(lease)
            if len(leases) < most:
                return

    async def _hold(self, queue: str) -> None:
        """Wait for an item of a queue."""
        task = asyncio.current_task()
        assert task is not None
        try:
            lease = await self._leases.held_take(queue)
        except Exception as error:  # noqa: BLE001 - raised by `run`
            self._fail(error)
            return
        if self._held.get(queue) is task:
            del self._held[queue]
        if lease is not None and (task.cancelling() or not self._free):
            # A take that was cancelled should not return: all that is left to do costs the item an attempt.
            await self._leases.end(lease, self._leases.until(lease), 0.0)
        elif lease is not None:
            self._free -= 1
            self._attend(lease)
            if not self._free:
                self._leave_lines()
        self._changed.set()

    def _take_no_more(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
        self._leave_lines()

    def _leave_lines(self) -> None:
        for task in self._held.values():
            task.cancel()
        self._held.clear()

    # To handle.

    def _attend(self, lease: Lease) -> None:
        """Handle an item in a slot that was taken for it."""

        def freed(_: object) -> None:
            """Let the next item have the slot."""
            self._free += 1
            self._changed.set()

        self._begin(self._attended(lease)).add_done_callback(freed)

    async def _attended(self, lease: Lease) -> None:
        until = self._leases.until(lease)
        handling = self._loop.create_task(self._handle(lease))
        self._handling.add(handling)
        handling.add_done_callback(self._handling.discard)
        while not handling.done():
            try:
                await asyncio.wait({handling}, timeout=(until - self._loop.time()) / 2)
            except asyncio.CancelledError:  # the loop is closing, and cancels every task
                handling.cancel()
                continue
            if handling.done():
                break
            extended = await self._leases.extend(lease, until)
            if extended is None:
                handling.cancel()
                await asyncio.wait({handling})
                return
            until = extended
        await self._leases.end(lease, until, 0.0 if handling.cancelled() else handling.result())

    async def _handle(self, lease: Lease) -> float | None:
        """Run the handler; return for how long to hide its item when it is given back, None to acknowledge it."""
        try:
            try:
                await _awaitable(self._handler, self._handler(lease))
            except Exception as error:  # noqa: BLE001 - told, and tried again
                await self._tell(lease, error)
                return self._delay(lease.attempts)
        except asyncio.CancelledError:
            return 0.0
        except BaseException as error:  # noqa: BLE001 - raised by `run`: a task must not raise it into the loop
            self._fail(error)
            return 0.0
        return None

    async def _tell(self, lease: Lease, error: Exception) -> None:
        """Tell of a handler's error."""
        if self._on_error is None:
            self._loop.call_exception_handler(
                {"message": f"the handler of {lease!r} raised; it is tried again", "exception": error}
            )
            return
        try:
            told = self._on_error(lease, error)
            if isawaitable(told):
                await told
        except Exception as another:  # noqa: BLE001 - reported, and the work goes on
            self._loop.call_exception_handler(
                {"message": f"on_error raised for {lease!r}", "exception": another}
            )

    def _delay(self, attempts: int) -> float:
        """Return how long an item is hidden after so many attempts."""
        try:
            delay = min(self._first * self._factor ** (attempts - 1), self._most)
        except OverflowError:
            delay = self._most
        return delay * (1 + random.random()) / 2  # noqa: S311 - spreads retries


class Leases:
    """The verbs of queues, asked patiently: an outage is reported once, to the loop's exception handler.

    Args:
        verbs: The verbs.
        seconds: How long a lease lasts.
    """

    def __init__(self, verbs: QueueCalls, seconds: float) -> None:
        self._verbs: Final = verbs
        self._seconds: Final = seconds
        self._loop: Final = asyncio.get_running_loop()
        self._away: set[str] = set()  # whether takes are refused, or changes of leases

    async def take(self, queue: str, most: int) -> list[Lease]:
        """Take up to so many items that a queue has; none if it has none."""
        take = partial(self._verbs.take_batch, queue, most, lease=self._seconds, timeout=0.0)
        return await self._answer("take", take)

    async def held_take(self, queue: str) -> Lease | None:
        """Wait for an item of a queue."""
        return await self._answer("take", partial(self._verbs.take, queue, lease=self._seconds, timeout=None))

    def until(self, lease: Lease) -> float:
        """Return until when a lease lasts that has just been taken, on the loop's clock."""
        return self._loop.time() + lease.expires_in

    async def extend(self, lease: Lease, until: float) -> float | None:
        """Extend a lease that lasts until then; return its new end at least, None if it is lost."""

        async def extended() -> float:
            """Count it from before the request."""
            now = self._loop.time()
            return now + await self._verbs.extend(lease, self._seconds)

        try:
            async with asyncio.timeout_at(until):
                return await self._answer("lease", extended)
        except Exception as error:  # noqa: BLE001 - whatever it is, the item will be another's
            self._report(f"the lease {lease.id} could not be extended", error)
            return None

    async def end(self, lease: Lease, until: float, delay: float | None) -> None:
        """Acknowledge an item, or give it back after a delay, unless its lease is over."""
        if self._loop.time() >= until:
            return
        if delay is None:
            end = partial(self._verbs.acknowledge, lease)
        else:
            end = partial(self._verbs.give_back, lease, delay=delay or None)
        try:
            async with asyncio.timeout_at(until):
                await self._answer("lease", end)
        except Exception as error:  # noqa: BLE001 - the item comes back when its lease ends
            self._report(f"the lease {lease.id} could not be ended", error)

    async def _answer(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer; a service that drains refuses takes alone."""
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = await ask()
            except ServiceError as error:
                if not _may_return(error):
                    raise
                if not self._away:
                    message = f"the work goes on trying: {error}"
                    self._loop.call_exception_handler({"message": message, "exception": error})
                self._away.add(what)
            else:
                self._away -= {what, "lease"}
                return answer
            await asyncio.sleep(pause * (1 + random.random()) / 2)  # noqa: S311 - spreads retries
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _report(self, message: str, error: Exception) -> None:
        """Report why a lease was lost, unless it is over: that is no error, and an outage was reported."""
        gone = isinstance(error, RequestRefused) and error.status == _GONE
        if not gone and not isinstance(error, TimeoutError):
            self._loop.call_exception_handler({"message": message, "exception": error})


def _may_return(error: ServiceError) -> bool:
    """Whether the same request may succeed later, without an operator."""
    if isinstance(error, RequestRefused):
        return error.slug != "upgrade-pending" and (error.status == _TOO_MANY or error.status // 100 == 5)  # noqa: PLR2004 - HTTP's
    return isinstance(error, ServiceUnreachable)


def _seconds(name: str, value: Duration) -> float:
    seconds = check_delay(name, as_seconds(name, value))
    if not 0 <= seconds < inf:
        raise ValueError(f"{name} must be finite and not negative, got {value!r}")
    return seconds


def _awaitable(handler: Handler, given: object) -> Awaitable[object]:
    """Return what a handler gave, if it is an async function."""
    if not isawaitable(given):
        raise TypeError(f"handler must be an async function, {handler!r} returned {given!r}")
    return given
