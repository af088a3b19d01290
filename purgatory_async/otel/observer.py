"""The observer that makes a span for each operation."""

import time
from typing import Final, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, StatusCode, TracerProvider

from purgatory_async import Outcome
from purgatory_async.events import Handlers, Handling, OperationEnded, OperationSubmitted
from purgatory_async.otel.context import tracer_of
from purgatory_async.otel.spans import ERROR, HELD, KEYS, OUTCOME, PREFIX, WHICH, first_prefix, name_of

_NS_PER_SECOND: Final = 1_000_000_000
_BY_A_CALL: Final = (Outcome.COMPLETED, Outcome.CANCELLED, Outcome.FAILED)
"""How an operation ends in a call; others end by the clock, or with their purgatory."""


class _Open(NamedTuple):
    """A span that has begun, the one that was current then, and when that was, in nanoseconds since 1970."""

    span: Span
    parent: SpanContext
    began_ns: int


class OtelObserver(Handling):
    """An observer that makes a span for each operation, from its submission to its end.

    The span is a child of the one that is current where the operation is submitted, and has a link to the one that is
    current where it is completed, failed or cancelled. It lasts exactly as long as the operation by the clock of the
    purgatory. Its attributes are ``purgatory.outcome``, ``purgatory.held_seconds``, ``purgatory.key.prefix`` if a key
    has one (the part before ``:`` or ``/``), and for a failure ``error.type``; never a result.

    Several purgatories may share one. What ends on another thread is linked to the span of the call that signalled it.

    Args:
        tracer_provider: Makes the spans; None for the global one, also if it is set later.
        keys: Whether ``purgatory.keys`` has the whole keys, which may be many and personal.

    >>> from purgatory_async import Purgatory
    >>> Purgatory("orders", observer=OtelObserver())
    <Purgatory 'orders' open pending=0 watched=0 keys=0>
    """

    __slots__ = ("__weakref__", "_handlers", "_keys", "_open", "_tracer")

    def __init__(self, tracer_provider: TracerProvider | None = None, *, keys: bool = False) -> None:
        self._tracer: Final = tracer_of(tracer_provider)
        self._keys: Final = keys
        self._open: Final[dict[int, _Open]] = {}  # by identity: equal operations are still distinct
        self._handlers: Final[Handlers] = {OperationSubmitted: self._begin, OperationEnded: self._end}

    def __repr__(self) -> str:
        return f"<OtelObserver open={len(self._open)}>"

    def handlers(self) -> Handlers:
        """Return what it does at submissions and ends."""
        return self._handlers

    def _begin(self, event: OperationSubmitted) -> None:
        began_ns = time.time_ns()
        parent = trace.get_current_span().get_span_context()
        span = self._tracer.start_span(name_of("operation", event.keys), start_time=began_ns)
        if not span.is_recording():
            return
        prefix = first_prefix(event.keys)
        if prefix is not None:
            span.set_attribute(PREFIX, prefix)
        if self._keys:
            span.set_attribute(KEYS, [str(key) for key in event.keys])
        self._open[id(event.operation)] = _Open(span, parent, began_ns)

    def _end(self, event: OperationEnded) -> None:
        found = self._open.pop(id(event.operation), None)
        if found is None:
            return
        span, parent, began_ns = found
        held_ns = event.at_ns - event.submitted_ns
        span.set_attributes({OUTCOME: event.outcome.value, HELD: held_ns / _NS_PER_SECOND})
        if event.outcome in _BY_A_CALL:
            by = trace.get_current_span().get_span_context()
            if by.is_valid and by.span_id != parent.span_id:
                span.add_link(by, {WHICH: "end"})
        if event.outcome is Outcome.FAILED:
            span.set_attribute(ERROR, type(event.operation.exception).__qualname__)
            span.set_status(StatusCode.ERROR)
        span.end(began_ns + held_ns)
