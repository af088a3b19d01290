"""The refusals that only HTTP has: of heads, queries, bodies, tokens, hosts and links; see `documents.problems`."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from purgatory_async.cluster.causes import CAUSES
from purgatory_async.durable.documents import Attached, State
from purgatory_async.durable.documents.problems import Kind, Problem, ProblemKind, shown

_NAMED: Final = 3  # prefixes that a detail names


class HttpKind(ProblemKind):
    """Slug, status and title of each of them."""

    BAD_HEADER = ("bad-header", 400, "A request header is invalid")
    TOO_LARGE = ("too-large", 413, "The request body is too large")
    BEHIND = ("behind", 503, "The worker has not caught up")
    NOT_READY = ("not-ready", 503, "The service is not ready")
    UNKNOWN_LINK = ("unknown-link", 404, "No such link")
    LINK_EXPIRED = ("link-expired", 410, "The link has expired")
    UNAUTHORIZED = ("unauthorized", 401, "The request needs a valid token")
    CROSS_ORIGIN = ("cross-origin", 403, "Pages of another origin may change nothing")
    MISDIRECTED = ("misdirected", 421, "The Host is not this service's")
    NOT_FOUND = ("not-found", 404, "No such path")
    METHOD_NOT_ALLOWED = ("method-not-allowed", 405, "The path does not take the method")
    UNSUPPORTED_MEDIA_TYPE = ("unsupported-media-type", 415, "The request body must be JSON")
    NOT_ACCEPTABLE = ("not-acceptable", 406, "Accept allows no form of the answer")
    MALFORMED_REQUEST = ("malformed-request", 400, "The request is not valid HTTP")
    TOO_SLOW = ("too-slow", 408, "The request took too long to arrive")
    TARGET_TOO_LONG = ("target-too-long", 414, "The request line is too long")
    HEADERS_TOO_LARGE = ("headers-too-large", 431, "The request's header fields are too large")
    INTERNAL = ("internal", 500, "The service failed")


# Answered with Retry-After.
RETRIED: Final = frozenset(
    {
        *(Kind.OVERLOADED, Kind.DRAINING, HttpKind.BEHIND, Kind.GAP),
        *(Kind.STORE_UNAVAILABLE, Kind.UPGRADE_PENDING, HttpKind.NOT_READY),
    }
)
# The connection closes after their answers: the rest of a body is unread, or the server stops.
CLOSING: Final = frozenset({HttpKind.TOO_LARGE, Kind.DRAINING})


def bad_header(name: str, rule: str, value: str) -> Problem:
    """A request header breaks its rule."""
    return Problem(HttpKind.BAD_HEADER, f"{name} must be {rule}, got {shown(value)}")


def too_large(limit: int) -> Problem:
    """The body exceeds the limit."""
    return Problem(HttpKind.TOO_LARGE, f"the body must have at most {limit} bytes, got more", limit=limit)


def unrecorded(why: str) -> Problem:
    """The journal cannot record the change, so the service did not make it; retry later."""
    return Problem(Kind.OVERLOADED, f"{why}; nothing was done")


def not_ready(reasons: list[str], cause: str | None) -> Problem:
    """The service asks for no new requests; ``cause`` is why its store does not serve, None if it does."""
    kind = Kind.DRAINING if "draining" in reasons else HttpKind.NOT_READY
    detail = f"the service is not ready: {', '.join(reasons)}"
    if cause is None:
        return Problem(kind, detail, reasons=reasons)
    return Problem(kind, f"{detail}; the store: {CAUSES[cause]}", reasons=reasons, cause=cause)


def behind(wanted: int, applied: int) -> Problem:
    """The position that the request names is not applied here; retry later."""
    return Problem(HttpKind.BEHIND, f"X-Purgatory-Position must be at most {applied} by now, got {wanted}")


def answered(state: State, result: Attached, by: str | None) -> Problem:
    """The question of a link ended before the answer came; the document shows how."""
    return Problem(
        Kind.ALREADY_ENDED,
        f"the question is {state}: cannot answer it",
        state=state,
        result=result,
        by=by,
    )


def unknown_link() -> Problem:
    """The link is not whole, or another service's; the detail does not say which."""
    return Problem(HttpKind.UNKNOWN_LINK, "no question of this service has the link: it must be whole")


