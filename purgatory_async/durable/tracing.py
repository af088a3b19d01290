"""States whose changes are reported to what makes traces of them: `Telemetry`.

Which class a state is of is decided as it is made, so a state without telemetry does nothing for it.

Every worker applies every entry, and one of them reports what it did: the one that appended it. So an end is reported
at most once, and not at all if that worker is killed before it applies the entry, or loads the state again meanwhile.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from purgatory_async.cluster import Entry as LogEntry
from purgatory_async.cluster import Log
from purgatory_async.core.reports import report
from purgatory_async.durable.at_once import AtOnce
from purgatory_async.durable.fold.entries import Entry, Tick
from purgatory_async.durable.fold.fold import Applied, Fold
from purgatory_async.durable.fold.results import Dropped, Result
from purgatory_async.durable.fold.shared import Effect
from purgatory_async.durable.later import Later
from purgatory_async.durable.on_log import OnLog
from purgatory_async.durable.state import Answer, Guard


class Step(NamedTuple):
    """A step that has ended.

    Attributes:
        entry: What was applied.
        result: Its result.
        effects: What happened, also at deadlines that had passed by then.
        change: What `Telemetry.begin` has returned, if a call of this process waits for the result; else None.
        own: Whether this process has appended the entry.
    """

    entry: Entry
    result: Result
    effects: Sequence[Effect]
    change: Any
    own: bool


class Telemetry(Protocol):
    """Makes traces of changes. What it raises is reported, and does no harm."""

    def begin(self, entry: Entry, by: Guard, fold: Fold) -> object:
        """Note that an entry is about to be proposed, which may get a trace; return what is known of the change.

        Args:
            entry: The change.
            by: Who asks for it.
            fold: The state, for reading.
        """
        ...

    def happened(self, step: Step) -> None:
        """Note a step, before those that wait for it wake."""

    def failed(self, change: Any, error: BaseException) -> None:
        """Note that the caller of a change does not learn its outcome: it was refused before, or has left."""

    def restarted(self) -> None:
        """Note that the state was loaded again: what waits may have missed what it waits for."""


def check_telemetry(telemetry: Telemetry | None) -> None:
    """Raise `TypeError` unless it is a `Telemetry` or None."""
    if telemetry is None or (
        not isinstance(telemetry, type) and callable(getattr(telemetry, "happened", None))
    ):
        return
    raise TypeError(
        f"telemetry must be a Telemetry, as purgatory_async.otel.Traces() is, or None, got {telemetry!r}"
    )


class _Changes:
    """The changes under way, by their entries."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry: Final = telemetry
        self._known: Final[dict[int, tuple[Entry, object]]] = {}  # by identity: to compare entries takes long

    def begin(self, entry: Entry, by: Guard, fold: Fold) -> None:
        """Note a change."""
        self._known[id(entry)] = entry, self._quietly(self._telemetry.begin, entry, by, fold)

    def fail(self, entry: Entry, error: BaseException) -> None:
        """Note that a change has failed, unless its step has ended."""
        known = self._known.pop(id(entry), None)
        if known is not None:
            self._quietly(self._telemetry.failed, known[1], error)

    def end(self, step: Step, proposed: Entry | None) -> None:
        """Note a step, and that it is of a proposed entry."""
        _, change = (None, None) if proposed is None else self._known.pop(id(proposed), (None, None))
        self._quietly(self._telemetry.happened, step._replace(change=change))

    def restart(self) -> None:
        """Note that the state is loaded again."""
        self._quietly(self._telemetry.restarted)

    def _quietly(self, call: Callable[..., object], *arguments: object) -> object:
        try:
            return call(*arguments)
        except Exception as error:  # noqa: BLE001 - see `Telemetry`
            report(f"telemetry {self._telemetry!r} raised", error, self._telemetry)
            return None


class TracedAtOnce(AtOnce):
    """The state of a single process, with telemetry; see `AtOnce`."""

    def __init__(self, telemetry: Telemetry, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._changes: Final = _Changes(telemetry)
        self._applying: Entry | None = None

    def propose(self, entry: Entry, guard: Guard) -> Later[Answer]:
        """Apply an entry, and report it; see `State.propose`."""
        if self._steps.busy or entry.positions != 1:
            return self._propose_later(entry, guard)
        self._changes.begin(entry, guard, self.fold)
        try:
            return super().propose(entry, guard)
        except BaseException as error:
            self._changes.fail(entry, error)
            raise

    async def _propose_later(self, entry: Entry, guard: Guard) -> Answer:
        self._changes.begin(entry, guard, self.fold)
        try:
            return await super()._propose_later(entry, guard)
        except BaseException as error:
            self._changes.fail(entry, error)
            raise

    def _apply(self, entry: Entry) -> Any:
        self._applying = entry
        return super()._apply(entry)

    def _ended(self, applied: Applied) -> Answer:
        entry, self._applying = self._applying, None  # None for what was posted in a long step
        self._changes.end(Step(Tick() if entry is None else entry, *applied, change=None, own=True), entry)
        return super()._ended(applied)


class TracedOnLog(OnLog[Answer]):
    """The state of a worker on a log, with telemetry; see `OnLog`."""

    def __init__(self, telemetry: Telemetry, log: Log, **arguments: Any) -> None:
        super().__init__(log, **arguments)
        self._changes: Final = _Changes(telemetry)
        self.propose = self._propose

    async def _propose(self, entry: Entry, guard: Guard) -> Answer:
        if self._progress.loading:
            await self.caught_up()  # only then the store's level is known, and a lease that ends is found
        self._changes.begin(entry, guard, self.fold)
        try:
            return await self.proposals.propose(entry, guard)
        except BaseException as error:
            self._changes.fail(entry, error)
            raise

    def _end(self, raw: LogEntry, entry: Entry, result: Result, effects: Sequence[Effect]) -> None:
        own = entry.writer == self.writer
        counts = own and not isinstance(result, Dropped)
        proposed = self.proposals.writer.unsettled(entry.number) if counts else None
        self._changes.end(Step(entry, result, effects, change=None, own=own), proposed)
        super()._end(raw, entry, result, effects)

    async def _load(self, epoch: str, delay: float) -> int:
        self._changes.restart()
        return await super()._load(epoch, delay)
