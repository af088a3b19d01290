"""Parses the head of a request strictly by RFC 9112, within limits.

Request smuggling needs two parsers that disagree about where a request ends. So a head must match an unambiguous
grammar, and llhttp must then parse it to the same result, unless it is known to. The grammar is stricter: no bare CR or
LF, no folded or nameless field, single spaces in the request line, exactly one ``Host``, and one length, given once.
Only the probes of load balancers that speak HTTP/1.0 may leave ``Host`` out: it protects browsers, which send it.

The caller finds the end of the head: the first empty line.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final

import httptools

from purgatory_async.durable.documents import problems
from purgatory_async.service.contract import http_problems
from purgatory_async.service.contract.header_fields import Field, Fields, Head, Profile

MAX_LINE: Final = 8192  # bytes of the request line, without its CRLF
MAX_FIELDS: Final = 64
MAX_FIELD_BYTES: Final = 16_384  # of all fields, with their CRLFs
# The profiles that are remembered: how many, and how long each may be in bytes.
REMEMBERED: Final = 256
REMEMBERED_BYTES: Final = 1024
END: Final = b"\r\n\r\n"
PROBED: Final = frozenset({b"/healthz", b"/readyz"})  # paths that HTTP/1.0 may ask for without Host

Window = bytes | bytearray

# Possessive quantifiers throughout: each pattern reads a byte at most twice, whatever the input.
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_FIELDS: Final = rb"(?:" + _TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n)*+"
# A head is a line up to its version, and all from there on, which clients repeat.
_LINE: Final = re.compile(
    rb"(?:\r\n)?"  # some clients send an extra CRLF after a body
    rb"([A-Z-]{1,32}+) ([!\"$-~]++) HTTP/"
)
# The same, from the method to a path and a query.
_USUAL: Final = re.compile(rb"([A-Z-]{1,32}+) (/[!\"$->@-~]*+)(?:\?([!\"$-~]*+))?+ HTTP/")
_REST: Final = re.compile(rb"1\.[01]\r\n" + _FIELDS)
_BLOCK: Final = re.compile(_FIELDS)
_FIELD: Final = re.compile(rb"([^:]++):([^\r]*+)\r\n")  # within a match of `_REST`
_SPACE: Final = b" \t"
_NEVER: Final = re.compile(rb"(?<!\r)\n|\r(?=[^\n])|[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]++|\[[0-9A-Fa-f:.]++\])(?::[0-9]{0,5}+)?")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}+")
# With these and a path, llhttp takes each line that the grammar takes, to the same target: it is not asked again
# (test_head.py asks it ten million times).
_METHODS: Final = frozenset({b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PATCH", b"POST", b"PUT"})
_ABSOLUTE: Final = re.compile(rb"https?://([^/?]*+)(.*)", re.IGNORECASE)
_UPGRADE: Final = re.compile(rb"^upgrade(?=:)", re.IGNORECASE | re.MULTILINE)
_DECLINED: Final = b"declined"
_FOLDED: Final = re.compile(rb"\n[ \t]")
_SPACED: Final = re.compile(rb"\n[^:\r\n]*+(?<=[ \t]):")
_VERSION: Final = re.compile(rb"HTTP/[0-9.]{1,8}+")
_HANDSHAKE: Final = b"\x16"  # the first byte of a TLS client hello


def check_start(window: Window, looked: int) -> None:
    """Refuse an incomplete head early, if it exceeds a limit or has a forbidden byte.

    Args:
        window: The bytes so far.
        looked: How many of them an earlier call checked; only new ones are checked for forbidden bytes, so a head
            costs O(length) however slowly it arrives, except for the search for the end of its first line.

    Raises:
        Problem: ``malformed-request``, ``target-too-long`` or ``headers-too-large``.
    """
    _check_sizes(window)
    if _NEVER.search(window, max(0, looked - 1)):
        raise _malformed(bytes(window))


class HeadReader:
    """Reads the heads of a server's requests, and remembers their profiles.

    Args:
        probed: The paths that HTTP/1.0 may ask for without ``Host``.
    """

    def __init__(self, probed: Collection[bytes] = PROBED) -> None:
        self._probed: Final = probed
        # Most clients repeat their fields, and similar clients send the same ones.
        self._remembered: Final = lru_cache(maxsize=REMEMBERED)(_read_profile)

    def __repr__(self) -> str:
        return f"<HeadReader profiles={self._remembered.cache_info().currsize}>"

    def take(self, before: bytearray | None, data: bytes) -> tuple[Head, bytes] | None:
        """Add what came to a head.

        Args:
            before: What came of it earlier, which grows; None for nothing.
            data: What came now.

        Returns:
            The head and what follows it; None until it is complete.

        Raises:
            Problem: As `read`, also before it is complete.
        """
        looked = 0
        window: Window = data
        if before is not None:
            looked = len(before)
            before += data
            window = before
        elif (match := _USUAL.match(data)) is not None:
            begin, end = match.end(), data.find(END)
            if begin < end <= MAX_LINE:
                method, path, query = match.groups(b"")
                profile = self._profile(method, data[begin : end + 2])
                if profile is not None and profile.usual:
                    return Head(profile, path, query), data[end + len(END) :]
        end = window.find(END, max(0, looked - len(END) + 1)) + len(END)
        if end >= len(END):
            return self.read(bytes(window[:end])), bytes(window[end:])
        check_start(window, looked)
        return None

    def read(self, raw: bytes) -> Head:
        """Parse a complete head, including its empty line, looking twice. O(length).

        Raises:
            Problem: ``malformed-request``, ``target-too-long`` or ``headers-too-large``.
        """
        if len(raw) > MAX_LINE:  # a shorter one exceeds no limit
            _check_sizes(raw)
        match = _LINE.match(raw)
        profile = None if match is None else self._profile(match[1], raw[match.end() : -2])
        if match is None or profile is None:
            raise _malformed(raw)
        target = match[2]
        host = profile.fields.by_name.get(b"host", (None,))[0]
        path, _, query = _origin_form(target, profile.method, host).partition(b"?")
        if host is None and not (profile.version == "1.0" and path in self._probed):
            raise http_problems.malformed_request(f"Host must be given once in HTTP/{profile.version}, got 0")
        if (parsed := _Parsed(raw).target) != target:
            shown = problems.shown(target), problems.shown(parsed)
            raise http_problems.malformed_request(
                f"the target is ambiguous: two parsers read {' and '.join(shown)}"
            )
        return Head(profile, path, query)

    def _profile(self, method: bytes, rest: bytes) -> Profile | None:
        """Return what a head says besides its target; None if it is malformed."""
        return (self._remembered if len(rest) <= REMEMBERED_BYTES else _read_profile)(method, rest)


def are_fields(block: bytes, count: int) -> bool:
    """Return whether the text is exactly that many unambiguous header fields. O(length)."""
    return block.count(b"\n") == count and _BLOCK.fullmatch(block) is not None


class _Parsed:
    """A head as parsed by llhttp, without fields."""

    def __init__(self, raw: bytes) -> None:
        self.target = b""
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass  # the service declines upgrades
        except httptools.HttpParserError as error:
            raise http_problems.malformed_request(f"the parser refuses it: {error}") from None

    def on_url(self, target: bytes) -> None:
        """Append to the request target."""
        self.target += target


class _ParsedFields(_Parsed):
    """A head as parsed by llhttp, with its fields."""

    def __init__(self, raw: bytes) -> None:
        self.fields: list[Field] = []
        self.ended = False  # whether no body follows
        super().__init__(raw)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Append a field."""
        self.fields.append((name.lower(), value.strip(_SPACE)))

    def on_message_complete(self) -> None:
        """Note that the message has no body."""
        self.ended = True


