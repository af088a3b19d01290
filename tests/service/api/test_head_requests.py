"""HEAD: everything that GET answers, but for the body."""

import pytest

from purgatory_async.service.api.routes import ROUTES
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

TOKEN = "0123456789abcdef"
READABLE = [path for path, methods in ROUTES.items() if "GET" in methods]
CHANGING = {"/metrics", "/v1/admin/stats"}  # figures of the moment: as long as they are


def target(path):
    return path.replace("{id}", "op").replace("{key}", "k") + ("?key=k" if path == "/v1/wait" else "")


@pytest.mark.parametrize("path", [path for path in READABLE if path != "/v1/events"])
async def test_head_gets_the_headers_of_get_and_no_body(client, path):
    await client.submit("k", id="op")
    whole, head = [await client.request(method, target(path)) for method in ("GET", "HEAD")]
    if path in CHANGING:
        assert head.headers.keys() == whole.headers.keys()
    else:
        assert head.headers == whole.headers
    assert (head.status, head.body) == (whole.status, b"")


async def test_head_of_the_events_ends_behind_the_headers(client):
    whole = await client.held("GET", "/v1/events")
    head = await client.request("HEAD", "/v1/events")
    assert (head.status, head.headers, head.body) == (200, whole.headers, b"")
    assert len(client.service.held.streams.running) == 1
    whole.hang_up()
    await settle()


@pytest.mark.parametrize(
    "asked",
    ["/v1/wait?key=k&wait=30", "/v1/keys/k?wait=30", "/v1/operations/op?wait=30"],
)
async def test_head_is_held_as_get_is(client, asked):
    await client.submit("k", id="op")
    whole, head = await client.held("GET", asked), await client.held("HEAD", asked)
    await client.signal("k", value=1)
    assert (whole.status, whole.body == b"") == (200, False)
    assert (head.status, head.headers, head.body) == (200, whole.headers, b"")


async def test_head_of_an_empty_wait_is_that_of_get(client):
    whole, head = [await client.held(method, "/v1/wait?key=k&wait=1") for method in ("GET", "HEAD")]
    await client.advance(1.001)
    assert (head.status, head.headers) == (whole.status, whole.headers) == (204, whole.headers)


@pytest.mark.parametrize(
    ("asked", "headers", "status"),
    [
        ("/nowhere", [], 404),
        ("/v1/operations/op", [], 404),
        ("/v1/operations?limit=0", [], 400),
        ("/v1/keys/%ff", [], 422),
        ("/v1/operations", [("accept", "text/html")], 406),
        ("/v1/operations", [("host", "evil.example")], 421),
    ],
)
async def test_a_refused_head_is_a_refused_get_without_body(client, asked, headers, status):
    whole, head = [await client.request(method, asked, headers=headers) for method in ("GET", "HEAD")]
    assert (head.status, head.headers, head.body) == (status, whole.headers, b"")


@pytest.mark.parametrize(("token", "status"), [(None, 401), (TOKEN, 403)])
async def test_head_needs_the_token_that_get_needs(make_client, tmp_path, token, status):
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN} signal")
    path.chmod(0o600)
    client = make_client(tokens=path)
    headers = [] if token is None else [("authorization", f"Bearer {token}")]
    whole, head = [await client.request(each, "/v1/keys/k", headers=headers) for each in ("GET", "HEAD")]
    assert (head.status, head.headers, head.body) == (status, whole.headers, b"")


async def test_head_of_what_cannot_be_read_is_not_allowed(client):
    head = await client.request("HEAD", "/v1/keys/k/signal")
    assert (head.status, head.headers["allow"], head.body) == (405, "POST", b"")
