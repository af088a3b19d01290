"""What the head of a request decides: refusals before the body, probes without Host, and details that people read."""

import pytest

from purgatory_async.durable.documents.problems import Kind, Problem
from purgatory_async.service.api.routes import ROUTES
from purgatory_async.testing import settle
from tests.service.access.tokens_file import PAD, write_tokens
from tests.service.http.malformed import HEADS, START

pytestmark = pytest.mark.asyncio

JSON = "Content-Type: application/json"
SIGNAL = "/v1/keys/a/signal"
SUBMIT = "/v1/operations"
ROOT = f"Authorization: Bearer root{PAD}"
TEXT = "Content-Type: text/plain"
GZIP = "Content-Encoding: gzip"
LONG_NAME = "Idempotency-Key: " + "x" * 256
# By what is wrong: the request, without the fields that all have, and the slug of the answer.
REFUSED = {
    "type": (f"POST {SIGNAL}", [TEXT], "unsupported-media-type"),
    "type of chunks": (f"POST {SIGNAL}", [TEXT, "Transfer-Encoding: chunked"], "unsupported-media-type"),
    "no type": (f"POST {SIGNAL}", [], "unsupported-media-type"),
    "encoding": (f"POST {SIGNAL}", [JSON, GZIP], "unsupported-media-type"),
    "length": (f"POST {SIGNAL}", [JSON, "Content-Length: 2000000"], "too-large"),
    "Accept": (f"POST {SIGNAL}", [JSON, "Accept: text/html"], "not-acceptable"),
    "path": ("POST /v1/nothing", [JSON], "not-found"),
    "method": ("PUT /v1/operations", [JSON], "method-not-allowed"),
    "parameter": (f"POST {SIGNAL}?x=1", [JSON], "bad-parameter"),
    "wait": (f"POST {SUBMIT}?wait=soon", [JSON, ROOT], "bad-parameter"),
    "key": ("POST /v1/keys/%00/signal", [JSON], "bad-key"),
    "queue": ("POST /v1/queues/%ff/items", [JSON], "bad-key"),
    "operation": ("POST /v1/operations/%zz/complete", [JSON, ROOT], "unknown-operation"),
    "lease": ("POST /v1/leases/%zz/extend", [JSON, ROOT], "unknown-lease"),
    "Idempotency-Key": (f"POST {SIGNAL}", [JSON, LONG_NAME], "bad-header"),
    "position": (f"POST {SIGNAL}", [JSON, "X-Purgatory-Position: x"], "bad-header"),
    "host": (f"POST {SIGNAL}", [JSON, "Host: evil.example"], "misdirected"),
    "origin": (f"POST {SIGNAL}", [JSON, "Origin: http://evil.example"], "cross-origin"),
    "token": (f"POST {SIGNAL}", [JSON, "Authorization: Bearer unknown-0123456789"], "unauthorized"),
    "scope": (f"POST {SUBMIT}", [JSON], "forbidden"),
    "prefix": ("POST /v1/keys/b/signal", [JSON], "forbidden"),
    "rate": (f"POST {SIGNAL}", [JSON, f"Authorization: Bearer slow{PAD}"], "limited"),
}


def head(line, fields):
    """A head whose client awaits 100 Continue, with the usual fields that it does not have itself."""
    given = {field.partition(":")[0].lower() for field in fields}
    framed = "transfer-encoding" in given or "content-length" in given
    usual = {
        "host": "Host: localhost",
        "authorization": f"Authorization: Bearer usual{PAD}",
        "content-length": None if framed else "Content-Length: 900000",
        "expect": "Expect: 100-continue",
    }
    others = [field for name, field in usual.items() if name not in given and field is not None]
    return "\r\n".join([f"{line} HTTP/1.1", *others, *fields, "", ""]).encode()


@pytest.fixture
def connect(make_client, tmp_path):
    """Connect to a service whose tokens have each kind of limit; at the end nothing is left of the connections."""
    tokens = write_tokens(
        tmp_path / "tokens",
        "usual signal prefix=a",
        "slow signal prefix=a rate=1/m",
        "root admin",
    )
    return make_client(tokens=tokens).server.link


async def closed(link):
    await link.hang_up()
    await settle()


