"""Open compressed records, up to a bound: a kilobyte may open to gigabytes."""

import zlib
from collections.abc import Callable
from mmap import mmap
from struct import Struct, error
from types import ModuleType
from typing import Final

from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.segments import Bytes

__all__ = ["CODECS", "MAX_OPENED_BYTES", "decompress"]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the number in a batch's attributes."""

MAX_OPENED_BYTES: Final = 64 << 20
"""Of one batch's records; producers compress some megabytes at most."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_STEP_BYTES: Final = 1 << 18  # zlib keeps the interpreter's lock while it joins what it has opened
_BLOCKS_MARK: Final = b"\x82SNAPPY\0"  # Java's snappy writes blocks with lengths; librdkafka writes one, bare
_BLOCKS_AT: Final = 16
_LENGTH: Final = Struct(">i")


def decompress(codec: int, data: Bytes, max_bytes: int = MAX_OPENED_BYTES) -> memoryview:
    """Return what was compressed. O(bytes); other threads run meanwhile.

    Args:
        codec: Place in `CODECS`.
        data: Compressed records.
        max_bytes: The most bytes of what they open to.

    Raises:
        ProtocolError: invalid_record if they are damaged or open to more, unsupported_compression_type if there is no
            such codec, or it needs cramjam, which is not installed.
    """
    if not codec:
        return memoryview(data)
    if codec >= len(CODECS):
        raise ProtocolError(
            ErrorCode.unsupported_compression_type, f"codec must be 0 to {len(CODECS) - 1}, got {codec}"
        )
    name = CODECS[codec]
    opened = memoryview(mmap(-1, max_bytes))  # memory is taken as it is written
    damage: tuple[type[Exception], ...] = (EOFError, ValueError, error, zlib.error)
    try:
        if name == "gzip":
            size = _gzip(data, opened)
        else:
            cramjam = _cramjam(name)
            damage += (cramjam.DecompressionError,)
            codec_of = getattr(cramjam, name)
            if name == "snappy":
                size = _snappy(codec_of.decompress_raw_into, data, opened)
            else:
                size = codec_of.decompress_into(data, opened)
    except damage as cause:
        raise ProtocolError(
            ErrorCode.invalid_record,
            f"records compressed with {name} must be whole and open to at most {max_bytes} bytes, "
            f"got {len(data)} bytes: {cause}",
        ) from cause
    return opened[:size]


def _gzip(data: Bytes, opened: memoryview) -> int:
    size, packed = 0, data
    unpacker = zlib.decompressobj(_GZIP)
    while not unpacker.eof:
        step = unpacker.decompress(packed, _STEP_BYTES)
        if not step and not unpacker.eof:
            raise EOFError(f"the end is missing after {size} bytes opened")
        opened[size : size + len(step)] = step
        size += len(step)
        packed = unpacker.unconsumed_tail
    return size


def _snappy(open_block: Callable[[Bytes, memoryview], int], data: Bytes, opened: memoryview) -> int:
    if data[: len(_BLOCKS_MARK)] != _BLOCKS_MARK:
        return open_block(data, opened)
    size, at = 0, _BLOCKS_AT
    while at < len(data):
        at += _LENGTH.size
        end = at + _LENGTH.unpack_from(data, at - _LENGTH.size)[0]
        if not at <= end <= len(data):
            raise EOFError(f"a block must end at {at} to {len(data)}, got {end}")
        size += open_block(data[at:end], opened[size:])
        at = end
    return size


def _cramjam(name: str) -> ModuleType:
    try:
        import cramjam  # noqa: PLC0415 - it takes 10 ms, and most brokers open no batch
    except ModuleNotFoundError:
        raise ProtocolError(
            ErrorCode.unsupported_compression_type,
            f"records compressed with {name} cannot be opened without cramjam; run: pip install cramjam",
        ) from None
    return cramjam
