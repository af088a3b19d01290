"""Traces of a state: an operation keeps the context of its submission, and its end is a span of that trace."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanContext, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from purgatory_async.durable.fold.entries import (
    EndLease,
    Entry,
    LeaveLine,
    PutItem,
    PutItems,
    SubmitOperation,
    WantItem,
)
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.leases import ItemLeased, Lease, LeasesShared, TakerLeft
from purgatory_async.durable.fold.operations import Operation, OperationEnded
from purgatory_async.durable.fold.results import InLine, Leased
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.state import Guard
from purgatory_async.durable.tracing import Step
from purgatory_async.otel.context import below, parsed, traceparent, tracer_of
from purgatory_async.otel.queue_spans import QueueSpans, refuse
from purgatory_async.otel.spans import (
    BY,
    HELD,
    ID,
    KEYS,
    OUTCOME,
    PREFIX,
    WHICH,
    first_prefix,
    name_of,
)

KEEPS_TRACES: Final = 3
"""The level of a store from which on its entries have traces; below it they have none."""
_NS_PER_US: Final = 1000


class Change(NamedTuple):
    """A change under way: the span current at its caller, and its own span if it has one."""

    caller: SpanContext
    span: Span | None = None


class Traces:
    """Makes the traces of a `Durable` or a service: spans of operations, and of queues.

    A submission keeps its caller's ``traceparent``: of the current span, or of the request's header. The end of the
    operation is a span from its submission to its end, a child of that one, with links to it and to the span of the
    call that ended it. It has no values, and of keys only the prefix. Of several processes on a store the one makes it
    whose change ended the operation; if that process is killed right then, none does. An item keeps the context of its
    put; spans of queues follow the semantic conventions for messaging.

    One is for one state. A store of a level below 3 keeps no traces, so ends there have no parent.

    Args:
        tracer_provider: Makes the spans; None for the global one, also if it is set later.
        keys: Whether spans have whole keys, the operation's id and who answered, which may be many and personal.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None, *, keys: bool = False) -> None:
        self._tracer: Final = tracer_of(tracer_provider)
        self._keys: Final = keys
        self._queues: Final = QueueSpans(self._tracer)

    def __repr__(self) -> str:
        return "<Traces>"

    # See `Telemetry`.

    def begin(self, entry: Entry, by: Guard, fold: Fold) -> Change:
        """Note a change, and let a submission or a put keep its trace."""
        caller = trace.get_current_span().get_span_context()
        if not caller.is_valid:
            caller = parsed(by.traceparent)
        if isinstance(entry, SubmitOperation):
            _keep(entry, caller, fold)
        elif isinstance(entry, PutItem | PutItems):
            span = self._queues.send(entry, caller)
            _keep(entry, span.get_span_context(), fold)
            return Change(caller, span)
        elif isinstance(entry, WantItem):
            self._queues.stand(entry, caller)
        elif isinstance(entry, EndLease):
            lease = fold.queues.leases.get(entry.lease_id)
            if lease is not None:
                return Change(caller, self._queues.settle(entry, lease, caller))
        return Change(caller)

    def happened(self, step: Step) -> None:
        """Make the spans of a step. O(effects)."""
        change: Change | None = step.change
        leases = list[Lease]()
        for effect in step.effects:
            if isinstance(effect, OperationEnded):
                if step.own:
                    self._ended(effect.operation, change)
            elif isinstance(effect, ItemLeased):
                leases.append(effect.lease)
            elif isinstance(effect, TakerLeft | LeasesShared):
                self._queues.leave(effect.lease_id)
        if leases:
            self._queues.receive(leases)
        if change is not None and change.span is not None:
            self._queues.settled(change.span, step.result)
        entry = step.entry
        if isinstance(entry, LeaveLine) or (
            isinstance(entry, WantItem) and not isinstance(step.result, InLine | Leased)
        ):
            self._queues.leave(entry.lease_id)

    def failed(self, change: Change, error: BaseException) -> None:
        """End the span of a change whose outcome its caller does not learn."""
        if change.span is not None:
            refuse(change.span, type(error).__qualname__)
            change.span.end()

    def restarted(self) -> None:
        """Forget the takers: they may have got items that nothing tells of."""
        self._queues.forget()

    def _ended(self, operation: Operation, change: Change | None) -> None:
        submit = parsed(_trace_of(operation))
        links = [Link(submit, {WHICH: "submit"})] if submit.is_valid else []
        if change is not None and change.caller.is_valid and operation.state != "expired":
            links.append(Link(change.caller, {WHICH: "end"}))
        span = self._tracer.start_span(
            name_of("operation", operation.watch_keys),
            below(submit),
            attributes=self._attributes(operation),
            links=links,
            start_time=operation.submitted_us * _NS_PER_US,
        )
        if operation.state == "failed":
            span.set_status(StatusCode.ERROR)
        span.end(operation.ended_us * _NS_PER_US)

    def _attributes(self, operation: Operation) -> dict[str, AttributeValue]:
        found: dict[str, AttributeValue] = {
            OUTCOME: operation.state,
            HELD: (operation.ended_us - operation.submitted_us) / SECOND,
        }
        keys: Sequence[str] = operation.watch_keys
        prefix = first_prefix(keys)
        if prefix is not None:
            found[PREFIX] = prefix
        if self._keys:
            found |= {ID: operation.id, KEYS: keys}
            if operation.ending is not None and operation.ending.by is not None:
                found[BY] = operation.ending.by
        return found


def _keep(entry: SubmitOperation | PutItem | PutItems, context: SpanContext, fold: Fold) -> None:
    if context.is_valid and fold.level >= KEEPS_TRACES:
        entry.trace = traceparent(context)


def _trace_of(operation: Operation) -> str | None:
    kept = None if operation.promise is None else operation.promise.trace
    return kept if isinstance(kept, str) else None
