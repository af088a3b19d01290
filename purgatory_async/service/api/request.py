"""A request for the endpoints: what its head says, by their rules, and its bounded body."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.names import checked_key
from purgatory_async.durable.fold.entries import Entry
from purgatory_async.durable.grants import Permission
from purgatory_async.durable.later import Later, after
from purgatory_async.durable.state import State
from purgatory_async.durable.verbs.levels import past_the_first
from purgatory_async.errors import Interruption
from purgatory_async.service.api.query_string import Query, parse_query
from purgatory_async.service.api.repeating import ONCE, Repeatable, asked_of, digest_of, read_body
from purgatory_async.service.contract import http_problems
from purgatory_async.service.contract.header_fields import Fields, Head
from purgatory_async.service.contract.percent import percent_decoded
from purgatory_async.service.http.answer import JSON
from purgatory_async.service.http.wire import Asked, Wire
from purgatory_async.service.visit import Server, Visit
from purgatory_async.web.waiting import NO_WAIT, Wait, decided_wait

MAX_HEADER: Final = 255
REPEATABLE: Final = "Idempotency-Key"


_CHARSET: Final = r'\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?'
_NO_WEIGHT: Final = re.compile(r";\s*q\s*=\s*0(?:\.0{0,3})?\s*(?:;|\Z)", re.IGNORECASE)
# msgspec's messages end with a path: "Expected `str`, got `int` - at `$.keys[0]`"; a missing or unknown member is named
# before it.
_NO_QUERY: Final = Query({})
_OF_CONTENT: Final = frozenset({b"content-type", b"content-encoding", b"expect"})
_LARGE_BYTES: Final = 1 << 16
_BODILESS: Final = frozenset({"GET", "HEAD"})  # what comes with these is dropped
# Needs no decoding, and breaks no rule.
_USUAL_KEY: Final = re.compile(rb"(?!\.\.?\Z)[!$'()*+,\-.0-9:;=@A-Z_a-z~]{1,512}").fullmatch


class BodyType:
    """What a body may be: of one of some media types, in UTF-8.

    Args:
        media_types: The media types.

    Attributes:
        name: For refusals.
    """

    def __init__(self, *media_types: str) -> None:
        self.name: Final = " or ".join(media_types)
        either = "|".join(map(re.escape, media_types))
        self._pattern: Final = re.compile(rf"\s*(?:{either}){_CHARSET}", re.IGNORECASE)

    def __repr__(self) -> str:
        return f"<BodyType {self.name}>"

    def fits(self, content_type: str) -> bool:
        """Whether a ``Content-Type`` is one of them. O(length)."""
        return self._pattern.fullmatch(content_type) is not None


JSON_BODY: Final = BodyType(JSON)


class BodyAwaited(Interruption):
    """An endpoint needs the body, which has yet to come: it is called again with it."""


class BodyServer(Server, Protocol):
    """What answers requests that have bodies.

    Attributes:
        max_body: The most bytes of one.
    """

    max_body: int


class Request(Asked):
    """One HTTP request.

    Args:
        server: Answers it.
        wire: Takes its answer.
        head: Its head.
        below: Its path below the mount point and the base path.
        prefix: The mount point and the base path, percent-encoded as in the client's URLs.

    Attributes:
        guarded: Whether it is refused while clients do not take their answers. Like the parameters, only once its
            route was found.
        parameters: The path's, still percent-encoded, by name.
        endpoint: The endpoint of its path and method, once the request was let in.
    """

    __slots__ = ("_awaited", "_content", "_whole", "below", "endpoint", "guarded", "parameters", "prefix")

    server: BodyServer
    guarded: bool
    parameters: Mapping[str, bytes]

    def __init__(
        self,
        server: BodyServer,
        wire: Wire,
        head: Head,
        below: bytes,
        prefix: str,
    ) -> None:
        Visit.__init__(self, server, wire, head)  # not by super(), which takes as long as the call
        self.below = below
        self.prefix = prefix
        self.endpoint: Callable[[Any, Request], Any] | None = None
        # The body so far, and whether the endpoint waits for the rest.
        self._content: bytes | bytearray = b""
        self._whole = head.profile.length == 0
        self._awaited = False

    @property
    def refusal(self) -> problems.Problem | None:
        """Why its token does not allow it any more; None while it does, and once it has made a change."""
        return None if self.changed or self.admission is None else self.admission.refusal

    def header(self, name: str) -> str | None:
        """Return a header, named in lower case, repetitions joined by commas; None if it is absent. O(1)."""
        return self.profile.fields.text(name)

    def query(self, *known: str, repeated: Iterable[str] = ()) -> Query:
        """Parse the query string.

        Args:
            known: The path's parameters.
            repeated: Query parameters that may repeat.

        Raises:
            Problem: ``bad-parameter`` or ``bad-key``.
        """
        if not self.query_string:
            return _NO_QUERY
        return parse_query(self.query_string, frozenset(known), repeated=frozenset(repeated))

    def wait(self, query: Query, max_wait: float) -> Wait:
        """Return how long to hold the request, at most ``max_wait`` seconds, before jitter.

        Raises:
            Problem: ``bad-parameter``.
        """
        if query is _NO_QUERY and b"prefer" not in self.profile.fields.by_name:
            return NO_WAIT
        return decided_wait(query.wait(), self.header("prefer"), max_wait)

    def position(self) -> int:
        """Return the position that the state must have reached; 0 for any.

        Raises:
            Problem: ``bad-header``.
        """
        values = self.profile.fields.by_name.get(b"x-purgatory-position")
        if values is None:
            return 0
        value = values[0]
        if re.fullmatch(rb"[0-9]{1,16}", value) is None:
            raise http_problems.bad_header("X-Purgatory-Position", "[0-9]{1,16}", value.decode("latin-1"))
        return int(value)

    def check_repeatable(self, *, refused: bool) -> None:
        """Check the Idempotency-Key, if there is one, before the body is read; ``refused`` where none is kept.

        Raises:
            Problem: ``bad-header``.
        """
        key = self.header(REPEATABLE.lower())
        if key is None:
            return
        if refused:
            raise http_problems.bad_header(
                REPEATABLE, "left out: none is kept here, a repeated request changes more", key
            )
        if not (0 < len(key) <= MAX_HEADER and key.isascii()):
            raise http_problems.bad_header(REPEATABLE, f"1 to {MAX_HEADER} characters of ASCII", key)

    def repeatable(
        self, body: bytes, entry: Entry, state: State, drawn: tuple[str, ...] = ()
    ) -> Later[Repeatable]:
        """Return the Idempotency-Key and the digest of the request, both checked; `ONCE` without a key.

        Args:
            body: Its body, which level 1 compares.
            entry: What it asks for.
            state: Has the level.
            drawn: The members of the entry that the service has chosen.
        """
        if not self.profile.rare or (key := self.header(REPEATABLE.lower())) is None:
            return ONCE
        return after(past_the_first(state), partial(self._repeatable, key, body, entry, drawn))

    def _repeatable(
        self, key: str, body: bytes, entry: Entry, drawn: tuple[str, ...], by_meaning: bool
    ) -> Later[Repeatable]:
        def _made() -> Repeatable:
            query = b"" if by_meaning else self.query_string
            asked = asked_of(entry, drawn) if by_meaning else read_body(body)
            return Repeatable(key, digest_of(self.method, self.route, self.parameters, query, asked))

        return _in_turn(_made) if len(body) > _LARGE_BYTES else _made()

    def key(self, name: str = "key") -> str:
        """Return the key, or the queue's name, in a parameter of the path.

        Raises:
            Problem: ``bad-key``, or ``forbidden``: it does not begin with a prefix of the token.
        """
        raw = self.parameters[name]
        if _USUAL_KEY(raw):
            key = raw.decode()
        else:
            try:
                key = checked_key(percent_decoded(raw))
            except ValueError:
                raise problems.bad_key(raw, "must be percent-encoded UTF-8") from None
        if self.admission is not None:
            self.admission.use(key)
        return key

    def use(self, *names: str) -> None:
        """Check that the token may use some keys, prefixes or queues; while the request is held, it must remain so.

        Raises:
            Problem: ``forbidden``.
        """
        if self.admission is not None:
            self.admission.use(*names)

    def need(self, right: Permission) -> None:
        """Check that the token has a further scope; while the request is held, it must keep it.

        Raises:
            Problem: ``forbidden``.
        """
        if self.admission is not None:
            self.admission.need(right)

    def check_accept(self, *served: str) -> None:
        """Check that the client accepts one of the media types.

        Raises:
            Problem: ``not-acceptable``.
        """
        profile = self.profile
        if served not in profile.accepted:
            accept = profile.fields.text("accept")
            if accept is not None and accept.strip() and not _accepts(accept, served):
                raise http_problems.not_acceptable(" or ".join(served), accept)
            profile.accepted.add(served)

    # The body.

    def feed(self, content: bytes, *, whole: bool) -> None:
        """Give it a piece of its body; an endpoint that awaits it is called again with all, or too much."""
        if self.ended or self.gone:
            return
        before, most = self._content, self.server.max_body
        if content and len(before) <= most and self.method not in _BODILESS:
            if not before:
                self._content = content  # nearly always all of it
            elif isinstance(before, bytes):
                self._content = bytearray(before) + content
            else:
                before += content
        self._whole = whole
        # Again with the first piece, whose type may be refused before the rest is read.
        if self._awaited and (whole or len(self._content) > most or (self._content and not before)):
            self._awaited = False
            self.server.serve(self)

    def await_body(self) -> None:
        """Note that its endpoint is to be called again, once there is more of the body."""
        self._awaited = True
        self.wire.await_body()

    def body(self, allowed: BodyType = JSON_BODY, most: int | None = None) -> bytes:
        """Return the body.

        What the head can refuse is refused before anything is read, so a client that awaits ``100 Continue`` sends
        nothing.

        Args:
            allowed: What it may be.
            most: The most bytes of a body that may be something else than JSON, or less than usual.

        Raises:
            Problem: ``too-large``, at once if Content-Length says so; ``unsupported-media-type``.
            BodyAwaited: It is not all there.
        """
        content, usual = self._content, most is None
        most = self.server.max_body if most is None else min(most, self.server.max_body)
        if not content and self.profile.length == 0:
            return b""
        if not (usual and self.profile.promises_json):
            length = self.header("content-length")
            if length is not None and _announces_too_much(length, most):
                raise http_problems.too_large(most)
            if content or _promises_content(self.profile.fields):
                _check_content(self.profile.fields, allowed)
                if usual:
                    self.profile.promises_json = True
        if len(content) > most:
            raise http_problems.too_large(most)
        if not self._whole:
            raise BodyAwaited
        return bytes(content)


async def _in_turn(made: Callable[[], Repeatable]) -> Repeatable:
    await asyncio.sleep(0)  # a digest takes as long as the check of the body: others have a turn between
    return made()


def _promises_content(fields: Fields) -> bool:
    """Whether a head says that a body follows; chunks may turn out to be empty, unless it says more of them."""
    length = fields.text("content-length")
    if length is not None:
        return bool(length.strip("0"))
    return b"transfer-encoding" in fields.by_name and not _OF_CONTENT.isdisjoint(fields.by_name)


def _check_content(fields: Fields, allowed: BodyType) -> None:
    encoding = fields.text("content-encoding")
    if encoding is not None and encoding.strip().lower() not in {"", "identity"}:
        raise http_problems.unsupported_media_type("a body must not be encoded", encoding)
    media_type = fields.text("content-type")
    if media_type is None or not allowed.fits(media_type):
        raise http_problems.unsupported_media_type(
            f"a body must be {allowed.name}", media_type or "no Content-Type"
        )


def _announces_too_much(length: str, most: int) -> bool:
    # Count the digits first: int() raises above a few thousand.
    return length.isdecimal() and (len(length) > len(str(most)) or int(length) > most)


def _accepts(accept: str, served: tuple[str, ...]) -> bool:
    """Whether ``Accept`` allows one of the types; the most specific matching range decides."""
    weights: dict[str, bool] = {}
    for part in accept.split(","):
        media_range, _, parameters = part.partition(";")
        weights[media_range.strip().lower()] = _NO_WEIGHT.search(";" + parameters) is None
    return any(
        next((weights[fit] for fit in (kind, kind.partition("/")[0] + "/*", "*/*") if fit in weights), False)
        for kind in served
    )
