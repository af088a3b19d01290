"""What host a request is meant for, and which page sent it: the defences of a service on loopback."""

import json

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from purgatory_async.service.app import create_app
from purgatory_async.service.settings.settings import Settings
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

SUBMIT = "/v1/operations"
OWN = "http://localhost:8765"


async def ask(app, headers, *, method="GET", path="/v1/operations", server=("127.0.0.1", 8765)):
    """Send a request whose body must not be read; return status and document."""
    sent = []

    async def receive():
        raise AssertionError("the body was asked for")

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {
        "server": server,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    }
    await app(scope, receive, send)
    status = sent[0]["status"]
    assert not any(name.startswith(b"access-control-") for name, _ in sent[0]["headers"])
    return status, json.loads(sent[1]["body"]) if status >= 400 else None


async def slug(app, host, **settings):
    """Send a request with a ``Host``; returns None if it was answered."""
    status, document = await ask(app, [("host", host)], **settings)
    if document is None:
        assert status == 200
        return None
    assert document["status"] == status
    return document["type"].removeprefix("urn:purgatory:problem:")


@pytest.fixture
def make_app():
    """Makes applications and closes their services."""
    made = []

    def make(**settings):
        made.append(create_app(Settings(**settings)))
        return made[-1]

    yield make
    for app in made:
        app.service.close()


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST:1", "localhost.", "localhost:", "localhost:0", "localhost:65535"),
        *(
            "127.0.0.1",
            "127.0.0.1:8765",
            "127.8.8.8",
            "[::1]",
            "[::1]:8765",
            "[0:0:0:0:0:0:0:1]",
            " localhost\t",
        ),
        "[::ffff:127.0.0.1]",
    ],
)
async def test_a_loopback_host_is_answered_with_and_without_a_port(make_app, host):
    assert await slug(make_app(), host) is None


REBOUND = [
    *(
        "evil.example",
        "evil.example:8765",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1.nip.io",
    ),
    *(
        "xlocalhost",
        "localhostx",
        "sub.localhost",
        "localhost..",
        ".localhost",
        "localhost:99999",
        "localhost:-1",
    ),
    *(
        "user@localhost",
        "localhost@evil.example",
        "evil.example#localhost",
        "evil.example?localhost",
        "localhost/",
    ),
    *(
        "localhost:80@evil.example",
        "localhost:80:80",
        "local host",
        "localhost, evil.example",
        "evil.example\\localhost",
    ),
    *("[::1].evil.example", "[::1", "::1]", "::1", "[]", "[127.0.0.1]", "[::1%lo]", "[::2]", "[fe80::1]"),
    *(
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "128.0.0.1",
        "10.0.0.1",
        "",
        ":",
        ":8765",
        "*",
        "\xe9",
    ),
    "x" * 20_000,
]


@pytest.mark.parametrize("host", REBOUND)
async def test_another_host_is_misdirected_on_every_path(make_app, host):
    app = make_app()
    for path in ("/v1/operations", "/healthz", "/nowhere"):
        status, document = await ask(app, [("host", host)], path=path)
        assert (status, document["type"]) == (421, "urn:purgatory:problem:misdirected")
        assert len(document["detail"]) < 250


async def test_a_refusal_says_what_host_it_was_and_what_may_be(make_app):
    _, document = await ask(make_app(), [("host", "evil.example:80")])
    assert "got 'evil.example:80'" in document["detail"]
    assert "allow_host" in document["detail"]


@pytest.mark.parametrize(
    "headers", [[], [("host", "localhost")] * 2, [("host", "localhost"), ("host", "evil.example")]]
)
@pytest.mark.parametrize("path", ["/healthz", "/v1/operations"])
async def test_a_missing_or_doubled_host_is_a_bad_request(make_app, headers, path):
    status, document = await ask(make_app(), headers, path=path)
    assert (status, document["type"]) == (400, "urn:purgatory:problem:bad-header")
    assert "Host must be given exactly once" in document["detail"]


