"""Every way a request can be refused: one slug, one status and one title each (RFC 9457).

A `Problem` is raised wherever the fault is found and becomes an answer in one place, `Application`. The
details name the value and the bound, so that whoever reads one knows what to send instead.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, TypedDict, Unpack

from purgatory_async.service.messages import Fault, OperationView, ProblemDocument

TYPE_PREFIX: Final = "urn:purgatory:problem:"
_SHOWN: Final = 80  # characters of a client's value that a detail repeats


class Kind(Enum):
    """Slug, status and title of each problem."""

    MALFORMED = ("malformed", 400, "The request body is not strict JSON")
    INVALID = ("invalid", 422, "The request body breaks the contract")
    BAD_PARAMETER = ("bad-parameter", 400, "A query parameter is not acceptable")
    BAD_HEADER = ("bad-header", 400, "A request header is not acceptable")
    BAD_KEY = ("bad-key", 422, "That cannot be a key")
    TOO_MANY_KEYS = ("too-many-keys", 422, "Too many distinct keys")
    TOO_LARGE = ("too-large", 413, "The request body is too large")
    OVERLOADED = ("overloaded", 503, "The service holds as much as it may")
    DRAINING = ("draining", 503, "The service is shutting down")
    NOT_READY = ("not-ready", 503, "The service should be sent nothing new")
    DUPLICATE_ID = ("duplicate-id", 409, "That operation id is taken")
    IDEMPOTENCY_MISMATCH = ("idempotency-mismatch", 422, "That Idempotency-Key came with another body")
    UNKNOWN_OPERATION = ("unknown-operation", 404, "No such operation")
    FORGOTTEN = ("forgotten", 410, "The operation ended and is forgotten")
    ALREADY_ENDED = ("already-ended", 409, "The operation has ended already")
    UNKNOWN_LEASE = ("unknown-lease", 404, "No such lease")
    LEASE_EXPIRED = ("lease-expired", 410, "The lease has ended")
    UNAUTHORIZED = ("unauthorized", 401, "A token is needed")
    FORBIDDEN = ("forbidden", 403, "The token does not allow that")
    CROSS_ORIGIN = ("cross-origin", 403, "A page of another origin may not change anything")
    MISDIRECTED = ("misdirected", 421, "The service does not answer to that host")
    NOT_FOUND = ("not-found", 404, "Nothing is served at this path")
    METHOD_NOT_ALLOWED = ("method-not-allowed", 405, "This path does not take that method")
    UNSUPPORTED_MEDIA_TYPE = ("unsupported-media-type", 415, "The request body must be JSON")
    NOT_ACCEPTABLE = ("not-acceptable", 406, "The answer cannot be what Accept asks for")
    MALFORMED_REQUEST = ("malformed-request", 400, "The request cannot be read as HTTP")
    TOO_SLOW = ("too-slow", 408, "The request took too long to arrive")
    TARGET_TOO_LONG = ("target-too-long", 414, "The request line is too long")
    HEADERS_TOO_LARGE = ("headers-too-large", 431, "The request's header fields are too large")
    INTERNAL = ("internal", 500, "The service made a mistake")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title


# With these the client should come again, and is told when.
RETRIED: Final = frozenset({Kind.OVERLOADED, Kind.DRAINING, Kind.NOT_READY})


class Members(TypedDict, total=False):
    """What a problem document may have beyond the four members of every one."""

    errors: list[Fault]
    parameter: str
    value: str | None
    grammar: str
    limit: int
    reasons: list[str]
    operation: OperationView


class Problem(Exception):  # noqa: N818 - the word of RFC 9457
    """A refused request.

    Args:
        kind: Which slug, status and title.
        detail: What was wrong with this request: the value and the bound.
        headers: Of the answer, beyond those of every answer.
        members: What its document has beyond the four members of every one.
    """

    def __init__(
        self, kind: Kind, detail: str, *, headers: Sequence[tuple[str, str]] = (), **members: Unpack[Members]
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.document = ProblemDocument(TYPE_PREFIX + kind.slug, kind.title, kind.status, detail, **members)
        self.headers = tuple(headers)


def shown(value: object) -> str:
    """Repeat a client's value in a detail: as a Python literal, cut where it grows long. O(1)."""
    text = repr(value[:_SHOWN] if isinstance(value, str | bytes) else value)
    return text if len(text) <= _SHOWN + 2 else text[:_SHOWN] + "..."


