"""Workers of the service on one store in the `VirtualTimeLoop`, each behind connections that break."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import NamedTuple

from purgatory_async import Timer
from purgatory_async.cluster import LogError, LogGap, LogUnavailable, MemoryLog, MemoryStore
from purgatory_async.cluster.log import new_epoch
from purgatory_async.durable.fold import codec
from purgatory_async.durable.fold.checkpoint import digest, parts
from purgatory_async.durable.fold.entries import SubmitOperation
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.results import Result
from purgatory_async.durable.later import at_last
from purgatory_async.durable.on_log import OnLog
from purgatory_async.durable.state import Guard
from tests.cluster.faulty import FaultyLog

TIMEOUT = 5.0


def submit(name, timeout=None):
    return SubmitOperation(id=name, keys=(name,), timeout_us=timeout)


class Store(MemoryStore):
    """A store that remembers what is trimmed, and whose clock is set.

    Attributes:
        history: All entries, by epoch; an epoch has those that the one before did not lose.
    """

    def __init__(self):
        super().__init__(clock=asyncio.get_running_loop())
        self.origin_us = 1_700_000_000_000_000
        self.history = {self.epoch: []}

    def append(self, entries):
        appended = super().append(entries)
        self.history[self.epoch] += self.entries[len(self.entries) - len(entries) :]
        return appended

    def lose(self, count):
        """Lose the newest entries, as a failover to a replica that lags behind does."""
        kept = self.history[self.epoch]
        if count:
            del self.entries[-count:]
            kept = kept[:-count]
        self.epoch = new_epoch()
        self.history[self.epoch] = list(kept)
        self.wake()

    def now_us(self):
        """The engine's clock."""
        return self.origin_us + self.clock.time_ns() // 1000

    def decoded(self):
        """All entries of the present epoch."""
        return [codec.decode(entry.data) for entry in self.history[self.epoch]]

    def kinds(self):
        """The names of their kinds, but for those that only show that a worker is alive."""
        names = [type(entry).__name__ for entry in self.decoded()]
        return [name for name in names if name != "Alive"]

    def folded(self):
        """A fold of them from nothing."""
        fold = Fold()
        for entry in self.history[self.epoch]:
            fold.apply(entry.position, entry.at_us, codec.decode(entry.data))
        return fold

    def checkpoint_of(self, fold, keep=0):
        """Save a fold."""
        self.save(fold.position, list(parts(fold)), keep)


class EpochLog(MemoryLog):
    """A log that compares epochs, as those on servers do: a follower meets the loss, then appends succeed again."""

    def __init__(self, store):
        super().__init__(store)
        self.store = store
        self.seen = store.epoch

    async def append(self, entries):
        if self.store.epoch != self.seen:
            raise LogUnavailable("the engine has another epoch; nothing was appended")
        return await super().append(entries)

    async def follow(self, after):
        epoch = self.seen
        while self._open:
            changed = self.store.changed
            if self.store.epoch != epoch:
                self.seen = self.store.epoch
                raise LogGap("another epoch", oldest=self.store.trimmed + 1, epoch=self.seen)
            entries = self.store.read(after)
            if entries:
                after = entries[-1].position
                yield entries
            else:
                await changed.wait()


class Answer(NamedTuple):
    """What a proposal is answered with here: where, when and what."""

    epoch: str
    position: int
    result: Result


class Shifted:
    """A machine's clock, hours away from the others'."""

    def __init__(self, hours):
        self.loop = asyncio.get_running_loop()
        self.shift_ns = int(hours * 3600e9)

    def time_ns(self):
        return self.loop.time_ns() + self.shift_ns

    def call_at_ns(self, when_ns, callback):
        return self.loop.call_at_ns(when_ns - self.shift_ns, callback)


class Worker:
    """The state of one worker.

    Attributes:
        effects: The effects of each step, as (log time, effect).
        loads: The positions at which the state was loaded.
        epochs: The epochs in which it was loaded.
        stopped: The task of `OnLog.run`.
    """

    def __init__(self, store, *, hours=0.0, limits=None, log=None):
        self.log = FaultyLog(EpochLog(store)) if log is None else log
        self.timer = Timer(clock=Shifted(hours))
        self.effects = []
        self.loads = []
        self.epochs = []
        self.state = OnLog(
            self.log,
            timer=self.timer,
            timeout=TIMEOUT,
            applied=self.applied,
            replaced=self.replaced,
            limits=limits,
        )
        self.stopped = None

    def applied(self, result, effects):
        fold = self.state.fold
        self.effects += [(fold.at_us, effect) for effect in effects]
        return Answer(self.state.epoch, fold.position, result)

    def replaced(self, fold):
        self.loads.append(fold.position)
        self.epochs.append(self.state.epoch)

    @property
    def fold(self):
        return self.state.fold

    def digest(self):
        return digest(self.fold)

    async def start(self):
        await self.state.open()
        self.stopped = asyncio.create_task(self.state.run())
        await asyncio.sleep(0)

    async def propose(self, entry):
        """The result."""
        return (await at_last(self.state.propose(entry, Guard()))).result

    def seen(self, kind):
        """The effects of one class."""
        return [effect for _, effect in self.effects if isinstance(effect, kind)]

    async def stop(self):
        """Stop, as with SIGTERM or SIGKILL: nothing is appended any more."""
        await self.state.aclose()
        if self.stopped is not None:
            with suppress(Exception):
                await self.stopped
        self.timer.close()


class Workers:
    """Workers on one store; as a context manager it stops them."""

    def __init__(self):
        self.store = Store()
        self._stack = AsyncExitStack()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *details):
        await self._stack.aclose()

    async def start(self, **options):
        """Start another worker."""
        worker = Worker(self.store, **options)
        self._stack.push_async_callback(worker.stop)
        await worker.start()
        return worker


async def settled(*workers):
    """Wait until all workers have applied the same entries, and return their digest."""
    for _ in range(500):
        for worker in workers:
            with suppress(LogError):
                await worker.state.caught_up()
        whole = not any(worker.state._steps.busy for worker in workers)
        if whole and len({(worker.state.epoch, worker.state.position) for worker in workers}) == 1:
            (found,) = {worker.digest() for worker in workers}
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"workers must come to the same position, got {[each.state for each in workers]}")
