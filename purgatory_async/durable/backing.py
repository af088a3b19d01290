"""Where a process keeps its state, in memory or in a log that others may share, and how it is kept up to date."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, cast

from purgatory_async import Timer
from purgatory_async.cluster import Log
from purgatory_async.cluster.outage import Outage
from purgatory_async.durable.at_once import AtOnce
from purgatory_async.durable.checkpoints.checkpointer import Checkpointer
from purgatory_async.durable.fold.entries import SetLimits
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.shared import Limits
from purgatory_async.durable.on_log import OnLog
from purgatory_async.durable.patient import PatientLog
from purgatory_async.durable.state import Answer, Heard, State
from purgatory_async.durable.tracing import Telemetry, TracedAtOnce, TracedOnLog
from purgatory_async.durable.urls import Store, Sync, log_of
from purgatory_async.durable.waiting.waits import Waits

STORE_TIMEOUT: Final = 5.0
"""Seconds for which a change or a read waits for the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backing:
    """Where the state is, and its limits.

    Attributes:
        store: A log in a store, which is awaited while it is away, or one that is not yet open, which can be opened
            only once; None for memory.
        sync: When a change in a store is durable.
        timeout: Seconds for which a change or a read waits for the store.
        limits: The limits of a state in memory, and of what only this process has.
        changed: The limits that the log is to have from now on; it keeps the others as they are.
        telemetry: Makes traces of changes; None for no traces.
    """

    store: Store | Log | None = None
    sync: Sync = "always"
    timeout: float = STORE_TIMEOUT
    limits: Limits
    changed: SetLimits
    telemetry: Telemetry | None = None

    @property
    def in_memory(self) -> bool:
        """Whether the state ends with the process."""
        return self.store is None

    def log(self) -> Log:
        """Make the log, not yet open.

        Raises:
            ValueError: Its URL has an option that does not exist, or the client of its engine is not installed.
        """
        assert self.store is not None, "a state in memory has no log"
        return log_of(self.store, sync=self.sync) if isinstance(self.store, Store) else self.store


def state_on(
    backing: Backing,
    timer: Timer,
    started_us: int,
    *,
    waits: Waits,
    heard: Heard,
    replaced: Callable[[Fold], None],
) -> AtOnce | OnLog[Answer]:
    """Make a state.

    Args:
        backing: Where it is.
        timer: For all waits.
        started_us: Log time now, in memory.
        waits: Observe the operations.
        heard: Called with each step.
        replaced: Called with the state when it was loaded from a log.
    """
    telemetry = backing.telemetry
    if backing.in_memory:
        make = AtOnce if telemetry is None else partial(TracedAtOnce, telemetry)
        return make(timer, started_us, backing.limits, waits, heard)

    def _fold(at_us: int) -> Fold:
        return Fold(at_us, observer=waits.observer())

    outage = Outage(timer.time)
    patient = isinstance(backing.store, Store)
    make_on_log = OnLog[Answer] if telemetry is None else partial(TracedOnLog, telemetry)
    return make_on_log(
        PatientLog(backing.log, timer, outage) if patient else backing.log(),
        timer=timer,
        timeout=backing.timeout,
        make=_fold,
        applied=heard,
        replaced=replaced,
        limits=backing.changed,
        outage=outage,
    )


def as_on_log(state: State) -> OnLog[Answer] | None:
    """Return a state if it is on a log; None if it is in memory. O(1)."""
    return cast("OnLog[Answer]", state) if isinstance(state, OnLog) else None


async def tried(state: State) -> None:
    """Return once the first attempt to open the store is over."""
    on_log = as_on_log(state)
    if on_log is not None and isinstance(on_log.log, PatientLog):
        await on_log.log.tried.wait()


class Saving(Protocol):
    """Hears of the checkpoints that this process has saved."""

    def begun(self, checkpointer: Checkpointer) -> None:
        """Note what has them saved."""

    def failed(self, reason: str) -> None:
        """Note that one was not saved, and is tried again in `RETRY_S` seconds."""


async def keep(
    backing: Backing, state: State, loaded: Callable[[], object], saving: Saving | None = None
) -> None:
    """Load a state, call ``loaded()``, and keep it up to date until it is closed; raises as `State.run`.

    Other processes save checkpoints in a store from time to time, if something hears of them.
    """
    await state.open()
    loaded()
    on_log = as_on_log(state)
    if on_log is None or saving is None or not isinstance(backing.store, Store):
        await state.run()
        return
    # Beside `run`: it asks the log, which may take long.
    saves = asyncio.create_task(
        _save_checkpoints(backing.store, backing.sync, on_log, saving),
        name="checkpoints",
    )
    try:
        await state.run()
    finally:
        saves.cancel()
        await asyncio.wait([saves])


async def _save_checkpoints(store: Store, sync: Sync, state: OnLog[Answer], saving: Saving) -> None:
    async with Checkpointer(store, state.log, saving.failed, sync=sync) as checkpointer:
        saving.begun(checkpointer)
        state.noted = checkpointer.note
        await asyncio.Event().wait()
