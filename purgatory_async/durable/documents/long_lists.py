"""Refuses a list that is far too long before its elements are made: each costs time."""

import re
from functools import cache
from typing import Final

import msgspec

from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.strict_json import MAX_CONTAINERS, MAX_DEPTH

_SHORT_BYTES: Final = 1 << 14  # below it the decoder says as much

_OTHER: Final = bytes(set(range(256)) - set(b'[]{},"'))
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_EMPTY: Final = re.compile(rb"\[,*+\]")


def check_list(body: bytes, name: str, most: int) -> None:
    """Check the length of a member of a body that is a list. O(length), without making its elements.

    Args:
        body: Any bytes; other JSON, or none, passes here and is refused elsewhere.
        name: The name of the member.
        most: Elements allowed.

    Raises:
        Problem: ``invalid``, in the decoder's words.
    """
    if len(body) < _SHORT_BYTES:
        return
    try:
        array = bytes(getattr(_decoder(name).decode(body), name))
    except (msgspec.DecodeError, RecursionError):
        return
    if array.startswith(b"[") and _has_more(array, most):
        raise problems.invalid(f"/{name}", f"Expected `array` of length <= {most}")


@cache
def _decoder(name: str) -> msgspec.json.Decoder[msgspec.Struct]:
    kind = msgspec.defstruct("Listing", [(name, msgspec.Raw, msgspec.Raw(b""))])
    return msgspec.json.Decoder(kind)


def _has_more(array: bytes, most: int) -> bool:
    """Whether a well-formed array has more elements. O(length)."""
    if array.count(b",") < most:
        return False
    plain = array.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in array else array
    marks = plain.translate(_SQUARE, _OTHER).replace(b'""', b"")
    # Outside strings only brackets and commas are left; arrays within vanish from the inside out.
    commas = b"".join(marks.split(b'"')[::2])[1:-1]
    if commas.count(b"[") > MAX_CONTAINERS:
        return False  # which the check of the whole body refuses
    for _ in range(MAX_DEPTH):
        if b"[" not in commas:
            return len(commas) >= most
        commas = _EMPTY.sub(b"", commas)
    return False  # nested too deep
