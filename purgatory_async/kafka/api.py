"""An entry of the request table: the versions of an api, and its handler.

A handler is a plain function of the node, the decoded request and the client. It returns the answer, or an awaitable
of it when the request must wait; a coroutine function is a handler too. An answer of None sends no response.

The request is kio's entity of the version sent; ``request.__version__`` is that version, and fields that it lacks
are read with ``getattr`` and the schema's default. The answer is a mapping with kio's field names, of the latest
version: a version's writer takes the fields that it has. See `purgatory_async.kafka.writers` for the values.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from purgatory_async.kafka.client import Client
from purgatory_async.kafka.node import Node

__all__ = ["Answer", "Api", "Handler"]

Answer = Mapping[str, Any] | None
Handler = Callable[[Node, Any, Client], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Api:
    """One api of the protocol.

    Attributes:
        key: The protocol's number.
        least: The first version advertised.
        most: The last version advertised and served.
        handle: Answers a request.
        served_from: The first version served, if not ``least``.
    """

    key: int
    least: int
    most: int
    handle: Handler
    served_from: int | None = None

    @property
    def first(self) -> int:
        """The first version served."""
        return self.least if self.served_from is None else self.served_from

    def serves(self, version: int) -> bool:
        """Whether a request of this version is answered."""
        return self.first <= version <= self.most
