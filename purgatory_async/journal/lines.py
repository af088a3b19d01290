r"""JSON lines to records and back; what cannot be read is damage with a place and a reason, never an exception.

Bytes after the last newline are torn: a writer was killed, or is just writing. They are neither record nor damage.

A line written here ends with a checksum of what precedes it, ``,"crc":"0a1b2c3d"}``, so that a flipped bit makes damage
and never another record; so does one cut short. It is no field of the schema: a line without one is as good.

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
    """A line that is no record.

    Attributes:
        offset: Of its first byte in the file.
        reason: What is wrong with it.
    """

    offset: int
    reason: str


def encode_record(record: Record, into: bytearray) -> None:
    """Append a record's line to a buffer. O(its length)."""
    line = _ENCODER.encode(record)[:-1]
    into += b'%b,"crc":"%08x"}\n' % (line, crc32(line))


def whole_length(data: bytes) -> int:
    """How many of the bytes are whole lines; what follows is torn."""
    return data.rfind(b"\n") + 1


def read_lines(data: bytes, offset: int = 0) -> Iterator[Record | Damage]:
    """Read the whole lines in a piece of a segment.

    Args:
        data: Starts with a line; what follows its last newline is left out.
        offset: Of its first byte in the file, for `Damage`.

    Yields:
        A record or its damage for each line, in order.
    """
    begin = 0
    while (end := data.find(b"\n", begin)) >= 0:
        yield _read(data[begin:end], offset + begin)
        begin = end + 1


def _read(line: bytes, offset: int) -> Record | Damage:
    try:
        if not line.isascii():
            line.decode()  # the decoder looks only at what it needs
        record = _DECODER.decode(line)
    except UnicodeDecodeError as error:
        return Damage(offset, f"not UTF-8: {error.reason} at byte {error.start} of the line")
    except (msgspec.MsgspecError, RecursionError) as error:
        return Damage(offset, str(error) if line else "an empty line")
    body, mark, written = line.rpartition(_CHECKSUM)  # in a string its quotes would be escaped
    if mark and written != b'"%08x"}' % (checksum := crc32(body)):
        return Damage(
            offset, f'its checksum must be "{checksum:08x}", got {written[:20].decode(errors="replace")}'
        )
    return record