async def test_allowed_hosts_are_answered_whatever_their_case_and_port(make_app):
    app = make_app(allow_host="Holds.example.org, 192.0.2.7,[2001:db8::1]")
    for host in (
        "holds.example.org",
        "HOLDS.Example.org.:443",
        "192.0.2.7:80",
        "[2001:DB8:0::1]:8765",
        "localhost",
    ):
        assert await slug(app, host) is None
    for host in ("example.org", "x.holds.example.org", "holds.example.org.evil.example", "192.0.2.8"):
        assert await slug(app, host) == "misdirected"


@pytest.mark.parametrize(
    ("listened", "server", "host", "answered"),
    [
        pytest.param("192.0.2.1", "192.0.2.1", "192.0.2.1:8765", True, id="an address"),
        pytest.param("192.0.2.1", "192.0.2.1", "192.0.2.2:8765", False, id="another one"),
        pytest.param("Holds.example.org", "192.0.2.1", "holds.example.org", True, id="the name listened on"),
        pytest.param("0.0.0.0", "192.0.2.1", "192.0.2.1", True, id="the address of the connection"),
        pytest.param("0.0.0.0", "192.0.2.1", "192.0.2.2", False, id="another address of the machine"),
        pytest.param("0.0.0.0", "192.0.2.1", "0.0.0.0:8765", True, id="the address that was printed"),
        pytest.param("::", "2001:db8::1", "[2001:db8::1]", True, id="IPv6"),
        pytest.param("::", "::ffff:192.0.2.1", "192.0.2.1", True, id="IPv4 on a socket of IPv6"),
        pytest.param("::", "fe80::1%eth0", "[fe80::1]:8765", True, id="an address with a zone"),
        pytest.param("0.0.0.0", "192.0.2.1", "holds.example.org", False, id="a name of that address"),
    ],
)
async def test_listening_and_connection_addresses_are_answered(make_app, listened, server, host, answered):
    app = make_app(host=listened, insecure=True)
    assert await slug(app, host, server=(server, 8765)) == (None if answered else "misdirected")


@pytest.mark.parametrize("server", [None, ("evil.example", 80), ("testserver", 80), ("/run/app.sock", None)])
async def test_a_name_reported_by_a_foreign_server_is_not_trusted(make_app, server):
    host = "evil.example" if server is None else server[0]
    assert await slug(make_app(), host, server=server) == "misdirected"
    assert await slug(make_app(), "localhost", server=server) is None


async def test_a_mounted_app_answers_its_address_and_allowed_hosts(
    make_app,
):
    app = make_app(allow_host=("api.example.org",))
    outer = Starlette(routes=[Mount("/held", app=app)])
    for host, expected in {
        "api.example.org": 200,
        "192.0.2.1": 200,
        "localhost": 200,
        "other.example.org": 421,
    }.items():
        status, _ = await ask(outer, [("host", host)], path="/held/v1/operations", server=("192.0.2.1", 80))
        assert status == expected


