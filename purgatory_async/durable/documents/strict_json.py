"""Strict JSON by RFC 8259: every reader of a checked body sees the same value.

msgspec's decoder refuses NaN, byte-order marks, bad UTF-8 and lone surrogates. This module also refuses deep nesting,
integers beyond 64 bits and repeated members.

The check runs on the event loop, so its worst case counts (tests/service/api/test_body_cost.py). msgspec needs 10 us
for some floats of 20 digits, so it parses none here. Each array, object or float costs at least 0.2 us, so their
number is limited.
"""

import json
import re
from collections import Counter
from decimal import ROUND_UP, Context
from math import isinf
from typing import Final

import msgspec

from purgatory_async.durable.documents.byte_order import bom_fault
from purgatory_async.durable.documents.problems import shown

MAX_DEPTH: Final = 32
MAX_CONTAINERS: Final = 1 << 15  # arrays and objects
MAX_FLOATS: Final = 1 << 16  # numbers with a fraction or an exponent
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1

_OTHER: Final = bytes(set(range(256)) - set(b'[]{}"'))
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
# The shape of numbers: 0 for a digit, a point for the marks of a float, a comma for the rest.
_SHAPE: Final = bytes(48 if byte in b"0123456789" else 46 if byte in b".eE" else 44 for byte in range(256))
_LONG: Final = b"0" * 19
_LONG_INTEGER: Final = re.compile(b"," + _LONG + rb"0*+(?!\.)")
# Longer floats are rounded away from zero to these digits: `float` needs 30 us for some of 700 digits.
_FLOAT_DIGITS: Final = 40
_ROUGH: Final = Context(prec=_FLOAT_DIGITS, rounding=ROUND_UP, traps=[])


_SPACE: Final = rb"[ \t\r\n]*+"
_PLAIN_VALUE: Final = rb"(?:\"[ !#-\[\]-~]*+\"|-?+(?:0|[1-9][0-9]{0,17}+)(?![0-9.eE])|true|false|null)"
_PLAIN_LIST: Final = rb"\[S(?:VS(?:,SVS)*+)?+\]".replace(b"V", _PLAIN_VALUE)
_PLAIN_MEMBER: Final = rb"\"[a-z_]++\"S:S(?:V|L)S".replace(b"V", _PLAIN_VALUE).replace(b"L", _PLAIN_LIST)
# An object of values and lists of them, in printable ASCII without escapes, as most bodies are. A text before a colon
# is always the name of a member, since no other text is followed by one.
_PLAIN: Final = re.compile(rb"S\{S(?:M(?:,SM)*+)?+\}S".replace(b"M", _PLAIN_MEMBER).replace(b"S", _SPACE))
_PLAIN_NAME: Final = re.compile(rb"\"([a-z_]++)\"[ \t\r\n]*+:")


def check(body: bytes) -> None:
    """Check that a body is one document of strict JSON. O(length), without recursion in Python.

    Raises:
        ValueError: The body is not strict JSON; the message says why.
    """
    if not _is_plain(body):
        check_all(body)


def _is_plain(body: bytes) -> bool:
    """Whether a body is strict JSON that is seen to be so at a glance. O(length)."""
    if _PLAIN.fullmatch(body) is None:
        return False
    if body.count(b":") <= 1:
        return True
    names = _PLAIN_NAME.findall(body)
    return len(names) == len(set(names))


def check_all(body: bytes) -> None:
    """Check as `check`, without a look for the usual forms."""
    if (fault := bom_fault(body)) is not None:
        raise _refused(f"it {fault}")
    plain = _unescaped(body)
    # Before the decoder, which recurses and builds every list and integer.
    _check_nesting(plain)
    _check_integers(plain)
    floats: list[str] = []
    try:
        value: object = msgspec.json.Decoder(float_hook=floats.append).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(_reason(error)) from None
    if floats:
        _check_floats(floats)
    # The decoder drops repeated members, so the re-encoded text has fewer strings.
    if plain.count(b'"') != _unescaped(msgspec.json.encode(value)).count(b'"'):
        raise _refused(f"an object has the member {shown(_repeated(body))} twice")


def _check_nesting(plain: bytes) -> None:
    # Removing two adjacent quotes leaves every bracket as far inside or outside strings as before.
    marks = plain.translate(_SQUARE, _OTHER).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])
    if len(brackets) > 2 * MAX_CONTAINERS:
        raise _refused(f"it has more than {MAX_CONTAINERS} arrays and objects")
    for _ in range(MAX_DEPTH):
        if not brackets:
            return
        brackets = brackets.replace(b"[]", b"")
    if brackets:
        raise _refused(f"nested deeper than {MAX_DEPTH} levels, or its brackets do not match")


def _check_integers(plain: bytes) -> None:
    if _LONG not in plain.translate(_SHAPE):
        return
    # A minus starts a number, except in an exponent.
    text = b"," + plain.lower().replace(b"e-", b"e")
    quotes = counted = 0
    for match in _LONG_INTEGER.finditer(text.translate(_SHAPE)):
        begin, end = match.span()
        negative = text[begin] == ord("-")
        if end - begin > len(_LONG) + 1 or int(text[begin + 1 : end]) > MAX_INTEGER + negative:
            quotes += text.count(b'"', counted, begin + 1)
            counted = begin + 1
            if quotes % 2 == 0:  # outside strings
                raise _refused(f"an integer must fit 64 bits, got one of {end - begin - 1} digits")


def _check_floats(literals: list[str]) -> None:
    if len(literals) > MAX_FLOATS:
        raise _refused(f"it has more than {MAX_FLOATS} numbers with a fraction or an exponent")
    if max(map(len, literals)) > _FLOAT_DIGITS:
        short = [literal for literal in literals if len(literal) <= _FLOAT_DIGITS]
        long = [literal for literal in literals if len(literal) > _FLOAT_DIGITS]
        literals = [*short, *map(str, map(_ROUGH.create_decimal, long))]
    if large := next((literal for literal in literals if isinf(float(literal))), None):
        raise _refused(f"a number must fit a double, got {large}")


def _repeated(body: bytes) -> str:
    """Return the name of a member that an object has twice."""
    found: list[str] = []

    def _look(pairs: list[tuple[str, object]]) -> None:
        if len(pairs) != len(dict(pairs)):
            found.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)

    json.loads(body, object_pairs_hook=_look, parse_int=len, parse_float=len)
    return found[0]


def _unescaped(text: bytes) -> bytes:
    """Remove escaped quotes and backslashes, so that each quote delimits a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"its strings are not UTF-8 ({error.reason})"
    return str(error).removeprefix("JSON is malformed: ")


def _refused(reason: str) -> ValueError:
    return ValueError(f"the body is not strict JSON: {reason}")