def malformed(reason: str) -> Problem:
    """The body cannot be read as JSON."""
    return Problem(Kind.MALFORMED, f"{reason}; send one document of RFC 8259 in UTF-8")


def invalid(pointer: str, detail: str) -> Problem:
    """A member of the body breaks a rule; the pointer says which."""
    return Problem(Kind.INVALID, f"{pointer or 'the body'}: {detail}", errors=[Fault(pointer, detail)])


def bad_parameter(parameter: str, value: str | None, grammar: str) -> Problem:
    """A query parameter is unknown, repeated, missing or does not follow its grammar."""
    given = "it is missing" if value is None else f"got {shown(value)}"
    return Problem(
        Kind.BAD_PARAMETER,
        f"{shown(parameter)} must be {grammar}; {given}",
        parameter=parameter,
        value=value,
        grammar=grammar,
    )


def bad_header(name: str, rule: str, value: str) -> Problem:
    """A header that the service reads does not follow its rule."""
    return Problem(Kind.BAD_HEADER, f"{name} must be {rule}, got {shown(value)}")


def bad_key(key: str | bytes, reason: str) -> Problem:
    """Not a key."""
    return Problem(Kind.BAD_KEY, f"a key {reason}, got {shown(key)}")


def too_many_keys(count: int, limit: int) -> Problem:
    """More distinct keys than one operation may watch."""
    return Problem(Kind.TOO_MANY_KEYS, f"at most {limit} distinct keys, got {count}", limit=limit)


def too_large(limit: int) -> Problem:
    """The body is larger than any body may be; the connection closes, for the rest of it was not read."""
    closing = (("Connection", "close"),)
    return Problem(Kind.TOO_LARGE, f"a body may have {limit} bytes", limit=limit, headers=closing)


def overloaded(what: str, limit: int) -> Problem:
    """A limit on what the service holds is reached; come again later."""
    return Problem(Kind.OVERLOADED, f"the service holds {limit} {what}, as many as it may", limit=limit)


def unrecorded(why: str) -> Problem:
    """The journal cannot take what it must, so nothing was done; come again later."""
    return Problem(Kind.OVERLOADED, f"{why}; nothing was done")


def not_ready(reasons: list[str]) -> Problem:
    """The service should be sent nothing new."""
    kind = Kind.DRAINING if "draining" in reasons else Kind.NOT_READY
    return Problem(kind, f"the service is not ready: {', '.join(reasons)}", reasons=reasons)


def draining() -> Problem:
    """The service takes nothing new and holds nothing any longer; come again later, to another one."""
    return Problem(Kind.DRAINING, "the service is shutting down and holds no request any longer")


def duplicate_id(operation_id: str) -> Problem:
    """The id belongs to an operation that is not forgotten yet."""
    return Problem(
        Kind.DUPLICATE_ID, f"the id {shown(operation_id)} is taken until its operation is forgotten"
    )


def idempotency_mismatch(key: str) -> Problem:
    """The Idempotency-Key was seen with another body."""
    return Problem(
        Kind.IDEMPOTENCY_MISMATCH,
        f"Idempotency-Key {shown(key)} was used with another body: send the same one, or another key",
    )


def unknown_operation(operation_id: str) -> Problem:
    """No operation of that id was submitted, or it is forgotten so long that even this is forgotten."""
    return Problem(Kind.UNKNOWN_OPERATION, f"no operation has the id {shown(operation_id)}")


def forgotten(operation_id: str, retention: float, most_bytes: int) -> Problem:
    """The operation ended, and its retention time is over, or was cut for want of room."""
    return Problem(
        Kind.FORGOTTEN,
        f"the operation {shown(operation_id)} ended and is forgotten: they are kept for {retention:g} s, or less "
        f"where all that is attached to ended ones is above {most_bytes} bytes",
    )


