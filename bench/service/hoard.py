"""Clients that make a service keep megabytes, and clients that ask for them and read nothing."""

import http.client
import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count, cycle, islice

from bench.service.dialects import request

__all__ = ["DEAF", "MEGABYTE", "fill", "keep_deaf"]

MEGABYTE = 1 << 20
DEAF = 40
PATIENCE_S = 120.0
AT_ONCE = 8  # requests that a deaf client sends
_TEXT = "x" * (MEGABYTE - 1000)
_JSON = {"Content-Type": "application/json"}


def fill(port: int, values: int, first: int = 0) -> Counter[int]:
    """Send values of a megabyte: as signals, with operations that are cancelled, and as items.

    Args:
        port: The port of the service.
        values: How many.
        first: From which number on keys and operations are named.

    Returns:
        How many requests got which status.
    """
    found: Counter[int] = Counter()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        for method, path, body in islice(_changes(first), values):
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, _JSON if text else {})
            reply = connection.getresponse()
            reply.read()
            found[reply.status] += 1
    return found


def keep_deaf(stack: ExitStack, port: int) -> None:
    """Connect clients that ask for the values and take nothing; they are closed with the stack."""
    asked = b"".join(
        islice(cycle((request("GET", "/v1/keys/hot"), request("GET", "/v1/wait?key=hot&since=0"))), AT_ONCE)
    )
    for _ in range(DEAF):
        deaf = stack.enter_context(closing(socket.socket()))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", port))
        deaf.sendall(asked)


def _changes(first: int) -> Iterator[tuple[str, str, object]]:
    for number in count(first):
        yield "POST", "/v1/keys/hot/signal", {"value": _TEXT}
        yield "POST", f"/v1/keys/key{number}/signal", {"value": _TEXT}
        yield "POST", "/v1/operations", {"keys": ["never"], "id": f"op{number}", "data": _TEXT}
        if number % 2:  # the others stay pending
            yield "DELETE", f"/v1/operations/op{number}", None
        yield "POST", f"/v1/queues/queue{number % 3}/items", {"item": _TEXT}
