"""Heads: what is read, what is refused, and that llhttp never sees another request than we do."""

import itertools
import random
import re
import string
from types import SimpleNamespace
from unittest.mock import ANY

import httptools
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.contract.header_fields import Head
from purgatory_async.service.http import head as head_module
from purgatory_async.service.http.head import END, HeadReader, check_start
from tests.service.http.malformed import HEADS, TOO_LONG

HOST = b"Host: localhost\r\n"
READER = HeadReader()
read_head = READER.read


def head(line=b"GET / HTTP/1.1", *fields):
    return line + b"\r\n" + HOST + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


def whole(data):
    """The head of a client's bytes, as a connection would cut it off; None if it has no end."""
    end = data.find(END)
    return None if end < 0 else data[: end + len(END)]


def verdict(*pieces):
    """What was parsed, the status of a refusal, or None if more bytes are needed."""
    before = None
    for piece in pieces:
        try:
            taken = READER.take(before, piece)
        except Problem as problem:
            return problem.document.status
        if taken is not None:
            return taken[0]
        if before is None:
            before = bytearray(piece)
    return None


def test_a_head_is_read():
    read = read_head(
        head(b"POST /v1/keys/a%2Fb?wait=1s&x HTTP/1.1", b"X-Custom:  a, b \t", b"content-length: 12")
    )
    profile = read.profile
    assert (profile.method, read.path, read.query, profile.version) == (
        "POST",
        b"/v1/keys/a%2Fb",
        b"wait=1s&x",
        "1.1",
    )
    assert profile.fields == ((b"host", b"localhost"), (b"x-custom", b"a, b"), (b"content-length", b"12"))
    assert (profile.length, profile.keep_alive, profile.expects_continue) == (12, True, False)


@pytest.mark.parametrize(
    ("line", "fields", "length", "keep_alive", "expects_continue"),
    [
        (b"GET / HTTP/1.1", [], 0, True, False),
        (b"GET / HTTP/1.1", [b"Content-Length: 0"], 0, True, False),
        (b"GET / HTTP/1.1", [b"Content-Length: 007"], 7, True, False),
        (b"GET / HTTP/1.1", [b"Content-Length: 999999999999999999"], 10**18 - 1, True, False),
        (b"POST / HTTP/1.1", [b"Transfer-Encoding: chunked"], None, True, False),
        (b"POST / HTTP/1.1", [b"transfer-encoding: CHUNKED"], None, True, False),
        (b"GET / HTTP/1.1", [b"Connection: close"], 0, False, False),
        (b"GET / HTTP/1.1", [b"Connection: keep-alive, Close"], 0, False, False),
        (b"GET / HTTP/1.1", [b"Connection: keep-alive", b"Connection: close"], 0, False, False),
        (b"GET / HTTP/1.0", [], 0, False, False),
        (b"GET / HTTP/1.0", [b"Connection: keep-alive"], 0, False, False),
        (b"POST / HTTP/1.1", [b"Expect: 100-Continue", b"Content-Length: 3"], 3, True, True),
        (b"POST / HTTP/1.0", [b"Expect: 100-continue", b"Content-Length: 3"], 3, False, False),
        # Java's and curl's clients offer HTTP/2 so; it is declined, and the body stays a body.
        (b"POST / HTTP/1.1", [b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 3"], 3, True, False),
        (b"GET / HTTP/1.1", [b"Connection: Upgrade", b"Upgrade: websocket"], 0, True, False),
    ],
)
def test_a_head_has_the_end_of_its_request_and_keep_alive(line, fields, length, keep_alive, expects_continue):
    read = read_head(head(line, *fields)).profile
    assert (read.length, read.keep_alive, read.expects_continue) == (length, keep_alive, expects_continue)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", b"/", b""),
        (b"/a?b?c", b"/a", b"b?c"),
        (b"//a/../b", b"//a/../b", b""),
        (b'/a"<>^`{|}', b'/a"<>^`{|}', b""),
        (b"http://localhost/a?b", b"/a", b"b"),
        (b"HTTP://LOCALHOST/a", b"/a", b""),
        (b"http://localhost", b"/", b""),
        (b"http://localhost?b", b"/", b"b"),
    ],
)
def test_a_target_is_a_path_or_names_the_host_that_host_names(target, path, query):
    read = read_head(head(b"GET " + target + b" HTTP/1.1"))
    assert (read.path, read.query) == (path, query)


def test_the_server_as_a_whole_can_be_asked_for_its_options():
    assert read_head(head(b"OPTIONS * HTTP/1.1")).path == b"*"


