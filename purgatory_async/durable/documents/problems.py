"""Every way the service refuses a request: one slug, one status and one title each (RFC 9457).

`Application` turns a raised `Problem` into an answer. Its detail names the value and the bound.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, TypedDict, Unpack

from purgatory_async.durable.documents import Attached, OperationView, State
from purgatory_async.durable.documents.messages import Fault, ProblemDocument
from purgatory_async.errors import RefusedError

TYPE_PREFIX: Final = "urn:purgatory:problem:"
# What each budget bounds.
_BUDGETS: Final = {
    "max_bytes": "what is kept of operations, signals and items",
    "max_unsent": "answers that clients have not taken",
}
_SHOWN: Final = 80  # characters of a client's value that a detail repeats


class ProblemKind(Enum):
    """Slug, status and title of a problem; see `Kind`."""

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title


class Kind(ProblemKind):
    """What the state refuses, and what breaks the contract of its documents."""

    MALFORMED = ("malformed", 400, "The request body is not strict JSON")
    INVALID = ("invalid", 422, "The request body breaks the contract")
    BAD_PARAMETER = ("bad-parameter", 400, "A query parameter is invalid")
    BAD_KEY = ("bad-key", 422, "The key is invalid")
    TOO_MANY_KEYS = ("too-many-keys", 422, "Too many distinct keys")
    OVERLOADED = ("overloaded", 503, "The service is at a limit")
    DRAINING = ("draining", 503, "The service is shutting down")
    GAP = ("gap", 503, "Signals may have been lost")
    STORE_UNAVAILABLE = ("store-unavailable", 503, "The store does not answer")
    UPGRADE_PENDING = ("upgrade-pending", 503, "The store is of an older level")
    DUPLICATE_ID = ("duplicate-id", 409, "The operation id is taken")
    IDEMPOTENCY_MISMATCH = ("idempotency-mismatch", 422, "The Idempotency-Key was used for another request")
    UNKNOWN_OPERATION = ("unknown-operation", 404, "No such operation")
    FORGOTTEN = ("forgotten", 410, "The operation ended and is forgotten")
    PENDING = ("pending", 409, "The operation has not ended")
    ALREADY_ENDED = ("already-ended", 409, "The operation has ended already")
    LINKS_OFF = ("links-off", 409, "The service makes no links")
    UNKNOWN_QUEUE = ("unknown-queue", 404, "No such queue")
    UNKNOWN_LEASE = ("unknown-lease", 404, "No such lease")
    LEASE_EXPIRED = ("lease-expired", 410, "The lease has ended")
    FORBIDDEN = ("forbidden", 403, "The token does not allow it")
    LIMITED = ("limited", 429, "The token's owner is at a limit")


class Members(TypedDict, total=False):
    """The optional members of a problem document."""

    errors: list[Fault]
    parameter: str
    value: str | None
    grammar: str
    limit: int | str
    allowed: int
    used: int
    reasons: list[str]
    cause: str
    operation: OperationView
    differs: list[str]
    queue: str
    budget: str
    flag: str
    state: State
    result: Attached
    by: str | None


class Problem(RefusedError):  # noqa: N818 - the word of RFC 9457
    """A refused request.

    Args:
        kind: Its slug, status and title.
        detail: What is wrong with this request: the value and the bound.
        headers: Extra headers of the answer.
        members: Optional members of the document.
    """

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        **members: Unpack[Members],
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.document = ProblemDocument(TYPE_PREFIX + kind.slug, kind.title, kind.status, detail, **members)
        self.headers = tuple(headers)


def shown(value: object) -> str:
    r"""Format a client's value for a detail, cut to 80 characters; bytes as text in quotes. O(1).

    >>> shown(b"caf\xc3\xa9\r\n\xff"), shown("a")
    ("'caf\xe9\\r\\n\\xff'", "'a'")
    """
    if isinstance(value, bytes):
        text = value[:_SHOWN].decode("utf-8", "backslashreplace")
        text = f"'{''.join(each if each.isprintable() else repr(each)[1:-1] for each in text)}'"
    else:
        text = repr(value[:_SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN + 2 else text[:_SHOWN] + "..."


def malformed(reason: str) -> Problem:
    """The body is not JSON."""
    return Problem(Kind.MALFORMED, f"{reason}; send one document of RFC 8259 in UTF-8")


def invalid(pointer: str, detail: str, *more: Fault) -> Problem:
    """The member of the body at the pointer breaks a rule; so do the members of more faults."""
    return Problem(Kind.INVALID, f"{pointer or 'the body'}: {detail}", errors=[Fault(pointer, detail), *more])


def bad_parameter(parameter: str, value: str | None, grammar: str, advice: str = "") -> Problem:
    """A query parameter is unknown, repeated, missing or does not follow its grammar; advice is the next step."""
    given = "got nothing" if value is None else f"got {shown(value)}"
    return Problem(
        Kind.BAD_PARAMETER,
        f"{shown(parameter)} must be {grammar}, {given}{advice and f'; {advice}'}",
        parameter=parameter,
        value=value,
        grammar=grammar,
    )


def bad_key(key: str | bytes, reason: str) -> Problem:
    """The text is not a key."""
    return Problem(Kind.BAD_KEY, f"a key {reason}, got {shown(key)}")


def too_many_keys(count: int, limit: int) -> Problem:
    """More distinct keys than one operation may watch."""
    return Problem(Kind.TOO_MANY_KEYS, f"at most {limit} distinct keys, got {count}", limit=limit)


def overloaded(what: str, limit: int) -> Problem:
    """A limit on what the service holds is reached; retry later."""
    return Problem(Kind.OVERLOADED, f"the service holds {limit} {what}, its limit; retry later", limit=limit)


def over_budget(budget: str, used: int, limit: int) -> Problem:
    """A budget of bytes is used up; retry later."""
    flag = f"--{budget.replace('_', '-')}"
    return Problem(
        Kind.OVERLOADED,
        f"{_BUDGETS[budget]} must be at most {limit} bytes, {used} are used; retry later, or raise {flag}",
        budget=budget,
        used=used,
        limit=limit,
        flag=flag,
    )


def queue_full(queue: str, what: str, limit: int) -> Problem:
    """A queue is at its own limit of items or bytes; retry later."""
    return Problem(
        Kind.OVERLOADED,
        f"queue {shown(queue)} must have at most {limit} {what}; acknowledge what is leased, or raise max_{what}",
        limit=limit,
        queue=queue,
    )


def gap() -> Problem:
    """The request waited while the state was loaded again; look at what it waited for, then wait again."""
    return Problem(
        Kind.GAP,
        "the state was loaded again while the request waited: look at what it waits for, then wait again",
    )


def store_unavailable(reason: str) -> Problem:
    """The store did not answer in time; a change may still happen, an Idempotency-Key makes it safe to repeat."""
    return Problem(Kind.STORE_UNAVAILABLE, f"{reason}; to repeat a change safely send an Idempotency-Key")


def draining() -> Problem:
    """The service takes no new work and holds no request; retry later, at another instance."""
    return Problem(Kind.DRAINING, "the service is shutting down: cannot hold a request")


def duplicate_id(operation_id: str) -> Problem:
    """A remembered operation has the id."""
    return Problem(
        Kind.DUPLICATE_ID, f"the id {shown(operation_id)} is taken until its operation is forgotten"
    )


def other_operation(operation: OperationView, differs: Sequence[str]) -> Problem:
    """An operation of the same owner has the id, and was submitted with another body."""
    return Problem(
        Kind.DUPLICATE_ID,
        f"the operation {shown(operation.id)} must have the same body to attach to it, got another "
        f"{', '.join(differs)}",
        operation=operation,
        differs=list(differs),
    )


def upgrade_pending(level: int, wanted: int) -> Problem:
    """The store is at a level at which its older workers would not understand the change."""
    return Problem(
        Kind.UPGRADE_PENDING,
        f"the store must be at level {wanted} for this, and is at {level}: once all workers are of this version, "
        f"raise it with purgatory store level URL {wanted}",
    )


def idempotency_mismatch(key: str) -> Problem:
    """An earlier request with another method, path, query or body used the Idempotency-Key."""
    return Problem(
        Kind.IDEMPOTENCY_MISMATCH,
        f"Idempotency-Key {shown(key)} was used for a request with another method, path, query or body: send the same"
        " one, or another key",
    )


def unknown_operation(operation_id: str) -> Problem:
    """No operation with that id exists, or it was forgotten too long ago to tell."""
    return Problem(Kind.UNKNOWN_OPERATION, f"no operation has the id {shown(operation_id)}")


def forgotten(operation_id: str, retention: float, most_bytes: int) -> Problem:
    """The operation ended, and its time is over, was cut to free memory, or ended by a forget."""
    return Problem(
        Kind.FORGOTTEN,
        f"the operation {shown(operation_id)} ended and is forgotten: ended operations are kept for {retention:g} s, "
        f"or less while what is kept exceeds {most_bytes} bytes; with keep, for that time or until a forget",
    )


def already_ended(operation: OperationView, verb: str = "complete") -> Problem:
    """The operation ended before the request; the document shows how."""
    return Problem(
        Kind.ALREADY_ENDED,
        f"the operation {shown(operation.id)} is {operation.state}: cannot {verb} it",
        operation=operation,
    )


def pending(operation: OperationView) -> Problem:
    """The operation has yet to end, so it cannot be forgotten."""
    return Problem(
        Kind.PENDING,
        f"the operation {shown(operation.id)} is pending: cannot forget it; cancel it first",
        operation=operation,
    )


def links_off() -> Problem:
    """The service was started without a public URL."""
    flag = "--public-url"
    return Problem(
        Kind.LINKS_OFF, f"{flag} must be the URL under which people reach the service, got none", flag=flag
    )


def unknown_queue(queue: str) -> Problem:
    """Nothing is in the queue, leased from it or waiting for it, and it has no settings."""
    return Problem(Kind.UNKNOWN_QUEUE, f"no queue has the name {shown(queue)}")


def unknown_lease(lease_id: str) -> Problem:
    """No lease with that id exists, or it ended too long ago to tell."""
    return Problem(Kind.UNKNOWN_LEASE, f"no lease has the id {shown(lease_id)}")


def lease_expired(lease_id: str) -> Problem:
    """The lease was acknowledged, returned or expired; the item may have another taker."""
    return Problem(Kind.LEASE_EXPIRED, f"the lease {shown(lease_id)} has ended; take the next item")


def limited(limit: str, allowed: int, used: int, *, rule: str, retry_after: int = 1) -> Problem:
    """The token's owner is at a limit of its own; other owners are not."""
    return Problem(
        Kind.LIMITED,
        f"the token's owner must keep to {rule}, and uses {used}; retry after {retry_after} s",
        headers=(("Retry-After", str(retry_after)),),
        limit=limit,
        allowed=allowed,
        used=used,
    )


def not_own(what: str, name: str, owner: str | None) -> Problem:
    """The token may see the operation or the lease, which is another owner's, but not change it."""
    whose = "has no owner" if owner is None else f"belongs to {shown(owner)}"
    return Problem(Kind.FORBIDDEN, f"{what} {shown(name)} {whose}: cannot change it without the scope admin")
