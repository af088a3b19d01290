"""OpenTelemetry: what waits, and how it ends, as spans. It needs the API alone, which the extra ``otel`` brings.

OtelObserver  an observer of a `Purgatory`: a span for each operation, from its submission to its end

An application without an SDK has no spans, and pays for none: what records nothing is not kept.

>>> from purgatory_async import Purgatory
>>> purgatory = Purgatory(observer=OtelObserver())
"""

try:
    from purgatory_async.otel.observer import OtelObserver
except ModuleNotFoundError as missing:
    if not (missing.name or "").startswith("opentelemetry"):
        raise
    raise ModuleNotFoundError(
        f"purgatory_async.otel needs {missing.name}, which is not installed; "
        'run: pip install "purgatory-async[otel]"',
        name=missing.name,
    ) from missing

__all__ = ["OtelObserver"]
