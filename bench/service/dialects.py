"""The requests that are measured, as bytes: those that are held, and those that release them."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["DIALECTS", "NCHAN", "OURS", "READ", "TAKE", "WAIT", "Dialect", "request"]

WAIT_S = 600  # longer than anything here takes


def request(method: str, target: str, body: bytes | None = None, *, once: str = "") -> bytes:
    """Write a request.

    Args:
        method: HTTP's.
        target: Path and query.
        body: JSON, None for none.
        once: Its Idempotency-Key, empty for none.

    Returns:
        All of it.
    """
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n"
    if once:
        head += f"Idempotency-Key: {once}\r\n"
    if body is None:
        return f"{head}\r\n".encode()
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to wait for something.

    Attributes:
        name: What a poll is called.
        poll: By key, the request that is held until something happens on the key.
        tell: By key, the request that makes it happen.
    """

    name: str
    poll: Callable[[str], bytes]
    tell: Callable[[str], bytes]


def _signal(key: str) -> bytes:
    return request("POST", f"/v1/keys/{key}/signal", b'{"value": "done"}')


READ = Dialect("read of a key", lambda key: request("GET", f"/v1/keys/{key}?index=0&wait={WAIT_S}s"), _signal)
WAIT = Dialect("one-shot wait", lambda key: request("GET", f"/v1/wait?key={key}&wait={WAIT_S}s"), _signal)
TAKE = Dialect(
    "take from a queue",
    lambda key: request("POST", f"/v1/queues/{key}/take?wait={WAIT_S}s"),
    lambda key: request("POST", f"/v1/queues/{key}/items", b'{"item": "done"}'),
)
OURS = (READ, WAIT, TAKE)
NCHAN = Dialect(
    "subscriber of a channel",
    lambda key: request("GET", f"/sub/{key}"),
    lambda key: request("POST", f"/pub/{key}", b"done"),
)
DIALECTS = (*OURS, NCHAN)
