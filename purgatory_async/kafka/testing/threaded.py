"""The broker of a test that is a plain function: a `KafkaBroker` on a loop in a thread of its own."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from purgatory_async.clock import Cancellable, Clock
from purgatory_async.kafka.groups.offsets import TopicPartition
from purgatory_async.kafka.testing.broker import KafkaBroker
from purgatory_async.kafka.testing.interception import until
from purgatory_async.kafka.testing.records import Headers, Record
from purgatory_async.kafka.testing.refusals import Refusal

__all__ = ["SyncKafkaBroker"]

P = ParamSpec("P")
T = TypeVar("T")


class SyncKafkaBroker:
    """A `KafkaBroker` for tests that are plain functions: the same verbs, which block. Use it in a ``with`` block.

    It runs on an event loop in a thread of its own. Each call runs there, and its error is raised here. Leaving the
    block closes all and ends the thread.

    Args:
        clock: As for `KafkaBroker`. What is due when the test advances a ``ManualClock`` runs on the broker's loop.
        settings: As for `KafkaBroker`.

    Example:
        >>> with SyncKafkaBroker() as broker:
        ...     _ = broker.produce("orders", b"one", b"two", key=b"k")
        ...     [record.value for record in broker.records("orders")]
        [b'one', b'two']
    """

    def __init__(self, *, clock: Clock | None = None, **settings: Any) -> None:
        self._clock: Final = clock
        self._settings: Final = settings
        self._thread: Final = threading.Thread(target=self._serve, name="kafka_broker_sync", daemon=True)
        self._started: Final[Future[KafkaBroker]] = Future()
        self._ended: Final[Future[None]] = Future()
        self._closing: Final = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop

    def __repr__(self) -> str:
        return f"<SyncKafkaBroker {'closed' if self._ended.done() else self._thread.name}>"

    def __enter__(self) -> Self:
        """Start the thread, and return once the broker listens.

        Raises:
            ValueError, TypeError, OSError: As `KafkaBroker`.
        """
        self._thread.start()
        try:
            self._started.result()
        except BaseException:  # KeyboardInterrupt too: no thread is left
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the broker, and return once its thread has ended."""
        if self._started.exception() is None:
            with suppress(RuntimeError):  # its loop has ended
                self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        self._ended.result()

    # As of KafkaBroker.

    @property
    def host(self) -> str:
        """As `KafkaBroker`."""
        return self._broker.host

    @property
    def port(self) -> int:
        """As `KafkaBroker`."""
        return self._broker.port

    @property
    def address(self) -> str:
        """As `KafkaBroker`: what clients are given as ``bootstrap.servers``."""
        return self._broker.address

    def create_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """As `KafkaBroker.create_topic`."""
        self.call(KafkaBroker.create_topic, topic, partitions=partitions, configs=configs)

    def produce(
        self,
        topic: str,
        *values: bytes | None,
        key: bytes | None = None,
        partition: int = 0,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> range:
        """As `KafkaBroker.produce`."""
        return self._wait(
            KafkaBroker.produce,
            topic,
            *values,
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """As `KafkaBroker.records`."""
        return self.call(KafkaBroker.records, topic, partition)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """As `KafkaBroker.committed`."""
        return self.call(KafkaBroker.committed, group)

    def stop(self) -> None:
        """As `KafkaBroker.stop`."""
        self._wait(KafkaBroker.stop)

    def start(self) -> None:
        """As `KafkaBroker.start`."""
        self._wait(KafkaBroker.start)

    def pause(self, topic: str, partition: int | None = None) -> ExitStack:
        """As `KafkaBroker.pause`."""
        self.call(KafkaBroker.pause, topic, partition)
        return until(self.resume, topic, partition)

    def resume(self, topic: str, partition: int | None = None) -> None:
        """As `KafkaBroker.resume`."""
        self.call(KafkaBroker.resume, topic, partition)

    def hold(self, api: str) -> ExitStack:
        """As `KafkaBroker.hold`."""
        self.call(KafkaBroker.hold, api)
        return until(self.release, api)

    def release(self, api: str) -> None:
        """As `KafkaBroker.release`."""
        self.call(KafkaBroker.release, api)

    def fail_next(self, api: str, error: str, *, times: int = 1) -> Refusal:
        """As `KafkaBroker.fail_next`."""
        return self.call(KafkaBroker.fail_next, api, error, times=times)

    def expire_session(self, group: str, *member_ids: str) -> tuple[str, ...]:
        """As `KafkaBroker.expire_session`."""
        return self.call(KafkaBroker.expire_session, group, *member_ids)

    def next_request(self, api: str, *, timeout: float = 10.0) -> Any:
        """As `KafkaBroker.next_request`. A client's own thread may have sent it before: `expect` misses none."""
        return self._wait(KafkaBroker.next_request, api, timeout=timeout)

    # For threads.

    @contextmanager
    def expect(self, api: str, *, timeout: float = 10.0) -> Iterator[None]:
        """Do the block, then wait until a request of an api that came since its beginning is answered or waits.

        Raises:
            ValueError, OperationExpired: As `KafkaBroker.next_request`.
        """
        coming = self._begin(KafkaBroker.next_request, api, timeout=timeout)
        try:
            self.call(repr)  # the loop takes calls in their order: it waits for the request by now
            if coming.done():
                coming.result()  # raises
            yield
            coming.result()
        finally:
            coming.cancel()

    def call(
        self, function: Callable[Concatenate[KafkaBroker, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Call ``function(broker, ...)`` on the broker's loop, for what this class has no verb for; await it if async.

        Raises:
            RuntimeError: The broker does not run, or an event loop runs in this thread, which the call would block.
            Exception: What the function raises.
        """
        result: T = _result(self._begin(function, *arguments, **named))
        return result

    def _wait(
        self,
        function: Callable[Concatenate[KafkaBroker, P], Coroutine[Any, Any, T]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        result: T = _result(self._begin(function, *arguments, **named))
        return result

    def _begin(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        if _running_loop() is not None:
            raise RuntimeError(
                f"{self!r} blocks: cannot be called on a running event loop; "
                "let the test be a plain function, or use kafka_broker"
            )
        if self._ended.done():
            raise RuntimeError(f"{self!r} has no loop: cannot be called")
        called = _called(function, self._broker, *arguments, **named)
        return asyncio.run_coroutine_threadsafe(called, self._loop)

    @property
    def _broker(self) -> KafkaBroker:
        if not self._started.done():
            raise RuntimeError(f"{self!r} is not started: cannot be called; use it in a with block")
        return self._started.result()

    # In the thread.

    def _serve(self) -> None:
        try:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                runner.run(self._run())
        except BaseException as error:  # noqa: BLE001 - raised where the block begins or ends
            (self._ended if self._started.done() else self._started).set_exception(error)
        if not self._ended.done():
            self._ended.set_result(None)

    async def _run(self) -> None:
        clock = None if self._clock is None else _ClockOfAnotherThread(self._clock, self._loop)
        async with KafkaBroker(clock=clock, **self._settings) as broker:
            self._started.set_result(broker)
            await self._closing.wait()


class _ClockOfAnotherThread:
    """A manual clock whose wakeups run on a loop, while the thread that advances the clock waits for them.

    Args:
        clock: A ``ManualClock``.
        loop: The loop of the timers on it.
    """

    needs_loop: Final = False

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.time_ns: Final = clock.time_ns
        self._clock: Final = clock
        self._loop: Final = loop

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> Cancellable:
        """Call back on the loop; see `Clock.call_at_ns`."""
        wakeup = _Wakeup(callback)
        wakeup.on_clock = self._clock.call_at_ns(when_ns, lambda: self._call(wakeup))
        return wakeup

    def _call(self, wakeup: "_Wakeup") -> object:
        if _running_loop() is self._loop:
            return wakeup.callback()
        # Not the callback of now: it may be cancelled on the way.
        return asyncio.run_coroutine_threadsafe(_called(_Wakeup.run, wakeup), self._loop).result()


class _Wakeup:
    """A wakeup that may be cancelled while it is on its way to the loop."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.on_clock: Cancellable

    def run(self) -> object:
        """Call the callback."""
        return self.callback()

    def cancel(self) -> None:
        """Cancel it here and on the clock."""
        self.callback = bool
        self.on_clock.cancel()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _result(running: Future[Any]) -> Any:
    try:
        return running.result()
    finally:
        running.cancel()  # KeyboardInterrupt: nothing goes on waiting


async def _called(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    result = function(*arguments, **named)
    return await result if inspect.isawaitable(result) else result
