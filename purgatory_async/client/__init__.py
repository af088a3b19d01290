"""Clients of the purgatory service: `Client` for code that blocks, `AsyncClient` for coroutines.

They need the extra ``[client]`` (httpx2), and nothing of the service. The models and `AsyncVerbs`, the Protocol of
`AsyncClient` and of `purgatory_async.durable.Durable`, need no extra. A time that they take, such as a ``timeout``, a
``lease`` or a ``delay``, is a number of seconds, a `timedelta`, or text such as ``250ms``, ``10m`` or ``24h``; a
``deadline`` is an aware `datetime`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from purgatory_async.client._async_verbs import AsyncVerbs
from purgatory_async.client._model import (
    Event,
    KeyState,
    Lease,
    Link,
    Loan,
    Operation,
    Queue,
    QueuedItem,
    RequestRefused,
    ServiceError,
    ServiceUnreachable,
    Signal,
    SignalGap,
)
from purgatory_async.client._signals import AsyncSignals, Signals

if TYPE_CHECKING:
    from purgatory_async.client._awaiting import AsyncClient
    from purgatory_async.client._blocking import Client
    from purgatory_async.client._talk import Policy

__all__ = [
    "AsyncClient",
    "AsyncSignals",
    "AsyncVerbs",
    "Client",
    "Event",
    "KeyState",
    "Lease",
    "Link",
    "Loan",
    "Operation",
    "Policy",
    "Queue",
    "QueuedItem",
    "RequestRefused",
    "ServiceError",
    "ServiceUnreachable",
    "Signal",
    "SignalGap",
    "Signals",
]


_ON_USE = {"AsyncClient": "_awaiting", "Client": "_blocking", "Policy": "_talk"}


def __getattr__(name: str) -> object:
    """Import what speaks HTTP when it is asked for; the rest works without."""
    module = _ON_USE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{name} needs {error.name}, which is not installed; run: pip install "purgatory-async[client]"',
            name=error.name,
        ) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
