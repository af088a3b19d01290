"""OpenTelemetry: what waits, and how it ends, as spans. It needs the API alone, which the extra ``otel`` brings.

OtelObserver  an observer of a `Purgatory`: a span for each operation, from its submission to its end
Traces        the telemetry of a `Durable`: traces that go on over processes and restarts
headers       the headers by which a client passes its trace on

An application without an SDK has no spans, and pays for none: what records nothing is not kept.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from purgatory_async.otel.context import headers
    from purgatory_async.otel.observer import OtelObserver
    from purgatory_async.otel.traces import Traces

__all__ = ["OtelObserver", "Traces", "headers"]

_LOADED_ON_USE = {"OtelObserver": "observer", "Traces": "traces", "headers": "context"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is used: an observer needs no store."""
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_LOADED_ON_USE[name]}"), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("purgatory_async"):
            raise
        extra = "otel" if (missing.name or "").startswith("opentelemetry") else "durable,otel"
        raise ModuleNotFoundError(
            f'{name} needs {missing.name}, which is not installed; run: pip install "purgatory-async[{extra}]"',
            name=missing.name,
        ) from missing
