"""Reads the head of a request: within its limits, by the letter of RFC 9112, or not at all.

Two readers that disagree about where a request ends are how one request is smuggled inside another. So a head is
first held against a grammar that leaves nothing to interpret, and only then parsed by llhttp, which must come to
the same result; what the grammar does not know, or what llhttp does not, is refused. The grammar is the stricter
of the two: no bare CR or LF, no folded or nameless field, one space where one belongs, exactly one ``Host``, and
a length that is said once, in one way.

Whether the head is complete is for the caller to see: it ends with the first empty line.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

import httptools

from purgatory_async.service import problems

MAX_LINE: Final = 8192  # bytes of the request line, without its CRLF
MAX_FIELDS: Final = 64
MAX_FIELD_BYTES: Final = 16_384  # of all fields, with their CRLFs
# Fields that are kept for the next head with the same ones, and how long they may be altogether.
REMEMBERED: Final = 256
REMEMBERED_BYTES: Final = 1024
END: Final = b"\r\n\r\n"

Field = tuple[bytes, bytes]
Window = bytes | bytearray

# Possessive throughout: each of these looks at a byte once or twice, whatever it is given.
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_FIELDS: Final = rb"(?:" + _TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n)*+"
_HEAD: Final = re.compile(
    rb"(?:\r\n)?"  # some clients end a body with one CRLF too many
    rb"([A-Z-]{1,32}+) ([!\"$-~]++) HTTP/(1\.[01])\r\n"
    rb"(" + _FIELDS + rb")\r\n"
)
_BLOCK: Final = re.compile(_FIELDS)
_FIELD: Final = re.compile(rb"([^:]++):([^\r]*+)\r\n")  # of what `_HEAD` has taken
_SPACE: Final = b" \t"
_NEVER: Final = re.compile(rb"(?<!\r)\n|\r(?=[^\n])|[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]++|\[[0-9A-Fa-f:.]++\])(?::[0-9]{0,5}+)?")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}+")
_ABSOLUTE: Final = re.compile(rb"https?://([^/?]*+)(.*)", re.IGNORECASE)
_UPGRADE: Final = re.compile(rb"^upgrade(?=:)", re.IGNORECASE | re.MULTILINE)
_DECLINED: Final = b"declined"
_FOLDED: Final = re.compile(rb"\n[ \t]")
_SPACED: Final = re.compile(rb"\n[^:\r\n]*+(?<=[ \t]):")


class Head(NamedTuple):
    """What a request's head says.

    Attributes:
        method: As it was sent.
        path: Percent-encoded, from its first slash; ``*`` for the server as a whole.
        query: Without its question mark.
        version: ``1.0`` or ``1.1``.
        fields: Names in lower case and values without the space around them, in order.
        length: Of the body in bytes; None if it comes in chunks.
        keep_alive: Whether another request may follow on the connection.
        expects_continue: Whether the client waits to be asked for the body.
    """

    method: str
    path: bytes
    query: bytes
    version: str
    fields: tuple[Field, ...]
    length: int | None
    keep_alive: bool
    expects_continue: bool


def check_start(window: Window, looked: int) -> None:
    """See whether the beginning of a head can still become one; most that cannot need not be waited for.

    Args:
        window: What has come so far, without an end.
        looked: How much of it was looked at before. Only what is new is, so a head costs O(length) however it
            trickles in, but for the search for the first line's end.

    Raises:
        Problem: ``malformed-request``, ``target-too-long`` or ``headers-too-large``.
    """
    _check_sizes(window)
    if _NEVER.search(window, max(0, looked - 1)):
        raise _malformed(bytes(window))


def read_head(raw: bytes) -> Head:
    """Read a whole head. O(length).

    Args:
        raw: Up to and with the empty line.

    Returns:
        What it says; llhttp has read the same.

    Raises:
        Problem: ``malformed-request``, ``target-too-long`` or ``headers-too-large``.
    """
    _check_sizes(raw)
    match = _HEAD.fullmatch(raw)
    if match is None:
        raise _malformed(raw)
    method, target, version, block = match.groups()
    # Most clients send the same fields with every request, and herds of clients send the same as each other.
    said = _remembered(block) if len(block) <= REMEMBERED_BYTES else _read_fields(block)
    if said.length is None and version == b"1.0":
        raise problems.malformed_request("chunks are of HTTP/1.1, and this is HTTP/1.0; send Content-Length")
    path, _, query = _origin_form(target, method, said.host).partition(b"?")
    if _Parsed(raw).target != target:
        raise problems.malformed_request("the head can be read in two ways")
    return Head(
        method=method.decode(),
        path=path,
        query=query,
        version=version.decode(),
        fields=said.fields,
        length=said.length,
        keep_alive=version == b"1.1" and not said.close,
        expects_continue=version == b"1.1" and said.expects_continue,
    )


def are_fields(block: bytes, count: int) -> bool:
    """Tell whether some text is so many header fields, however it is read. O(length)."""
    return block.count(b"\n") == count and _BLOCK.fullmatch(block) is not None


class _Parsed:
    """A head as llhttp reads it, but for the fields."""

    def __init__(self, raw: bytes) -> None:
        self.target = b""
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass  # what follows it would take for another protocol; we decline
        except httptools.HttpParserError as error:
            raise problems.malformed_request(f"the parser says: {error}") from None

    def on_url(self, target: bytes) -> None:
        """Take a piece of the request target."""
        self.target += target


class _ParsedFields(_Parsed):
    """A head as llhttp reads it, with the fields."""

    def __init__(self, raw: bytes) -> None:
        self.fields: list[Field] = []
        self.ended = False  # whether no body follows
        super().__init__(raw)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field."""
        self.fields.append((name.lower(), value.strip(_SPACE)))

    def on_message_complete(self) -> None:
        """Note that the message ends with its head."""
        self.ended = True


