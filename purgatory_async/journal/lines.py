r"""JSON lines to records and back; an unreadable line is damage with an offset and a reason, never an exception.

Bytes after the last newline are torn: the writer was killed or is still writing. They are neither record nor damage.

Each written line ends with a checksum of what precedes it, ``,"crc":"0a1b2c3d"}``: a flipped bit or a checksum cut
short is damage, never another record. The checksum is not a field of the schema; a line without one is valid.

>>> line = b'{"kind":"signal","schema_version":1,"run_id":"r","node":"n","seq":1,"wall_ns":0,"mono_ns":0'
>>> list(read_lines(line + b',"key":"door","n":1}\n' + line + b',"key"'))
[Signal(key='door', n=1, schema_version=1, run_id='r', node='n', seq=1, wall_ns=0, mono_ns=0)]
>>> list(read_lines(line + b'}\n'))
[Damage(offset=0, reason='Object missing required field `key`')]
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import msgspec

from purgatory_async.journal.schema import Record

__all__ = ["Damage", "encode_record", "read_lines", "whole_length"]

_DECODER: Final[msgspec.json.Decoder[Record]] = msgspec.json.Decoder(Record)
_ENCODER: Final = msgspec.json.Encoder()
_CHECKSUM: Final = b',"crc":'


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that is not a record; ``offset`` is where it begins in the file."""

    offset: int
    reason: str


def encode_record(record: Record, into: bytearray) -> None:
    """Append a record's line to a buffer. O(its length)."""
    line = _ENCODER.encode(record)[:-1]
    into += b'%b,"crc":"%08x"}\n' % (line, crc32(line))


def whole_length(data: bytes) -> int:
    """The length of the whole lines in ``data``; the rest is torn."""
    return data.rfind(b"\n") + 1


def read_lines(data: bytes, offset: int = 0) -> Iterator[Record | Damage]:
    """Decode the whole lines in a piece of a segment, in order.

    Args:
        data: Starts at the start of a line; what follows its last newline is ignored.
        offset: The offset of its first byte in the file, for `Damage`.
    """
    begin = 0
    while (end := data.find(b"\n", begin)) >= 0:
        yield _read(data[begin:end], offset + begin)
        begin = end + 1


def _read(line: bytes, offset: int) -> Record | Damage:
    try:
        if not line.isascii():
            line.decode()  # the JSON decoder skips what it does not need, so it misses bad UTF-8
        record = _DECODER.decode(line)
    except UnicodeDecodeError as error:
        return Damage(offset, f"not UTF-8: {error.reason} at byte {error.start} of the line")
    except (msgspec.MsgspecError, RecursionError) as error:
        return Damage(offset, str(error) if line else "an empty line")
    body, mark, written = line.rpartition(_CHECKSUM)  # inside a JSON string its quotes would be escaped
    if mark and written != b'"%08x"}' % (checksum := crc32(body)):
        return Damage(
            offset, f'its checksum must be "{checksum:08x}", got {written[:20].decode(errors="replace")}'
        )
    return record
