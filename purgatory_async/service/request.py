"""A request as the endpoints see it: its head, and a body that is bounded and read at most once.

Whoever has read the body may go on calling `receive`, which from then on only tells that the client left.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec
from starlette.types import Receive, Scope

from purgatory_async.service import problems, strict_json
from purgatory_async.service.answer import JSON
from purgatory_async.service.holds import ClientGone
from purgatory_async.service.keys import checked_key
from purgatory_async.service.query import Query, parse_query, percent_decoded
from purgatory_async.web.waiting import Wait, decided_wait

MAX_BODY: Final = 1 << 20
MAX_HEADER: Final = 255

M = TypeVar("M")

_JSON_TYPE: Final = re.compile(r'\s*application/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?', re.IGNORECASE)
_NO_WEIGHT: Final = re.compile(r";\s*q\s*=\s*0(?:\.0{0,3})?\s*(?:;|\Z)", re.IGNORECASE)
# msgspec ends its messages with the place: "Expected `str`, got `int` - at `$.keys[0]`"; a member that it misses
# or does not know is named before.
_PLACE: Final = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
_MEMBER: Final = re.compile(r"(?:unknown|missing required) field `(.*)`$", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")
_MAX_FAULT: Final = 1024  # characters: a client's name of a megabyte would take the patterns minutes


class Request:
    """One HTTP request.

    Args:
        scope: ASGI's.
        receive: ASGI's; the request owns it.
        parameters: The path's, still percent-encoded, by name.
    """

    def __init__(self, scope: Scope, receive: Receive, parameters: Mapping[str, bytes]) -> None:
        self.receive: Final = receive
        self.parameters: Final = parameters
        # Where a client finds us: the mount point, if any, as it stands in its own URLs.
        self.prefix: Final = quote(scope.get("root_path", ""))
        self._query: bytes = scope["query_string"]
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]

    def header(self, name: str) -> str | None:
        """Return a header, its repetitions joined as HTTP says; None if it is absent. O(headers)."""
        wanted = name.lower().encode()
        values = [value.decode("latin-1") for key, value in self._headers if key.lower() == wanted]
        return ", ".join(values) if values else None

    def query(self, *known: str, repeated: str = "") -> Query:
        """Read the query string.

        Args:
            known: The names that the path takes.
            repeated: The one of them that may stand more than once.

        Returns:
            The parameters.

        Raises:
            Problem: ``bad-parameter`` or ``bad-key``.
        """
        return parse_query(self._query, frozenset(known), repeated=frozenset({repeated}))

    def wait(self, query: Query, max_wait: float) -> Wait:
        """Decide for how long the request may be held.

        Args:
            query: Its own.
            max_wait: Seconds.

        Returns:
            The wait, before jitter.

        Raises:
            Problem: ``bad-parameter``.
        """
        return decided_wait(query.wait(), self.header("prefer"), max_wait)

    def key(self, name: str = "key") -> str:
        """Return the key in the path.

        Args:
            name: Of the path's parameter; a queue's name follows the rules of a key.

        Raises:
            Problem: ``bad-key``.
        """
        raw = self.parameters[name]
        try:
            key = percent_decoded(raw)
        except ValueError:
            raise problems.bad_key(raw, "must be percent-encoded UTF-8") from None
        return checked_key(key)

    def check_accept(self, *served: str) -> None:
        """Make sure that the client takes one of the media types.

        Args:
            served: What the path answers, such as ``application/json``.

        Raises:
            Problem: ``not-acceptable``.
        """
        accept = self.header("accept")
        if accept is not None and accept.strip() and not _accepts(accept, served):
            raise problems.not_acceptable(" or ".join(served), accept)

    async def body(self) -> bytes:
        """Read the body, once.

        Returns:
            All of it.

        Raises:
            Problem: ``too-large``, from its length alone where it is given; ``unsupported-media-type``.
            ClientGone: It left while sending.
        """
        length = self.header("content-length")
        if length is not None and _announces_too_much(length):
            raise problems.too_large(MAX_BODY)
        pieces, size = [], 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece: bytes = message.get("body", b"")
            size += len(piece)
            if size > MAX_BODY:
                raise problems.too_large(MAX_BODY)
            pieces.append(piece)
            if not message.get("more_body", False):
                break
        if size:
            self._check_content()
        return b"".join(pieces)

    def _check_content(self) -> None:
        encoding = self.header("content-encoding")
        if encoding is not None and encoding.strip().lower() not in {"", "identity"}:
            raise problems.unsupported_media_type("a body must not be encoded", encoding)
        media_type = self.header("content-type")
        if media_type is None or _JSON_TYPE.fullmatch(media_type) is None:
            raise problems.unsupported_media_type(f"a body must be {JSON}", media_type or "no Content-Type")


def _announces_too_much(length: str) -> bool:
    # By its digits first: int() of five thousand of them raises.
    return length.isdecimal() and (len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY)


def decoded(body: bytes, decoder: msgspec.json.Decoder[M], *, optional: bool = False) -> M:
    """Read a body as one of the messages.

    Args:
        body: All of it.
        decoder: For the struct it must be.
        optional: Whether an empty body stands for ``{}``.

    Returns:
        The message.

    Raises:
        Problem: ``malformed`` or ``invalid``.
    """
    text = b"{}" if optional and not body else body
    # Twice: once for what is not JSON, and once for the members, which leaves their attachments as they are.
    try:
        strict_json.check(text)
    except ValueError as error:
        raise problems.malformed(str(error)) from None
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise problems.invalid(*_pointed(str(error))) from None


def _pointed(text: str) -> tuple[str, str]:
    """Turn msgspec's ``$.keys[0]`` into a JSON Pointer, and leave its explanation."""
    if len(text) > _MAX_FAULT:
        text = f"{text[:_MAX_FAULT]}...`"
    match = _PLACE.fullmatch(text)
    detail, place = (text, "") if match is None else (match[1], match[2])
    steps = [step[1] if step[1] is not None else step[2] for step in _STEP.finditer(place)]
    member = _MEMBER.search(detail)
    if member is not None:
        steps.append(member[1])
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps), detail


def _accepts(accept: str, served: tuple[str, ...]) -> bool:
    """Whether a header takes one of the types; the most specific range that fits a type decides."""
    weights: dict[str, bool] = {}
    for part in accept.split(","):
        media_range, _, parameters = part.partition(";")
        weights[media_range.strip().lower()] = _NO_WEIGHT.search(";" + parameters) is None
    return any(
        next((weights[fit] for fit in (kind, kind.partition("/")[0] + "/*", "*/*") if fit in weights), False)
        for kind in served
    )
