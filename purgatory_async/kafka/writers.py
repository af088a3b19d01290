"""Writers of responses, generated once per version from kio's schema of it.

kio writes a response field by field through an object; that took longer than everything else in a fetch. A generated
writer packs neighbouring numbers in one call, and takes mappings, so one answer serves every version:

    numbers, booleans, strings   as they are; an omitted one has the schema's default, or is null
    errors                       an `ErrorCode`
    durations and times          integers of milliseconds; omitted: 0 and -1
    records                      a sequence of buffers, written as one without being copied; None for null
    arrays                       sequences; structures in them are mappings
    null                         the string "" where a version has no null
    fields that a version lacks  skipped

kio's reader is the oracle of the tests.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from enum import Enum
from struct import Struct
from types import NoneType
from typing import Any, Final, get_args, get_origin
from uuid import UUID

from kio.static.protocol import Entity

__all__ = ["NUMBERS", "Buffer", "Writer", "present", "varint", "writer_of"]

Buffer = bytes | bytearray | memoryview
Writer = Callable[[Mapping[str, Any], Callable[[Buffer], None]], None]

NUMBERS: Final = {
    "bool": "?",
    "datetime_i64": "q",
    "error_code": "h",
    "float64": "d",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "int8": "b",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "uint16": "H",
    "uint32": "I",
}
"""The codes of `struct` for the types of kio's fields that are numbers."""
_OMITTED: Final = {"datetime_i64": -1, "timedelta_i32": 0, "timedelta_i64": 0}
_INT16: Final = Struct(">h").pack
_INT32: Final = Struct(">i").pack
_SMALL: Final = tuple(bytes([value]) for value in range(128))
_NO_UUID: Final = bytes(16)

_writers: dict[type[Entity], Writer] = {}


def writer_of(entity: type[Entity]) -> Writer:
    """Return the writer of an entity; the first call generates it.

    It takes the answer and a function that takes each buffer, and raises KeyError for a missing field that has no
    default. Writing is O(fields).
    """
    found = _writers.get(entity)
    if found is None:
        found = _writers[entity] = _Source(entity).compiled()
    return found


def varint(value: int) -> bytes:
    """An unsigned variable-length integer."""
    if value < len(_SMALL):
        return _SMALL[value]
    encoded = bytearray()
    while value >= len(_SMALL):
        encoded.append(0x80 | value & 0x7F)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _string(value: str | None) -> bytes:
    if value is None:
        return _INT16(-1)
    encoded = value.encode()
    return _INT16(len(encoded)) + encoded


def _compact_string(value: str | None) -> bytes:
    if value is None:
        return _SMALL[0]
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded


def _bytes(value: bytes | None) -> bytes:
    return _INT32(-1) if value is None else _INT32(len(value)) + value


def _compact_bytes(value: bytes | None) -> bytes:
    return _SMALL[0] if value is None else varint(len(value) + 1) + value


def _length(value: Sequence[object] | None) -> bytes:
    return _INT32(-1 if value is None else len(value))


def _compact_length(value: Sequence[object] | None) -> bytes:
    return varint(0 if value is None else len(value) + 1)


def _records(value: Sequence[Buffer] | None, put: Callable[[Buffer], None]) -> None:
    put(_INT32(-1 if value is None else sum(map(len, value))))
    for part in value or ():
        put(part)


def _compact_records(value: Sequence[Buffer] | None, put: Callable[[Buffer], None]) -> None:
    put(varint(0 if value is None else sum(map(len, value)) + 1))
    for part in value or ():
        put(part)


def _uuid(value: UUID | None) -> bytes:
    return _NO_UUID if value is None else value.bytes


def _tagged(tagged: list[tuple[int, list[Buffer]]], put: Callable[[Buffer], None]) -> None:
    """Write the tagged fields that were given, each with its tag and its length in bytes."""
    put(varint(len(tagged)))
    for tag, parts in tagged:
        put(varint(tag) + varint(sum(map(len, parts))))
        for part in parts:
            put(part)


def present(annotation: Any) -> Any:
    """The type of a field that is not null. O(1)."""
    parts = get_args(annotation)
    return next(part for part in parts if part is not NoneType) if NoneType in parts else annotation