def link_expired(at: dt.datetime) -> Problem:
    """The link's own time is over."""
    return Problem(HttpKind.LINK_EXPIRED, f"the link was good until {at.isoformat()}: make another one")


def link_forgotten() -> Problem:
    """The link's question has ended, and is forgotten."""
    return Problem(Kind.FORGOTTEN, "the question of the link ended and is forgotten")


def unauthorized(reason: str) -> Problem:
    """The request has no valid token; the detail never repeats what it has."""
    return Problem(
        HttpKind.UNAUTHORIZED,
        f"{reason}: send Authorization: Bearer with a token of this service",
        headers=(("WWW-Authenticate", "Bearer"),),
    )


def forbidden(scope: str, *others: str) -> Problem:
    """The token is known but lacks the scope; each of the others would do for some answers."""
    challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
    wanted = " or ".join(dict.fromkeys((scope, *others, "admin")))
    return Problem(
        Kind.FORBIDDEN,
        f"the token must have the scope {wanted}",
        headers=(("WWW-Authenticate", challenge),),
    )


def outside(name: str, prefixes: Sequence[str]) -> Problem:
    """A key, a prefix or a queue does not begin with a prefix of the token."""
    first = " or ".join(shown(prefix) for prefix in prefixes[:_NAMED])
    more = "" if len(prefixes) <= _NAMED else f", or {len(prefixes) - _NAMED} more"
    return Problem(Kind.FORBIDDEN, f"the token is for names that begin with {first}{more}, got {shown(name)}")


def other_owner(before: str | None, now: str | None) -> Problem:
    """The token has another name since the request began."""
    return Problem(Kind.FORBIDDEN, f"the token was {shown(before)}'s and is {shown(now)}'s now: ask again")


def cross_origin(header: str, value: str) -> Problem:
    """A page of another origin sent a request that may change something."""
    return Problem(
        HttpKind.CROSS_ORIGIN,
        f"{header} must name the service's own origin, got {shown(value)}",
        headers=(("Vary", "Origin, Sec-Fetch-Site"),),
    )


def misdirected(host: str) -> Problem:
    """The request names another host, as in DNS rebinding."""
    return Problem(
        HttpKind.MISDIRECTED,
        f"Host must be a loopback name, the bound address, or one of allow_host, got {shown(host)}",
    )


def not_found(path: str) -> Problem:
    """The service has no such path."""
    return Problem(HttpKind.NOT_FOUND, f"no endpoint has the path {shown(path)}")


def method_not_allowed(method: str, allowed: Sequence[str]) -> Problem:
    """The path does not take that method."""
    allow = ", ".join(sorted(allowed))
    return Problem(
        HttpKind.METHOD_NOT_ALLOWED,
        f"the path takes {allow}, got {shown(method)}",
        headers=(("Allow", allow),),
    )


def unsupported_media_type(what: str, given: str) -> Problem:
    """The service does not read the body's type or encoding."""
    return Problem(HttpKind.UNSUPPORTED_MEDIA_TYPE, f"{what}, got {shown(given)}")


def not_acceptable(served: str, accept: str) -> Problem:
    """The client accepts no form of the answer."""
    return Problem(HttpKind.NOT_ACCEPTABLE, f"Accept must allow {served}, got {shown(accept)}")


def malformed_request(reason: str) -> Problem:
    """The head or the framing is ambiguous; the service reads nothing after it."""
    return Problem(HttpKind.MALFORMED_REQUEST, f"{reason}; the connection closes and the rest is not read")


def too_slow(part: str, limit: float) -> Problem:
    """The client took too long to send its request; the connection closes."""
    return Problem(HttpKind.TOO_SLOW, f"the {part} of a request must arrive within {limit:g} s")


def target_too_long(limit: int) -> Problem:
    """The request line exceeds the limit."""
    return Problem(
        HttpKind.TARGET_TOO_LONG, f"the request line must have at most {limit} bytes, got more", limit=limit
    )


def headers_too_large(what: str, limit: int) -> Problem:
    """The header fields exceed a limit on their number or bytes."""
    return Problem(HttpKind.HEADERS_TOO_LARGE, f"a request must have at most {limit} {what}", limit=limit)


def internal() -> Problem:
    """The service has a bug; only the log shows it."""
    return Problem(
        HttpKind.INTERNAL,
        "the service failed, not the request; its log has the reason, by this answer's X-Request-Id",
    )
