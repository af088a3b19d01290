"""Contexts of spans: as a ``traceparent`` (W3C Trace Context), and as what a span has for a parent.

>>> text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
>>> traceparent(parsed(text)) == text, parsed("00-0-0-0").is_valid
(True, False)
"""

from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanContext, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

SCOPE: Final = "purgatory_async"
"""The instrumentation scope."""

_W3C: Final = TraceContextTextMapPropagator()


def tracer_of(provider: TracerProvider | None) -> Tracer:
    """Return the tracer of a provider; None is the global one, also if it is set later. O(1).

    Raises:
        TypeError: It makes no tracers.
    """
    if provider is not None and not callable(getattr(provider, "get_tracer", None)):
        raise TypeError(
            f"tracer_provider must be a TracerProvider, or None for the global one, got {provider!r}; "
            "the name of a service is an attribute of its resource"
        )
    return trace.get_tracer(SCOPE, tracer_provider=provider)


def headers() -> dict[str, str]:
    """Return the headers that pass the current trace on, as `Client` and `AsyncClient` take them; {} without one.

    >>> headers()
    {}
    """
    carrier = dict[str, str]()
    propagate.inject(carrier)
    return carrier


def traceparent(context: SpanContext) -> str:
    """Return a valid context as text. O(1)."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def parsed(text: str | None) -> SpanContext:
    """Return the context of a text; an invalid one for None, and for what is malformed. O(1)."""
    if text is None:
        return INVALID_SPAN_CONTEXT
    return trace.get_current_span(_W3C.extract({"traceparent": text}, Context())).get_span_context()


def below(parent: SpanContext) -> Context:
    """Return the context in which a span is a child of another, or a root if that is invalid. O(1)."""
    return trace.set_span_in_context(NonRecordingSpan(parent), Context()) if parent.is_valid else Context()
