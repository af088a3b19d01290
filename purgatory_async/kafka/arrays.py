"""Checks the arrays of a request before kio reads it.

kio reserves memory for as many entries as an array's length says: one length of 2^31-1 ends the process. It also reads
a null array where the protocol has none. A checker is made once per version from kio's schema; it steps over fields
and looks only at the arrays.
"""

from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from struct import Struct, calcsize
from types import NoneType
from typing import Any, Final, get_args, get_origin

from kio.static.protocol import Entity

from purgatory_async.kafka.frames import Frame
from purgatory_async.kafka.writers import NUMBERS, present

__all__ = ["MAX_ENTRIES", "check_arrays"]

MAX_ENTRIES: Final = 1 << 12
"""Of all arrays of one request: no request with as many stops the loop for 50 ms."""

_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i").unpack_from
_UUID_BYTES: Final = 16
_MAX_VARINT_BITS: Final = 35
_MORE: Final = 0x80  # set in each byte of a variable-length integer but the last


class _Cursor:
    """A position in a frame, and the entries met so far."""

    __slots__ = ("at", "entries", "frame")

    def __init__(self, frame: Frame, at: int) -> None:
        self.frame = frame
        self.at = at
        self.entries = 0


_Step = Callable[[_Cursor], None]


def check_arrays(entity: type[Entity], frame: Frame, at: int) -> int:
    """Check the arrays of an entity that stands at a position of a frame. O(fields).

    Returns:
        The position after the entity; beyond the frame if its last field is cut.

    Raises:
        ValueError: An array is null and may not be, has more entries than the frame has bytes left, or there are more
            than `MAX_ENTRIES`.
        IndexError: The frame is too short.
        struct.error: The frame ends within a number.
    """
    cursor = _Cursor(frame, at)
    for step in _steps(entity):
        step(cursor)
    return cursor.at


@cache
def _steps(entity: type[Entity]) -> tuple[_Step, ...]:
    """How to step over an entity: neighbouring fields of fixed size at once."""
    steps: list[_Step] = []
    fixed_bytes = 0
    for member in fields(entity):
        if "tag" in member.metadata:
            continue  # no tagged field of a request has an array; they are stepped over by their sizes
        size_bytes = _fixed_bytes(member)
        fixed_bytes += size_bytes
        if not size_bytes:
            if fixed_bytes:
                steps.append(_skip(fixed_bytes))
                fixed_bytes = 0
            steps.append(_step(member, compact=entity.__flexible__))
    if fixed_bytes:
        steps.append(_skip(fixed_bytes))
    return (*steps, _tags) if entity.__flexible__ else tuple(steps)


def _fixed_bytes(member: Field[Any]) -> int:
    """The size of a field that always has the same; 0 for any other."""
    if get_origin(present(member.type)) is tuple:
        return 0
    return _kind_bytes(member.metadata.get("kafka_type", ""))


def _kind_bytes(kind: str) -> int:
    return _UUID_BYTES if kind == "uuid" else calcsize(">" + NUMBERS.get(kind, ""))


def _step(member: Field[Any], *, compact: bool) -> _Step:
    kind, wanted = member.metadata.get("kafka_type"), present(member.type)
    nullable = NoneType in get_args(member.type)
    if get_origin(wanted) is not tuple:
        return (
            _structure(_steps(wanted), nullable=nullable) if kind is None else _bytes(kind, compact=compact)
        )
    if kind is None:
        entry = _steps(get_args(wanted)[0])
    else:
        size_bytes = _kind_bytes(kind)
        entry = (_skip(size_bytes) if size_bytes else _bytes(kind, compact=compact),)
    return _array(member.name, entry, compact=compact, nullable=nullable)


def _structure(members: tuple[_Step, ...], *, nullable: bool) -> _Step:
    def step(cursor: _Cursor) -> None:
        """Step over a structure; one that may be null has a byte before it, which is negative for null."""
        if nullable:
            cursor.at += 1
            if cursor.frame[cursor.at - 1] >= _MORE:
                return
        for one in members:
            one(cursor)

    return step


def _array(name: str, entry: tuple[_Step, ...], *, compact: bool, nullable: bool) -> _Step:
    least = -1 if nullable else 0  # -1 stands for null

    def step(cursor: _Cursor) -> None:
        """Check the length, and step over the entries."""
        length = _varint(cursor) - 1 if compact else _int32(cursor)
        left = len(cursor.frame) - cursor.at
        if not least <= length <= left:
            raise ValueError(f"{name} must have {least} to {left} entries, got {length}")
        cursor.entries += max(0, length)
        if cursor.entries > MAX_ENTRIES:
            raise ValueError(
                f"a request must have at most {MAX_ENTRIES} entries, got {cursor.entries} up to {name}; "
                "send several requests"
            )
        for _ in range(length):
            for one in entry:
                one(cursor)

    return step


def _skip(size_bytes: int) -> _Step:
    def step(cursor: _Cursor) -> None:
        """Step over fields of fixed size."""
        cursor.at += size_bytes

    return step


def _bytes(kind: str | None, *, compact: bool) -> _Step:
    """Step over a string or bytes: a length, and as many bytes."""
    if compact:
        return _compact_bytes
    return _short_bytes if kind == "string" else _long_bytes


def _compact_bytes(cursor: _Cursor) -> None:
    length = _varint(cursor)
    cursor.at += max(0, length - 1)


def _short_bytes(cursor: _Cursor) -> None:
    (length,) = _INT16(cursor.frame, cursor.at)
    cursor.at += 2 + max(0, length)


def _long_bytes(cursor: _Cursor) -> None:
    length = _int32(cursor)
    cursor.at += max(0, length)


def _tags(cursor: _Cursor) -> None:
    """Step over tagged fields: a tag, a size, and as many bytes each."""
    for _ in range(_varint(cursor)):
        _varint(cursor)
        size_bytes = _varint(cursor)
        cursor.at += size_bytes


def _int32(cursor: _Cursor) -> int:
    value: int
    (value,) = _INT32(cursor.frame, cursor.at)
    cursor.at += 4
    return value


def _varint(cursor: _Cursor) -> int:
    byte = cursor.frame[cursor.at]
    cursor.at += 1
    if byte < _MORE:
        return byte
    value, shift = byte & ~_MORE, 7
    while byte >= _MORE:
        if shift >= _MAX_VARINT_BITS:
            raise ValueError(f"a variable-length integer must have at most {_MAX_VARINT_BITS} bits, got more")
        byte = cursor.frame[cursor.at]
        cursor.at += 1
        value |= (byte & ~_MORE) << shift
        shift += 7
    return value
