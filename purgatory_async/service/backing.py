"""Where a service keeps its state, by its settings; what it shows and logs of its checkpoints."""

from typing import Final, cast

from purgatory_async.cluster.sqlite_schema import wal_bytes
from purgatory_async.durable.backing import Backing
from purgatory_async.durable.checkpoints.checkpointer import RETRY_S, Checkpointer
from purgatory_async.durable.fold.entries import SetLimits
from purgatory_async.durable.fold.shared import Limits, microseconds
from purgatory_async.durable.tracing import Telemetry
from purgatory_async.durable.urls import Store, Sync, parsed
from purgatory_async.metrics import Metrics
from purgatory_async.service.logs import Log as Lines
from purgatory_async.service.settings.settings import Settings, SettingsError


def backing_of(settings: Settings) -> Backing:
    """Return where the settings keep the state.

    Raises:
        SettingsError: The store cannot be used.
    """
    limits, usual = _limits(settings), _limits(Settings())
    names = [name for name in limits.__struct_fields__ if getattr(limits, name) != getattr(usual, name)]
    try:
        backing = Backing(
            store=None if settings.store.in_memory else parsed(settings.store.url),
            sync=cast("Sync", settings.store_sync),  # the settings have checked it
            timeout=settings.store_timeout,
            limits=limits,
            changed=SetLimits(**{name: getattr(limits, name) for name in names}),
            telemetry=_traces() if settings.otel else None,
        )
        if not backing.in_memory:
            backing.log()
    except ValueError as error:
        raise SettingsError(f"store: {error}") from None
    return backing


class Checkpoints:
    """Exports and logs what becomes of checkpoints; see `Saving`.

    Args:
        store: Where they are saved.
        metrics: Show the newest.
        lines: Get the failures.
    """

    def __init__(self, store: Store, metrics: Metrics, lines: Lines) -> None:
        self._store: Final = store
        self._metrics: Final = metrics
        self._lines: Final = lines

    def __repr__(self) -> str:
        return f"<Checkpoints in {self._store.shown}>"

    def begun(self, checkpointer: Checkpointer) -> None:
        """Show the newest, and for SQLite what it has yet to move into the file."""
        checkpointer.show(self._metrics)
        store = self._store
        if store.engine == "sqlite":
            self._metrics.show(
                "purgatory_store_wal_bytes",
                "Size of SQLite's write-ahead log.",
                lambda: wal_bytes(store.target),
            )

    def failed(self, reason: str) -> None:
        """Log that one was not saved."""
        self._lines.error("a checkpoint was not saved", error=reason, retry_s=RETRY_S)


def _traces() -> Telemetry:
    """Make the traces; only where they are asked for is the API needed.

    Raises:
        SettingsError: It is not installed.
    """
    try:
        from purgatory_async.otel import traces  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as missing:
        raise SettingsError(
            f'otel must be false without {missing.name}, got True; run: pip install "purgatory-async[otel]"'
        ) from None
    return traces.Traces()


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