class _Said(NamedTuple):
    """What the fields say."""

    fields: tuple[Field, ...]
    host: bytes
    length: int | None
    close: bool
    expects_continue: bool


def _read_fields(block: bytes) -> _Said:
    """Read the fields of a head, which the grammar has taken."""
    fields = tuple((name.lower(), value.strip(_SPACE)) for name, value in _FIELD.findall(block))
    if len(fields) > MAX_FIELDS:
        raise problems.headers_too_large(f"header fields, got {len(fields)}", MAX_FIELDS)
    values: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    options = b",".join(values.get(b"connection", ())).split(b",")
    said = _Said(
        fields,
        _only_host(values.get(b"host", [])),
        _body_length(values.get(b"content-length", []), values.get(b"transfer-encoding", [])),
        b"close" in [option.strip(_SPACE).lower() for option in options],
        b"100-continue" in [value.lower() for value in values.get(b"expect", ())],
    )
    # Where it sees an upgrade, llhttp has no opinion about the body.
    parsed = _ParsedFields(b"GET / HTTP/1.1\r\n" + _UPGRADE.sub(_DECLINED, block) + b"\r\n")
    expected = [(_DECLINED if name == b"upgrade" else name, value) for name, value in fields]
    if parsed.fields != expected or parsed.ended != (said.length == 0):
        raise problems.malformed_request("the fields can be read in two ways")
    return said


_remembered: Final = lru_cache(maxsize=REMEMBERED)(_read_fields)


def _body_length(lengths: list[bytes], codings: list[bytes]) -> int | None:
    """Return the body's length in bytes; None if it comes in chunks."""
    if lengths and codings:
        raise problems.malformed_request("both Content-Length and Transfer-Encoding are given; send one")
    if codings:
        if [coding.lower() for coding in codings] != [b"chunked"]:
            raise problems.malformed_request(
                f"Transfer-Encoding must be chunked, once, got {problems.shown(b', '.join(codings))}"
            )
        return None
    if len(lengths) > 1:
        raise problems.malformed_request(f"Content-Length is given {len(lengths)} times; send it once")
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise problems.malformed_request(
            f"Content-Length must be 1 to 18 digits, got {problems.shown(lengths[0])}"
        )
    return int(lengths[0]) if lengths else 0


def _only_host(hosts: list[bytes]) -> bytes:
    if len(hosts) != 1:
        raise problems.malformed_request(f"Host must be given once, and was {len(hosts)} times")
    if not _HOST.fullmatch(hosts[0]):
        raise problems.malformed_request(
            f"Host must be a name or address and may have a port, got {problems.shown(hosts[0])}"
        )
    return hosts[0]


def _check_sizes(window: Window) -> None:
    """See that a head, whole or begun, is within its limits."""
    start = 2 if window.startswith(b"\r\n") else 0
    end = window.find(b"\r\n", start, start + MAX_LINE + 2)
    if end < 0:
        if len(window) - start > MAX_LINE + 1:
            raise problems.target_too_long(MAX_LINE)
    # The empty line is no field: its two bytes do not count.
    elif len(window) - end - 4 > MAX_FIELD_BYTES:
        raise problems.headers_too_large("bytes of header fields, got more", MAX_FIELD_BYTES)


def _origin_form(target: bytes, method: bytes, host: bytes) -> bytes:
    """Return the path and query that a target names; its authority, where it has one, must be the host's."""
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise problems.malformed_request(f"the target must be a path, got {problems.shown(target)}")
    if absolute[1].lower() != host.lower():
        raise problems.malformed_request(
            f"the target names {problems.shown(absolute[1])}, and Host {problems.shown(host)}"
        )
    return absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]


def _malformed(raw: bytes) -> problems.Problem:
    """Say why the grammar does not take a head."""
    never = _NEVER.search(raw)
    if never is not None:
        return problems.malformed_request(_NAMES.get(never[0], f"it has the byte {never[0]!r}"))
    if _FOLDED.search(raw):
        return problems.malformed_request("a line begins with white space; fold no field")
    if _SPACED.search(raw):
        return problems.malformed_request("there is white space before the colon of a field")
    line, _, _ = raw.removeprefix(b"\r\n").partition(b"\r\n")
    if not re.fullmatch(rb"[A-Z-]{1,32}+ [!\"$-~]++ HTTP/1\.[01]", line):
        return problems.malformed_request(
            f"the first line must be METHOD target HTTP/1.1, got {problems.shown(line)}"
        )
    return problems.malformed_request("a line is no field; send a name, a colon and a value")


_NAMES: Final = {
    b"\n": "a line ends in LF; end it with CRLF",
    b"\r": "there is a CR without its LF",
}