class _Source:
    """A writer's source text, and the names that it uses."""

    def __init__(self, entity: type[Entity]) -> None:
        self._entity = entity
        self._compact = "_compact" if entity.__flexible__ else ""
        self._lines = ["def write(v, put):"]
        self._names: dict[str, Any] = {
            function.__name__: function
            for function in (
                *(_string, _compact_string, _bytes, _compact_bytes, _length, _compact_length),
                *(_records, _compact_records, _uuid, _tagged),
            )
        }
        self._numbers: list[tuple[str, str]] = []  # neighbours not written yet: format, expression

    def compiled(self) -> Writer:
        """Generate the function."""
        members = fields(self._entity)
        for member in members:
            if "tag" not in member.metadata:
                self._field(member, self._value(member), "put", "    ")
        self._pack("put", "    ")
        if self._entity.__flexible__:
            tagged = [member for member in members if "tag" in member.metadata]
            self._lines.append("    tagged = []" if tagged else "    put(b'\\0')")
            for member in sorted(tagged, key=lambda member: int(member.metadata["tag"])):
                self._tagged_field(member)
            if tagged:
                self._lines.append("    _tagged(tagged, put)")
        # As dataclasses does; the names come from kio's schema, never from a request.
        exec("\n".join(self._lines), self._names)  # noqa: S102
        write: Writer = self._names["write"]
        return write

    def _tagged_field(self, member: Field[Any]) -> None:
        self._lines.append(f"    if {member.name!r} in v:")
        self._lines.append("        parts = []")
        self._field(member, f"v[{member.name!r}]", "parts.append", "        ")
        self._pack("parts.append", "        ")
        self._lines.append(f"        tagged.append(({int(member.metadata['tag'])}, parts))")

    def _field(self, member: Field[Any], value: str, put: str, indent: str) -> None:
        kind = member.metadata.get("kafka_type")
        if get_origin(present(member.type)) is tuple:
            self._array(member, value, put, indent)
        elif kind in NUMBERS:
            self._numbers.append((NUMBERS[kind], value))
        else:
            self._pack(put, indent)
            if kind is None:
                if NoneType in get_args(member.type):
                    self._lines.append(f"{indent}{put}(b'\\xff' if {value} is None else b'\\1')")
                    self._lines.append(f"{indent}if {value} is not None:")
                    indent += "    "
                self._lines.append(f"{indent}{self._nested(present(member.type))}({value}, {put})")
            elif kind == "records":
                self._lines.append(f"{indent}{self._compact}_records({value}, {put})")
            else:
                if kind == "string" and NoneType not in get_args(member.type):
                    value += " or ''"
                self._lines.append(f"{indent}{put}({self._encoder(kind)}({value}))")

    def _array(self, member: Field[Any], value: str, put: str, indent: str) -> None:
        self._pack(put, indent)
        kind = member.metadata.get("kafka_type")
        self._lines.append(f"{indent}items = {value}")
        self._lines.append(f"{indent}{put}({self._compact}_length(items))")
        self._lines.append(f"{indent}for item in items or ():")
        if kind is None:
            item = get_args(present(member.type))[0]
            self._lines.append(f"{indent}    {self._nested(item)}(item, {put})")
        elif kind in NUMBERS:
            self._numbers.append((NUMBERS[kind], "item"))
            self._pack(put, indent + "    ")
        else:
            self._lines.append(f"{indent}    {put}({self._encoder(kind)}(item))")

    def _encoder(self, kind: str) -> str:
        return "_uuid" if kind == "uuid" else f"{self._compact}_{kind}"

    def _nested(self, entity: Any) -> str:
        name = f"_write_{entity.__name__}"
        self._names[name] = writer_of(entity)
        return name

    def _pack(self, put: str, indent: str) -> None:
        """Write the numbers gathered so far with one call."""
        if self._numbers:
            name = f"_pack_{len(self._names)}"
            self._names[name] = Struct(">" + "".join(code for code, _ in self._numbers)).pack
            values = ", ".join(expression for _, expression in self._numbers)
            self._lines.append(f"{indent}{put}({name}({values}))")
            self._numbers.clear()

    def _value(self, member: Field[Any]) -> str:
        kind = member.metadata.get("kafka_type", "")
        default = _OMITTED.get(kind, member.default)
        if default is MISSING and (kind == "uuid" or NoneType in get_args(member.type)):
            default = None
        if default is MISSING:
            return f"v[{member.name!r}]"
        if isinstance(default, Enum):
            default = default.value
        name = f"_default_{member.name}"
        self._names[name] = default
        return f"v.get({member.name!r}, {name})"
