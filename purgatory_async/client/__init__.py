"""Clients of the purgatory service: `Client` for code that blocks, `AsyncClient` for coroutines.

They need the extra ``[client]`` (httpx2), and nothing of the service. A time that they take, such as a ``timeout``, a
``lease`` or a ``delay``, is a number of seconds, a `timedelta`, or text such as ``250ms``, ``10m`` or ``24h``; a
``deadline`` is an aware `datetime`.
"""

from purgatory_async.client._awaiting import AsyncClient
from purgatory_async.client._blocking import Client
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
from purgatory_async.client._talk import Policy

__all__ = [
    "AsyncClient",
    "AsyncSignals",
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