def _read_profile(method: bytes, rest: bytes) -> Profile | None:
    """Parse what a head has besides its target: the method, and all from the version on; None if it is malformed."""
    if _REST.fullmatch(rest) is None:
        return None
    version, block = rest[:3].decode(), rest[5:]
    fields = Fields((name.lower(), value.strip(_SPACE)) for name, value in _FIELD.findall(block))
    if len(fields) > MAX_FIELDS:
        raise http_problems.headers_too_large(f"header fields, got {len(fields)}", MAX_FIELDS)
    values = fields.by_name
    _check_host(values.get(b"host", ()))
    length = _body_length(values.get(b"content-length", ()), values.get(b"transfer-encoding", ()))
    # With an upgrade, llhttp does not parse the body's framing.
    parsed = _ParsedFields(b"GET / HTTP/1.1\r\n" + _UPGRADE.sub(_DECLINED, block) + b"\r\n")
    expected = [(_DECLINED if name == b"upgrade" else name, value) for name, value in fields]
    if parsed.fields != expected or parsed.ended != (length == 0):
        odd = ["the length of the body"]
        if parsed.fields != expected:
            odd = sorted({name.decode() for name, _ in {*expected} ^ {*parsed.fields}}) or ["their order"]
        raise http_problems.malformed_request(
            f"the fields are ambiguous: two parsers differ in {', '.join(odd)}"
        )
    if length is None and version == "1.0":
        raise http_problems.malformed_request("HTTP/1.0 has no chunks; send Content-Length")
    options = [
        option.strip(_SPACE).lower() for option in b",".join(values.get(b"connection", ())).split(b",")
    ]
    expects = [value.lower() for value in values.get(b"expect", ())]
    return Profile(
        method.decode(),
        version,
        fields,
        length=length,
        keep_alive=version == "1.1" and b"close" not in options,
        expects_continue=version == "1.1" and b"100-continue" in expects,
        usual=method in _METHODS and b"host" in values,
    )