@pytest.mark.parametrize(
    "host", [b"a", b"a:1", b"a:", b"my_service:80", b"127.0.0.1", b"[::1]", b"[::1]:80", b"a."]
)
def test_a_host_is_a_name_or_an_address_and_may_have_a_port(host):
    assert read_head(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").profile.fields == ((b"host", host),)


def test_one_extra_empty_line_behind_the_last_body_is_accepted():
    assert read_head(b"\r\n" + head()) == read_head(head())


@pytest.mark.parametrize("raw", [pytest.param(raw, id=name) for name, raw in HEADS.items()])
def test_a_malformed_head_is_refused(raw):
    with pytest.raises(Problem) as refusal:
        read_head(whole(raw + END))
    assert refusal.value.document.type.endswith(":malformed-request")
    assert refusal.value.document.status == 400


@pytest.mark.parametrize(("raw", "status", "slug"), TOO_LONG.values(), ids=TOO_LONG)
def test_a_head_beyond_a_limit_is_refused_by_name_of_the_limit(raw, status, slug):
    with pytest.raises(Problem) as refusal:
        read_head(whole(raw)) if END in raw else check_start(raw, 0)
    assert (refusal.value.document.status, refusal.value.document.type.rpartition(":")[2]) == (status, slug)
    assert str(refusal.value.document.limit) in refusal.value.document.detail


def test_a_head_at_every_limit_is_read():
    longest_line = b"GET /" + b"a" * 8178 + b" HTTP/1.1"
    assert len(longest_line) == 8192
    fields = [b"A: b"] * 62
    fields.append(b"A: " + b"b" * (16_384 - len(HOST) - 62 * 6 - 5))
    raw = head(longest_line, *fields)
    assert len(read_head(raw).profile.fields) == 64
    assert len(raw) == 8192 + 2 + 16_384 + 2
    for length in range(len(raw)):
        check_start(raw[:length], max(0, length - 1))


@pytest.mark.parametrize(
    "start",
    [
        b"\x16\x03\x01",
        b"GET / HTTP/1.1\n",
        b"GET / HTTP/1.1\r\nA\0",
        b"GET /\r ",
        b"\n",
        b"GET / HTTP/1.1\r\nA: b\r\r",
    ],
)
def test_what_no_head_begins_with_need_not_be_waited_for(start):
    assert verdict(start) == 400
    assert verdict(*(start[place : place + 1] for place in range(len(start)))) == 400


@pytest.fixture
def parser(monkeypatch):
    """A fake of llhttp's results: a result that is not given agrees with anything."""

    def says(target=ANY, fields=ANY, ended=ANY):
        monkeypatch.setattr(head_module, "_Parsed", lambda raw: SimpleNamespace(target=target))
        monkeypatch.setattr(
            head_module, "_ParsedFields", lambda raw: SimpleNamespace(fields=fields, ended=ended)
        )

    return says


@pytest.mark.parametrize(
    "raw",
    [pytest.param(raw, id=name) for name, raw in HEADS.items() if name != "an unknown method"],
)
def test_a_malformed_head_is_refused_even_where_llhttp_takes_it(parser, raw):
    parser()
    assert verdict(raw + END) == 400


@pytest.mark.parametrize(
    "other",
    [
        {"target": b"/other"},
        {"fields": []},
        {"fields": [(b"host", b"localhost"), (b"content-length", b"4")]},
        {"ended": True},
    ],
    ids=str,
)
def test_a_head_that_llhttp_reads_otherwise_is_refused(parser, other):
    raw = head(b"OPTIONS * HTTP/1.1", b"Content-Length: 3")
    parser()
    assert isinstance(HeadReader().read(raw), Head)
    parser(**other)
    with pytest.raises(Problem, match="ambiguous"):
        HeadReader().read(raw)


@pytest.mark.slow
def test_llhttp_takes_every_usual_line_to_the_same_target():
    """Ten million lines: each method with all targets of three bytes, and longer ones drawn."""
    visible = [bytes([code]) for code in range(0x21, 0x7F) if code != ord("#")]
    drawn, methods = random.Random(7), sorted(head_module._METHODS)
    longer = (b"".join(drawn.choices(visible, k=drawn.randrange(4, 40))) for _ in range(4_400_000))
    short = (
        (method, b"".join(target)) for method in methods for target in itertools.product(visible, repeat=3)
    )
    count = 0
    for method, rest in itertools.chain(short, ((drawn.choice(methods), rest) for rest in longer)):
        raw = b"%b /%b HTTP/1.1\r\nHost: a\r\n\r\n" % (method, rest)
        assert head_module._Parsed(raw).target == b"/" + rest
        assert head_module._USUAL.match(raw) is not None
        count += 1
    assert count > 10_000_000


def test_a_detail_repeats_only_a_readable_part_of_a_head():
    with pytest.raises(Problem) as refusal:
        read_head(b"a" * 8000 + END)
    assert len(refusal.value.document.detail) < 250


class Reader:
    """What llhttp makes of some bytes, head and body."""

    def __init__(self, data):
        self.target, self.fields, self.body, self.begun, self.ended = b"", [], b"", 0, 0
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(data)
        self.method = parser.get_method().decode()

    def on_url(self, url):
        self.target += url

    def on_header(self, name, value):
        self.fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self):
        self.begun += 1

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.ended += 1


