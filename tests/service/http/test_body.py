"""Bodies: where they end, and that llhttp finds the same content and the same end."""

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.http.body import ChunkedBody, SizedBody
from tests.service.http.malformed import BODIES

HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


def taken(body, *pieces):
    """Content and what is behind the end; None for it while the end is to come; False for both once refused."""
    content = b""
    for number, piece in enumerate(pieces):
        try:
            some, behind = body.take(piece)
        except Problem as problem:
            assert problem.document.type.endswith(":malformed-request")  # noqa: PT017 - of many pieces one is refused
            return False
        content += some
        if body.ended:
            return content, behind + b"".join(pieces[number + 1 :])
        assert not behind
    return content, None


def test_a_sized_body_ends_after_so_many_bytes():
    body = SizedBody(5)
    assert (body.take(b"abc"), body.ended, body.left) == ((b"abc", b""), False, 2)
    assert (body.take(b"deGET"), body.ended, body.left) == ((b"de", b"GET"), True, 0)


def test_a_sized_body_may_end_with_a_piece():
    body = SizedBody(5)
    assert (body.take(b"abcde"), body.ended) == ((b"abcde", b""), True)


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"0\r\n\r\n", b""),
        (b"00000000\r\n\r\n", b""),
        (b"3\r\nabc\r\n0\r\n\r\n", b"abc"),
        (b'3;a;b=c;d="e f"\r\nabc\r\n0;g\r\n\r\n', b"abc"),
        (b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", b"0123456789" * 2),
        (b"7\r\n0\r\n\r\nab\r\n0\r\n\r\n", b"0\r\n\r\nab"),
        (b"1\r\na\r\n0\r\nX-Checksum: 1\r\nExpires:\r\n\r\n", b"a"),
        (b'0;g\r\nEtag: \xe4 \t"b"\r\n\r\n', b""),
    ],
)
def test_a_chunked_body_ends_with_its_last_chunk(data, content):
    data += b"GET /"
    assert taken(ChunkedBody(), data) == (content, b"GET /")
    assert taken(ChunkedBody(), *(data[i : i + 1] for i in range(len(data)))) == (content, b"GET /")
    for cut in range(len(data)):
        assert taken(ChunkedBody(), data[:cut], data[cut:]) == (content, b"GET /")


@pytest.mark.parametrize("raw", [pytest.param(raw, id=name) for name, raw in BODIES.items()])
def test_a_malformed_chunk_is_refused_however_it_is_cut(raw):
    data = raw.partition(b"\r\n\r\n")[2]
    assert taken(ChunkedBody(), data) is False
    assert taken(ChunkedBody(), *(data[i : i + 1] for i in range(len(data)))) is False


def test_chunks_are_counted_and_the_line_before_one_is_bounded():
    chunk = b"1\r\na\r\n"
    assert taken(ChunkedBody(), chunk * 8191 + b"0\r\n\r\n") == (b"a" * 8191, b"")
    assert taken(ChunkedBody(), chunk * 8192 + b"0\r\n\r\n") is False
    longest = b"1;" + b"a" * 252 + b"\r\n"
    assert len(longest) == 256
    assert taken(ChunkedBody(), longest + b"a\r\n0\r\n\r\n") == (b"a", b"")
    assert taken(ChunkedBody(), b"1;a" + longest[2:] + b"a\r\n0\r\n\r\n") is False


def test_trailer_fields_are_bounded_all_together():
    field = b"A: " + b"b" * 2043 + b"\r\n"
    assert len(field) * 2 == 4096
    assert taken(ChunkedBody(), b"0\r\n" + field * 2 + b"\r\n") == (b"", b"")
    assert taken(ChunkedBody(), b"0\r\n" + field * 2 + b"A:\r\n\r\n") is False
    assert taken(ChunkedBody(), b"0\r\n" + field + field[:-2] + b"b\r\n\r\n") is False


class Reader:
    """What llhttp makes of some chunks."""

    def __init__(self, data):
        self.content, self.ended = b"", 0
        httptools.HttpRequestParser(self).feed_data(HEAD + data)

    def on_body(self, content):
        self.content += content

    def on_message_complete(self):
        self.ended += 1


SHARP = st.sampled_from(
    [b"\r\n", b"\n", b"\r", b"0", b"1", b"a", b"0\r\n", b"1\r\n", b";", b'="', b" ", b"\0", b"-"]
)


@st.composite
def nearly_chunks(draw):
    """Chunks with something put in or taken out somewhere."""
    pieces = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=4))
    extension = draw(st.sampled_from([b"", b";a", b";a=b", b';a="b c"']))
    trailers = draw(st.sampled_from([b"", b"A: b\r\n", b"A:\r\nX-Sum: 0\r\n"]))
    raw = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces)
    raw += b"0\r\n" + trailers + b"\r\n"
    cut = draw(st.integers(0, len(raw)))
    return raw[:cut] + draw(st.one_of(st.just(b""), SHARP)) + raw[cut + draw(st.integers(0, 3)) :]


@given(
    st.one_of(nearly_chunks(), st.lists(SHARP, max_size=10).map(b"".join), st.binary(max_size=20)), st.data()
)
@example(b"1;a\r\na\r\n0\r\n\r\n", None)
def test_a_body_is_refused_or_agrees_with_llhttp(data, draw):
    found = taken(ChunkedBody(), data)
    if draw is not None:
        cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=4)))
        pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        assert taken(ChunkedBody(), *pieces) == found
    if found is False or found[1] is None:
        return
    content, behind = found
    read = Reader(data[: len(data) - len(behind)])
    assert (read.content, read.ended) == (content, 1)