@pytest.mark.parametrize(("line", "fields", "slug"), REFUSED.values(), ids=REFUSED)
async def test_what_the_head_decides_is_answered_before_the_body(connect, line, fields, slug):
    if slug == "limited":
        link = connect()
        await link.send(head(f"POST {SIGNAL}", [JSON, "Content-Length: 0", *fields[1:]]))
        await closed(link)
    link = connect()
    await link.send(head(line, fields))
    assert link.reply.slug == slug  # and no 100 before it
    await closed(link)


async def test_every_endpoint_refuses_another_type_before_the_body(connect):
    for path, methods in ROUTES.items():
        for method, endpoint in methods.items():
            # The token of a link is looked at before all else.
            if (endpoint.body is None and not path.endswith("/ack")) or endpoint.public:
                continue
            link = connect()
            target = path.replace("{key}", "a").replace("{queue}", "a").replace("{id}", "a")
            await link.send(head(f"{method} {target}", [TEXT, ROOT]))
            assert (path, link.reply.slug) == (path, "unsupported-media-type")
            await closed(link)


async def test_chunks_without_content_need_no_type(connect):
    link = connect()
    fields = "Transfer-Encoding: chunked", f"Authorization: Bearer usual{PAD}"
    await link.send(
        "\r\n".join([f"POST {SIGNAL} HTTP/1.1", "Host: localhost", *fields, "", "0\r\n\r\n"]).encode()
    )
    assert link.reply.status == 200
    await closed(link)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("OPTIONS", 405), ("POST", 405)])
async def test_a_probe_of_http_1_0_needs_no_host(connect, path, method, status):
    link = connect()
    await link.send(f"{method} {path} HTTP/1.0\r\n\r\n".encode())
    assert link.pipe.written.startswith(b"HTTP/1.1 %d " % status)
    await closed(link)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz/ HTTP/1.0\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\n\r\n",
        b"GET /v1/keys/healthz HTTP/1.0\r\n\r\n",
        b"GET http://localhost/healthz HTTP/1.0\r\n\r\n",
        b"GET /healthz HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET /healthz HTTP/1.0\r\nHost:\r\n\r\n",
    ],
    ids=range(7),
)
async def test_any_other_request_needs_its_host(connect, raw):
    link = connect()
    await link.send(raw)
    assert link.refused == "malformed-request"
    await closed(link)


async def test_a_probe_that_names_a_host_names_ours(connect):
    link = connect()
    await link.send(b"GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n")
    assert link.reply.slug == "misdirected"
    await closed(link)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (HEADS["a TLS client hello"], "this looks like TLS, and the port speaks plain HTTP"),
        (HEADS["a TLS client hello"][:1], "this looks like TLS, and the port speaks plain HTTP"),
        (HEADS["HTTP/1.2"], "line 1 must end in HTTP/1.1 or HTTP/1.0, got 'HTTP/1.2'"),
        (HEADS["the preface of HTTP/2"], "line 1 must end in HTTP/1.1 or HTTP/1.0, got 'HTTP/2.0'"),
        (START + b"A: \0\r\n\r\n", "line 4 has the byte 0x00"),
        (HEADS["bare LF behind a field"], "line 4 ends in LF; end it with CRLF"),
        (HEADS["bare CR"], "line 4 has a CR without LF"),
        (HEADS["a folded field"], "line 5 begins with white space; fold no field"),
        (HEADS["tab before a colon"], "line 4 has white space before its colon"),
        (HEADS["a field without a colon"], "line 4 is no field; send a name, a colon and a value"),
        (HEADS["no method"], "line 1 must be METHOD target HTTP/1.1, got '/v1"),
        (HEADS["length and chunks"], "either Content-Length or Transfer-Encoding, got '5' and 'chunked'"),
        (HEADS["a Host with a user"], "got 'a@localhost'"),
        (START + b"Transfer-Encoding: caf\xc3\xa9\xff\r\n\r\n", "got 'café\\xff'"),
    ],
    ids=str,
)
async def test_a_detail_shows_text(connect, raw, sentence):
    link = connect()
    await link.send(raw)
    assert sentence in link.reply.json["detail"]
    await closed(link)


async def test_a_detail_with_the_repr_of_bytes_fails_every_test():
    with pytest.raises(AssertionError, match="shows bytes"):
        raise Problem(Kind.BAD_KEY, "the key must be short, got b'long'")
