"""Compressed records are opened up to a bound, and damaged ones are refused."""

import gzip
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.kafka.codecs import CODECS, decompress
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from tests.kafka.made_batches import COMPRESSED

PACKED = {
    name: (codec, bytes(compress(bytes(5_000)))) for name, (codec, compress) in COMPRESSED.items() if codec
}
EVERY_CODEC = pytest.mark.parametrize(("codec", "packed"), PACKED.values(), ids=PACKED)


@EVERY_CODEC
def test_records_open_to_their_bound_and_not_beyond(codec, packed):
    assert decompress(codec, packed, 5_000) == bytes(5_000)
    with pytest.raises(ProtocolError, match=f"{CODECS[codec]} .* at most 4999 bytes") as refused:
        decompress(codec, packed, 4_999)
    assert refused.value.code is ErrorCode.invalid_record


@EVERY_CODEC
@given(data=st.data())
def test_damaged_records_are_refused_or_opened_to_something(codec, packed, data):
    damaged = bytearray(packed[: data.draw(st.integers(0, len(packed)))])
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)) if damaged else ():
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        assert len(decompress(codec, damaged, 6_000)) <= 6_000
    except ProtocolError as refused:
        assert refused.code is ErrorCode.invalid_record  # noqa: PT017 - not every one is refused


@EVERY_CODEC
def test_cut_records_are_refused(codec, packed):
    with pytest.raises(ProtocolError, match="must be whole"):
        decompress(codec, packed[:-1])


@pytest.mark.parametrize("size_bytes", [0, 1 << 19])
def test_whole_steps_of_gzip_are_opened(size_bytes):
    assert decompress(1, gzip.compress(bytes(size_bytes))) == bytes(size_bytes)


def test_blocks_of_snappy_never_go_back():
    with pytest.raises(ProtocolError, match="a block must end at 20 to 20, got 16"):
        decompress(2, b"\x82SNAPPY\0" + bytes(8) + b"\xff\xff\xff\xfc")


@pytest.mark.parametrize("codec", [2, 3, 4])
def test_a_missing_codec_says_what_to_install(monkeypatch, codec):
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(ProtocolError, match=f"{CODECS[codec]} .*pip install cramjam") as refused:
        decompress(codec, b"")
    assert refused.value.code is ErrorCode.unsupported_compression_type


def test_an_unknown_codec_is_refused_with_its_number():
    with pytest.raises(ProtocolError, match="0 to 4, got 7") as refused:
        decompress(7, b"")
    assert refused.value.code is ErrorCode.unsupported_compression_type