# Bytes that matter to a parser, and words that do, more often than others.
SHARP = st.sampled_from(
    [b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b",", b";", b"\x0b", b"\x7f", b"\x80", b"0"]
)
WORDS = st.sampled_from(
    [
        *(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n"),
        *(b"Connection: upgrade\r\n", b"Upgrade: h2c\r\n", b"Host: a\r\n", b"Content-Length: 0\r\n"),
        *(
            b"GET / HTTP/1.1\r\n",
            b"POST /a?b HTTP/1.0\r\n",
            b"CONNECT a:1 HTTP/1.1\r\n",
            b"chunked",
            b"\r\n\r\n",
        ),
        *(
            b"Expect: 100-continue\r\n",
            b"PRI * HTTP/2.0\r\n",
            b"Proxy-Connection: close\r\n",
            b"HTTP/1.1",
            b"GET /",
        ),
    ]
)
ANYTHING = st.lists(st.one_of(SHARP, WORDS, st.binary(max_size=3)), max_size=12).map(b"".join)


FRAMING = [
    *(b"", b"Content-Length: 3\r\n", b"content-length:0\r\n", b"Content-Length: \t03 \r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"transfer-encoding:Chunked\t\r\n", b"Transfer-Encoding: gzip\r\n"),
]
OTHERS = st.tuples(
    st.sampled_from([b"Connection", b"Upgrade", b"X", b"Proxy-Connection", b"Expect", b"Trailer", b"TE"]),
    st.one_of(
        st.sampled_from([b"close", b"upgrade", b"h2c", b"keep-alive", b"100-continue", b"chunked", b"3"]),
        st.text(string.ascii_letters + string.digits + " ,;=\t", max_size=8).map(str.encode),
    ),
)


@st.composite
def nearly_heads(draw):
    """A head, and in every other one something is put in or taken out somewhere."""
    method = draw(st.sampled_from([b"GET", b"POST", b"CONNECT", b"DELETE", b"HEAD", b"FOO"]))
    fields = [HOST, draw(st.sampled_from(FRAMING))]
    fields += [name + b": " + value + b"\r\n" for name, value in draw(st.lists(OTHERS, max_size=3))]
    version = draw(st.sampled_from([b"1", b"1", b"0"]))
    raw = method + b" /a?b HTTP/1." + version + b"\r\n" + b"".join(draw(st.permutations(fields))) + b"\r\n"
    if draw(st.booleans()):
        return raw
    cut = draw(st.integers(0, len(raw)))
    return raw[:cut] + draw(st.one_of(st.just(b""), SHARP, WORDS)) + raw[cut + draw(st.integers(0, 3)) :]


def without_upgrade(raw):
    """The same head for a parser that would take what follows an upgrade for another protocol; we decline them."""
    return re.sub(rb"(?im)^upgrade:", b"Upgrad_:", raw).replace(b"CONNECT /", b"OPTIONS /", 1)


@settings(max_examples=500)
@given(st.one_of(nearly_heads(), ANYTHING, st.binary(max_size=60)))
@example(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: a\r\nContent-Length: 3\r\n\r\n")
@example(b"CONNECT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
@example(b"GET /a? HTTP/1.1\r\nHost: a\r\n\r\n")
@example(b"GET /a?? HTTP/1.1\r\nHost: a\r\n\r\n")
@example(b"CONNECT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\t\r\n\r\n")
@example(
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: a\r\nConnection: upgrade\r\nTransfer-Encoding: chunked\t\r\n\r\n"
)
def test_a_head_is_refused_or_agrees_with_llhttp(data):
    read = verdict(data)
    if not isinstance(read, Head):
        assert read in (400, 414, 431, None)
        return
    profile = read.profile
    sent = 5000 if profile.length is None else min(profile.length, 5000)
    body = b"1388\r\n" + b"a" * sent + b"\r\n0\r\n\r\n" if profile.length is None else b"a" * sent
    found = Reader(without_upgrade(whole(data)) + body)
    assert profile.method in (found.method, "CONNECT")
    path, _, query = found.target.partition(b"?")
    assert path.endswith(read.path)
    assert query == read.query
    assert [value for _, value in found.fields] == [value for _, value in profile.fields]
    assert (found.begun, found.body) == (1, b"a" * sent)
    assert found.ended == (profile.length is None or profile.length == sent)


@given(st.one_of(nearly_heads(), ANYTHING), st.data())
def test_where_the_pieces_of_a_head_end_changes_nothing(data, draw):
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=5)))
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert verdict(*pieces) == verdict(data)
    assert verdict(*(data[place : place + 1] for place in range(len(data)))) == verdict(data)
