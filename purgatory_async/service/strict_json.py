"""JSON as RFC 8259 has it and nothing more: every reader of these bytes sees the same value.

msgspec's decoder already refuses NaN, byte-order marks, bad UTF-8, lone surrogates and numbers beyond a
double. It takes the last of two equal members and any depth up to the interpreter's stack, so these, and
integers beyond 64 bits, are found on the text around the strings, in a few passes of C over bytes: depth by
deleting the innermost brackets level by level, doubled members by counting colons before and after a round trip.

>>> decode(b'{"keys": ["a"]}')
{'keys': ['a']}
>>> decode(b'{"a": 1, "a": 2}')
Traceback (most recent call last):
    ...
ValueError: the body is not strict JSON: an object has the same member twice (1 of 2 members are repetitions)
"""

import re
from typing import Final

import msgspec

MAX_DEPTH: Final = 32
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1

_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_NOT_A_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
# Nineteen digits or more that are an integer by themselves, not the fraction or exponent of a float.
_LONG_INTEGER: Final = re.compile(rb"(?<![0-9.eE+-])-?[0-9]{19,}(?![0-9.eE])")


def decode(body: bytes) -> object:
    """Decode one JSON document.

    O(len(body)), without recursion in Python.

    Args:
        body: The whole document.

    Returns:
        None, bool, int, float, str, list or dict.

    Raises:
        ValueError: The body is not strict JSON; the message says what is wrong with it.
    """
    outside = _outside_strings(body)
    # Before decoding: the decoder recurses, and a megabyte of brackets costs it a tenth of a second.
    if _deeper_than(MAX_DEPTH, outside):
        raise _refused(f"nested deeper than {MAX_DEPTH} levels, or its brackets do not match")
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(_reason(body, error)) from None
    for match in _LONG_INTEGER.finditer(outside):
        if not MIN_INTEGER <= int(match[0]) <= MAX_INTEGER:
            raise _refused(f"an integer must fit 64 bits, got one of {len(match[0])} characters")
    members = outside.count(b":")
    doubled = members and members - _outside_strings(msgspec.json.encode(value)).count(b":")
    if doubled:
        raise _refused(
            f"an object has the same member twice ({doubled} of {members} members are repetitions)"
        )
    return value


def _outside_strings(body: bytes) -> bytes:
    """Cut the strings out of a JSON text: every second piece between quotes, once escapes are gone."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(unescaped.split(b'"')[::2])


def _deeper_than(limit: int, outside: bytes) -> bool:
    brackets = outside.translate(_SQUARE, _NOT_A_BRACKET)
    for _ in range(limit):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _reason(body: bytes, error: Exception) -> str:
    if body.startswith(b"\xef\xbb\xbf"):
        return "it starts with a byte-order mark"
    if isinstance(error, UnicodeDecodeError):
        return f"its strings are not UTF-8 ({error.reason})"
    return str(error).removeprefix("JSON is malformed: ")


def _refused(reason: str) -> ValueError:
    return ValueError(f"the body is not strict JSON: {reason}")