CROSS = [
    pytest.param([("origin", "http://evil.example")], id="another site"),
    pytest.param([("origin", "null")], id="null, as a sandboxed frame or a file sends"),
    pytest.param([("origin", "")], id="empty"),
    pytest.param([("origin", "http://localhost:3000")], id="another port of this machine"),
    pytest.param([("origin", "http://localhost")], id="without our port"),
    pytest.param([("origin", "http://127.0.0.1:8765")], id="another name of this machine"),
    pytest.param([("origin", "http://localhost:8765.evil.example")], id="a longer name"),
    pytest.param([("origin", "http://localhost:8765@evil.example")], id="our host as user information"),
    pytest.param([("origin", f"{OWN}/")], id="a path"),
    pytest.param([("origin", f"{OWN} http://evil.example")], id="a list"),
    pytest.param([("origin", OWN), ("origin", OWN)], id="two headers"),
    pytest.param([("origin", OWN), ("origin", "http://evil.example")], id="ours and another"),
    pytest.param([("origin", "chrome-extension://localhost:8765")], id="an extension"),
    pytest.param([("origin", "file://")], id="a file"),
    pytest.param([("origin", "x" * 20_000)], id="a long one"),
    pytest.param([("origin", "http://\xe9")], id="outside ASCII"),
    pytest.param([("sec-fetch-site", "cross-site")], id="cross-site by the browser's word"),
    pytest.param([("sec-fetch-site", "same-site")], id="same-site is another origin still"),
    pytest.param([("sec-fetch-site", "")], id="an empty word"),
    pytest.param([("sec-fetch-site", "Same-Origin")], id="a word that no browser says"),
    pytest.param([("sec-fetch-site", "cross-site"), ("origin", OWN)], id="two words that disagree"),
    pytest.param([("sec-fetch-site", "same-origin"), ("origin", "null")], id="and the other way round"),
    pytest.param(
        [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], id="the browser's word twice"
    ),
]


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH", "OPTIONS", "BREW"])
@pytest.mark.parametrize("headers", CROSS)
async def test_a_change_from_another_origin_is_refused_unread(make_app, method, headers):
    app = make_app()
    for path in (SUBMIT, "/healthz", "/nowhere"):
        status, document = await ask(app, [("host", "localhost:8765"), *headers], method=method, path=path)
        assert (status, document["type"]) == (403, "urn:purgatory:problem:cross-origin")
        assert len(document["detail"]) < 250


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="no browser"),
        pytest.param([("origin", OWN)], id="our page in a browser that says no more"),
        pytest.param([("origin", OWN), ("sec-fetch-site", "same-origin")], id="our page"),
        pytest.param([("sec-fetch-site", "none")], id="the user"),
        pytest.param([("origin", "HTTP://LocalHost:8765")], id="case"),
    ],
)
async def test_a_change_from_our_own_page_or_from_no_page_is_done(client, headers):
    reply = await client.request(
        "POST", SUBMIT, {"keys": ["a"], "timeout": 0}, [("host", "localhost:8765"), *headers]
    )
    assert reply.status == 201


async def test_behind_a_tls_proxy_the_host_of_the_page_is_its_origin(make_client):
    client = make_client(allow_host="holds.example.org")
    for host in ("holds.example.org", "holds.example.org:443"):
        headers = [("host", host), ("origin", "https://holds.example.org"), ("sec-fetch-site", "same-origin")]
        assert (await client.request("POST", "/v1/keys/a/signal", headers=headers)).status == 200


@pytest.mark.parametrize("headers", CROSS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_safe_methods_are_allowed_cross_origin(make_app, method, headers):
    status, _ = await ask(make_app(), [("host", "localhost:8765"), *headers], method=method, path="/healthz")
    assert status == 200


async def test_a_preflight_is_granted_nothing(make_app):
    headers = [
        ("host", "localhost:8765"),
        ("origin", "http://evil.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type, authorization"),
    ]
    status, _ = await ask(make_app(), headers, method="OPTIONS")  # it looks for headers of CORS, too
    assert status == 403


async def test_a_refusal_names_the_origin_and_varies_on_it(client):
    reply = await client.request("POST", SUBMIT, [b'{"keys": ["a"]}'], [("origin", "http://evil.example")])
    assert (reply.slug, reply.unread) == ("cross-origin", 1)
    assert "Origin must name the service's own origin, got 'http://evil.example'" in reply.json["detail"]
    assert reply.headers["vary"] == "Origin, Sec-Fetch-Site"
    assert (reply.headers["cache-control"], reply.headers["x-content-type-options"]) == (
        "no-store",
        "nosniff",
    )
    assert client.service.pending == 0
    await settle()


async def test_a_wrong_host_comes_before_a_wrong_page(make_app):
    headers = [("host", "evil.example"), ("origin", "http://evil.example")]
    status, _ = await ask(make_app(), headers, method="POST")
    assert status == 421
