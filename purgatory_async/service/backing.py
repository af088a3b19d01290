"""Where a service keeps its state: in its process, or in the log of a store."""

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Final, cast

from purgatory_async import Timer
from purgatory_async.cluster.outage import Outage
from purgatory_async.cluster.sqlite_schema import wal_bytes
from purgatory_async.durable.at_once import AtOnce
from purgatory_async.durable.checkpoints.checkpointer import RETRY_S, Checkpointer
from purgatory_async.durable.fold.entries import SetLimits
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.shared import Limits, microseconds
from purgatory_async.durable.on_log import OnLog
from purgatory_async.durable.patient import PatientLog
from purgatory_async.durable.state import Answer, Heard, State
from purgatory_async.durable.urls import Store, Sync, log_of, parsed
from purgatory_async.metrics import Metrics
from purgatory_async.service.held.waits import Waits
from purgatory_async.service.logs import Log as Lines
from purgatory_async.service.settings.settings import Settings, SettingsError

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def state_for(
    settings: Settings,
    timer: Timer,
    now: dt.datetime,
    *,
    waits: Waits,
    heard: Heard,
    replaced: Callable[[Fold], None],
) -> AtOnce | OnLog[Answer]:
    """Make the state that the settings ask for.

    Args:
        settings: Name the store, and have the limits.
        timer: For all waits.
        now: Log time, in memory.
        waits: Observe the operations.
        heard: Called with each step.
        replaced: Called with the state when it was loaded from a store.

    Raises:
        SettingsError: The store cannot be used.
    """
    if settings.store.in_memory:
        started_us = (now - _EPOCH) // dt.timedelta(microseconds=1)
        return AtOnce(timer, started_us, _limits(settings), waits, heard)
    try:
        store, sync = _store_of(settings)
        log_of(store, sync=sync)
    except ValueError as error:
        raise SettingsError(f"store: {error}") from None
    outage = Outage(timer.time)
    return OnLog(
        PatientLog(lambda: log_of(store, sync=sync), timer, outage),
        timer=timer,
        timeout=settings.store_timeout,
        make=lambda at_us: Fold(at_us, observer=waits.observer()),
        applied=heard,
        replaced=replaced,
        limits=_explicit(settings),
        outage=outage,
    )


async def tried(state: State) -> None:
    """Return once the first attempt to open the store is over."""
    if isinstance(state, OnLog):
        log = cast("OnLog[Answer]", state).log
        if isinstance(log, PatientLog):
            await log.tried.wait()


async def keep(
    settings: Settings, state: State, metrics: Metrics, lines: Lines | None, loaded: Callable[[], object]
) -> None:
    """Load a state, call ``loaded()``, and keep it up to date until it is closed; raises as `State.run`.

    With a store, other processes save checkpoints from time to time. Their failures are logged to ``lines``; without it
    none are saved.
    """
    await state.open()
    loaded()
    if not isinstance(state, OnLog) or lines is None:
        await state.run()
        return
    # Beside `run`: it asks the log, which may take long.
    saving = asyncio.create_task(
        _save_checkpoints(settings, cast("OnLog[Answer]", state), metrics, lines), name="checkpoints"
    )
    try:
        await state.run()
    finally:
        saving.cancel()
        await asyncio.wait([saving])


async def _save_checkpoints(settings: Settings, state: OnLog[Answer], metrics: Metrics, lines: Lines) -> None:
    store, sync = _store_of(settings)

    def _failed(reason: str) -> None:
        lines.error("a checkpoint was not saved", error=reason, retry_s=RETRY_S)

    async with Checkpointer(store, state.log, _failed, sync=sync) as checkpointer:
        checkpointer.show(metrics)
        if store.engine == "sqlite":
            metrics.show(
                "purgatory_store_wal_bytes",
                "Size of SQLite's write-ahead log.",
                lambda: wal_bytes(store.target),
            )
        state.noted = checkpointer.note
        await asyncio.Event().wait()


def _store_of(settings: Settings) -> tuple[Store, Sync]:
    return parsed(settings.store.url), cast("Sync", settings.store_sync)  # the settings have checked it


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_pending=settings.max_pending,
        max_items=settings.max_items,
        retention_us=microseconds(settings.retention),
        keep_signals=settings.keep_signals,
        keep_for_us=microseconds(settings.keep_for),
        max_lease_us=microseconds(settings.max_lease),
        max_kept=settings.max_bytes,
    )


def _explicit(settings: Settings) -> SetLimits:
    """Return the limits that are not the default ones; the log keeps the others as they are."""
    limits, usual = _limits(settings), _limits(Settings())
    names = [name for name in limits.__struct_fields__ if getattr(limits, name) != getattr(usual, name)]
    return SetLimits(**{name: getattr(limits, name) for name in names})
