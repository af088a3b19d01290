"""Open compressed batches for tests; the broker itself never does."""

import gzip
from struct import Struct
from types import ModuleType
from typing import Final

__all__ = ["CODECS", "decompress"]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the number in a batch's attributes."""

_BLOCKS_MARK: Final = (
    b"\x82SNAPPY\0"  # Java's snappy writes blocks with their lengths; librdkafka writes one, bare
)
_BLOCKS_AT: Final = 16
_LENGTH: Final = Struct(">i")


def decompress(codec: int, data: bytes) -> bytes:
    """Return what was compressed. O(bytes).

    Args:
        codec: Place in `CODECS`.
        data: Compressed records.

    Raises:
        ValueError: There is no such codec.
        ModuleNotFoundError: The codec needs cramjam, which is not installed.
    """
    name = CODECS[codec] if codec < len(CODECS) else ""
    match name:
        case "none":
            return data
        case "gzip":
            return gzip.decompress(data)
        case "lz4" | "zstd":
            return bytes(getattr(_cramjam(name), name).decompress(data))
        case "snappy":
            return _snappy(data)
        case _:
            raise ValueError(f"codec must be 0 to {len(CODECS) - 1}, got {codec}")


def _snappy(data: bytes) -> bytes:
    decompress_block = _cramjam("snappy").snappy.decompress_raw
    if not data.startswith(_BLOCKS_MARK):
        return bytes(decompress_block(data))
    blocks, at = bytearray(), _BLOCKS_AT
    while at < len(data):
        at += _LENGTH.size
        end = at + _LENGTH.unpack_from(data, at - _LENGTH.size)[0]
        blocks += decompress_block(data[at:end])
        at = end
    return bytes(blocks)


def _cramjam(name: str) -> ModuleType:
    try:
        import cramjam  # noqa: PLC0415 - only tests that read such records need it
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"records compressed with {name} cannot be read without cramjam; run: pip install cramjam",
            name="cramjam",
        ) from None
    return cramjam