def already_ended(operation: OperationView) -> Problem:
    """Whoever wanted to end the operation was too late; the document shows how it ended."""
    return Problem(
        Kind.ALREADY_ENDED,
        f"the operation {shown(operation.id)} ended {operation.state} before",
        operation=operation,
    )


def unknown_lease(lease_id: str) -> Problem:
    """No lease of that id was given out, or it ended so long ago that even this is forgotten."""
    return Problem(Kind.UNKNOWN_LEASE, f"no lease has the id {shown(lease_id)}")


def lease_expired(lease_id: str) -> Problem:
    """The lease has ended: acknowledged, returned, or out of time, and then its item is somebody else's."""
    return Problem(Kind.LEASE_EXPIRED, f"the lease {shown(lease_id)} has ended; take the next item")


def unauthorized(reason: str) -> Problem:
    """Unowned may come in without a token; what was sent instead is never repeated."""
    return Problem(
        Kind.UNAUTHORIZED,
        f"{reason}: send Authorization: Bearer and a token of the service's",
        headers=(("WWW-Authenticate", "Bearer"),),
    )


def forbidden(scope: str) -> Problem:
    """The token is known and allows other things."""
    challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
    wanted = scope if scope == "admin" else f"{scope} or admin"
    return Problem(
        Kind.FORBIDDEN,
        f"this takes a token with the scope {wanted}, which yours does not have",
        headers=(("WWW-Authenticate", challenge),),
    )


def cross_origin(header: str, value: str) -> Problem:
    """A page of somebody else's makes a browser send what its user never asked for."""
    return Problem(
        Kind.CROSS_ORIGIN,
        f"only pages of the service's own host may change anything, {header} was {shown(value)}",
        headers=(("Vary", "Origin, Sec-Fetch-Site"),),
    )


def misdirected(host: str) -> Problem:
    """The request is meant for a host that is not the service's, as when a name is bound to our address."""
    return Problem(
        Kind.MISDIRECTED,
        f"Host must be a loopback name, the address listened on, or one of allow_host, got {shown(host)}",
    )


def not_found(path: str) -> Problem:
    """Nothing is served there."""
    return Problem(Kind.NOT_FOUND, f"nothing is served at {shown(path)}")


def method_not_allowed(method: str, allowed: Sequence[str]) -> Problem:
    """The path is served, but not to that method."""
    allow = ", ".join(sorted(allowed))
    return Problem(
        Kind.METHOD_NOT_ALLOWED, f"this path takes {allow}, got {shown(method)}", headers=(("Allow", allow),)
    )


def unsupported_media_type(what: str, given: str) -> Problem:
    """The body comes in a type or an encoding that the service does not read."""
    return Problem(Kind.UNSUPPORTED_MEDIA_TYPE, f"{what}, got {shown(given)}")


def not_acceptable(served: str, accept: str) -> Problem:
    """The client refuses every form that the answer could take."""
    return Problem(Kind.NOT_ACCEPTABLE, f"this path answers {served}, Accept was {shown(accept)}")


def malformed_request(reason: str) -> Problem:
    """The head or the framing leaves doubt about what was asked or where it ends; nothing behind it is run."""
    return Problem(Kind.MALFORMED_REQUEST, f"{reason}; the connection closes, and what follows is not read")


def too_slow(part: str, limit: float) -> Problem:
    """The client took longer to send its request than any may; the connection closes."""
    return Problem(Kind.TOO_SLOW, f"the {part} of a request must arrive within {limit:g} s")


def target_too_long(limit: int) -> Problem:
    """The first line is longer than any may be."""
    return Problem(
        Kind.TARGET_TOO_LONG, f"the request line may have {limit} bytes and is longer", limit=limit
    )


def headers_too_large(what: str, limit: int) -> Problem:
    """There are more header fields, or more bytes of them, than may be; says which by what was counted."""
    return Problem(Kind.HEADERS_TOO_LARGE, f"a request may have {limit} {what}", limit=limit)


def internal() -> Problem:
    """A fault of ours; the log has it, the client learns nothing of it."""
    return Problem(Kind.INTERNAL, f"this is the service's fault, not the request's ({Kind.INTERNAL.slug})")