def _body_length(lengths: Sequence[bytes], codings: Sequence[bytes]) -> int | None:
    """Return the body's length in bytes; None if it is chunked."""
    if lengths and codings:
        both = problems.shown(lengths[0]), problems.shown(codings[0])
        raise http_problems.malformed_request(
            f"send either Content-Length or Transfer-Encoding, got {' and '.join(both)}"
        )
    if codings:
        if [coding.lower() for coding in codings] != [b"chunked"]:
            raise http_problems.malformed_request(
                f"Transfer-Encoding must be chunked, once, got {problems.shown(b', '.join(codings))}"
            )
        return None
    if len(lengths) > 1:
        raise http_problems.malformed_request(f"Content-Length is given {len(lengths)} times; send it once")
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise http_problems.malformed_request(
            f"Content-Length must be 1 to 18 digits, got {problems.shown(lengths[0])}"
        )
    return int(lengths[0]) if lengths else 0


def _check_host(hosts: Sequence[bytes]) -> None:
    if len(hosts) > 1:
        raise http_problems.malformed_request(f"Host must be given once, got {len(hosts)}")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise http_problems.malformed_request(
            f"Host must be a name or address with an optional port, got {problems.shown(hosts[0])}"
        )


def _check_sizes(window: Window) -> None:
    """Check the limits of a head, complete or not."""
    start = 2 if window.startswith(b"\r\n") else 0
    end = window.find(b"\r\n", start, start + MAX_LINE + 2)
    if end < 0:
        if len(window) - start > MAX_LINE + 1:
            raise http_problems.target_too_long(MAX_LINE)
    # The two bytes of the empty line do not count.
    elif len(window) - end - 4 > MAX_FIELD_BYTES:
        raise http_problems.headers_too_large("bytes of header fields, got more", MAX_FIELD_BYTES)


def _origin_form(target: bytes, method: str, host: bytes | None) -> bytes:
    """Return a target's path and query; its authority, if any, must be the host's."""
    if target.startswith(b"/") or (target == b"*" and method == "OPTIONS"):
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise http_problems.malformed_request(f"the target must be a path, got {problems.shown(target)}")
    if host is None or absolute[1].lower() != host.lower():
        raise http_problems.malformed_request(
            f"the target must name the Host {problems.shown(host)}, got {problems.shown(absolute[1])}"
        )
    return absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]


def _malformed(raw: bytes) -> problems.Problem:
    """Return in which line, and why, a head does not match the grammar."""
    if raw.startswith(_HANDSHAKE):
        return http_problems.malformed_request(
            "this looks like TLS, and the port speaks plain HTTP; ask with http://, or end TLS in a proxy before it"
        )
    raw = raw.removeprefix(b"\r\n")
    position, fault = _fault(raw)
    line = raw.count(b"\n", 0, position) + 1
    return http_problems.malformed_request(f"line {line} {fault}")


def _fault(raw: bytes) -> tuple[int, str]:
    """Return a position in the first line that is at fault, and what is wrong with it."""
    if never := _NEVER.search(raw):
        return never.start(), _NAMES.get(never[0], f"has the byte 0x{never[0].hex()}")
    if folded := _FOLDED.search(raw):
        return folded.end(), "begins with white space; fold no field"
    if spaced := _SPACED.search(raw):
        return spaced.end(), "has white space before its colon"
    line, _, _ = raw.partition(b"\r\n")
    _, _, version = line.rpartition(b" ")
    if _VERSION.fullmatch(version) and version not in {b"HTTP/1.0", b"HTTP/1.1"}:
        return 0, f"must end in HTTP/1.1 or HTTP/1.0, got {problems.shown(version)}"
    if not re.fullmatch(rb"[A-Z-]{1,32}+ [!\"$-~]++ HTTP/1\.[01]", line):
        return 0, f"must be METHOD target HTTP/1.1, got {problems.shown(line)}"
    fields = _BLOCK.match(raw, len(line) + 2)
    return fields.end() if fields else 0, "is no field; send a name, a colon and a value"


_NAMES: Final = {
    b"\n": "ends in LF; end it with CRLF",
    b"\r": "has a CR without LF",
}
