"""The requests that are measured, as bytes: those that are held, and those that release them."""

import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = [
    "BARE",
    "CONVERSATIONS",
    "DIALECTS",
    "NCHAN",
    "OURS",
    "READ",
    "TAKE",
    "WAIT",
    "Conversation",
    "Dialect",
    "request",
]

WAIT_S = 600  # longer than anything here takes


def request(
    method: str, target: str, body: bytes | None = None, *, once: str = "", fields: str = ""
) -> bytes:
    """Write a request.

    Args:
        method: HTTP's.
        target: Path and query.
        body: JSON, None for none.
        once: Its Idempotency-Key, empty for none.
        fields: Further lines of its head, each with its CRLF.

    Returns:
        All of it.
    """
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}"
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
BARE = Dialect(
    "handler on an event",
    lambda key: request("GET", f"/keys/{key}?after=0"),
    lambda key: request("POST", f"/keys/{key}", b"done"),
)
DIALECTS = (*OURS, NCHAN, BARE)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A publisher, and a subscriber that polls for one message after another and misses none.

    Attributes:
        poll: By key, the first poll: it is held until there is a message.
        publish: By key and text, the request that publishes it.
        go_on: By key and the last answer, head included: the next poll, held until there is a message after that one.
        brings: By an answer's body and a text, whether the message is that one.
    """

    poll: Callable[[str], bytes]
    publish: Callable[[str, str], bytes]
    go_on: Callable[[str, bytes], bytes]
    brings: Callable[[bytes, str], bool]


_INDEX = re.compile(rb'"index":([0-9]+)')
_AFTER = re.compile(rb"\r\nx-index: ([0-9]+)")
_MODIFIED = re.compile(rb"\r\nLast-Modified: ([^\r]*)")
_ETAG = re.compile(rb"\r\nEtag: ([^\r]*)")


def _found(pattern: re.Pattern[bytes], answer: bytes) -> str:
    match = pattern.search(answer)
    if match is None:
        raise ValueError(f"an answer must have {pattern.pattern!r}, got {answer!r}")
    return match[1].decode()


def _read_on(key: str, answer: bytes) -> bytes:
    return request("GET", f"/v1/keys/{key}?index={_found(_INDEX, answer)}&wait={WAIT_S}s")


def _subscribe_on(key: str, answer: bytes) -> bytes:
    modified, etag = _found(_MODIFIED, answer), _found(_ETAG, answer)
    fields = f"If-Modified-Since: {modified}\r\nIf-None-Match: {etag}\r\n"
    return request("GET", f"/sub/{key}", fields=fields)


def _wait_on(key: str, answer: bytes) -> bytes:
    return request("GET", f"/keys/{key}?after={_found(_AFTER, answer)}")


CONVERSATIONS = {
    READ.name: Conversation(
        READ.poll,
        lambda key, text: request("POST", f"/v1/keys/{key}/signal", b'{"value": "%b"}' % text.encode()),
        _read_on,
        lambda body, text: body.endswith(b'"value":"%b"}' % text.encode()),
    ),
    NCHAN.name: Conversation(
        NCHAN.poll,
        lambda key, text: request("POST", f"/pub/{key}", text.encode()),
        _subscribe_on,
        lambda body, text: body == text.encode(),
    ),
    BARE.name: Conversation(
        BARE.poll,
        lambda key, text: request("POST", f"/keys/{key}", text.encode()),
        _wait_on,
        lambda body, text: body == text.encode(),
    ),
}
