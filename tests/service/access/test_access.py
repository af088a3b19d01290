"""Tokens, scopes, and the order in which a request is refused."""

import pytest

from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.access.check import Access
from purgatory_async.service.api.routes import ROUTES
from purgatory_async.service.app import create_app
from purgatory_async.service.contract.header_fields import Fields, Profile
from purgatory_async.service.contract.http_problems import HttpKind
from purgatory_async.service.settings.settings import Settings, SettingsError
from purgatory_async.testing import settle
from tests.service.access.test_rights_of_every_request import TABLE

pytestmark = pytest.mark.asyncio

SCOPES = ("read", "wait", "signal", "admin")
TOKEN = {scope: f"{scope}-0123456789abcdef" for scope in SCOPES}
JSON = ("content-type", "application/json")

SERVED = [(path, method) for path, methods in ROUTES.items() for method in methods]
PROTECTED = [(path, method) for path, method in SERVED if ROUTES[path][method].permission is not None]


def scope_of(path, method):
    """What the table asks for, None where the path is open; HEAD is a GET."""
    return TABLE[f"{'GET' if method == 'HEAD' else method} {path}"][0] or None


def bearer(token):
    return ("authorization", f"Bearer {token}")


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("".join(f"{token} {scope}\n" for scope, token in TOKEN.items()))
    path.chmod(0o600)
    return path


@pytest.fixture
def guarded(make_client, tokens):
    """A service that asks for tokens, and knows one for each scope."""
    return make_client(tokens=tokens)


async def ask(client, method, target, *headers, body=None):
    """Send a request, and hang up if it is held; returns it with its answer, if any."""
    exchange = client.start(method, target, body, headers)
    await settle()
    if not exchange.answered:
        exchange.hang_up()
        await settle()
    return exchange


def concrete(path):
    return path.replace("{id}", "op").replace("{key}", "k").replace("{queue}", "q").replace("{file}", "x")


@pytest.mark.parametrize(("path", "method"), PROTECTED)
async def test_a_wrong_scope_is_forbidden_and_the_one_needed_is_named(guarded, path, method):
    needed = scope_of(path, method)
    other = "signal" if "read" in needed else "read"
    exchange = await ask(guarded, method, concrete(path), bearer(TOKEN[other]), JSON, body=[b"{"])
    assert (exchange.status, exchange.unread) == (403, 1)
    assert (
        exchange.headers["www-authenticate"]
        == f'Bearer error="insufficient_scope", scope="{needed.split()[0]}"'
    )
    if method != "HEAD":
        assert exchange.slug == "forbidden"
        wanted = " or ".join(dict.fromkeys([*needed.split(), "admin"]))
        assert exchange.json["detail"] == f"the token must have the scope {wanted}"


@pytest.mark.parametrize(("path", "method"), SERVED)
async def test_without_a_token_only_the_open_paths_answer(guarded, path, method):
    exchange = await ask(guarded, method, concrete(path))
    assert (exchange.status == 401) is (scope_of(path, method) is not None)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST", "TRACE", "PURGE"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_an_open_path_is_open_to_every_method(guarded, path, method):
    exchange = await ask(guarded, method, path)
    assert exchange.status == (200 if method == "HEAD" else 405)


async def test_a_path_with_one_open_method_keeps_the_others_closed(tokens):
    access = Access(Settings(tokens=tokens))
    mixed = {"GET": ROUTES["/healthz"]["GET"], "POST": ROUTES["/v1/keys/{key}/signal"]["POST"]}
    fields = Fields([(b"host", b"localhost")])
    access.check(Profile("GET", "1.1", fields), None, mixed)
    for method in ("POST", "PUT", "HEAD"):
        with pytest.raises(Problem) as refused:
            access.check(Profile(method, "1.1", fields), None, mixed)
        assert refused.value.kind is HttpKind.UNAUTHORIZED


NOT_A_TOKEN = [
    pytest.param([], id="nothing"),
    pytest.param([("authorization", "")], id="an empty header"),
    pytest.param([bearer("nobody-0123456789abcdef")], id="unknown"),
    pytest.param([bearer(TOKEN["admin"][:-1])], id="one character short"),
    pytest.param([bearer(TOKEN["admin"] + "0")], id="one character more"),
    pytest.param([bearer(TOKEN["admin"] + "=")], id="padding that it has not"),
    pytest.param([bearer(TOKEN["admin"].upper())], id="upper case"),
    pytest.param([bearer("")], id="an empty token"),
    pytest.param([bearer(f"{TOKEN['admin']}, x")], id="two in one header"),
    pytest.param([bearer(f"{TOKEN['admin']} x")], id="a word behind it"),
    pytest.param([bearer(f'"{TOKEN["admin"]}"')], id="quoted"),
    pytest.param([bearer("\xe9" * 20)], id="outside ASCII"),
    pytest.param([bearer(TOKEN["admin"]), bearer(TOKEN["admin"])], id="two headers"),
    pytest.param([bearer(TOKEN["admin"]), ("authorization", "Basic eDp5")], id="Bearer and Basic"),
    pytest.param([("authorization", TOKEN["admin"])], id="no scheme"),
    pytest.param([("authorization", f"Bearer{TOKEN['admin']}")], id="no space"),
    pytest.param([("authorization", f"Bearer\t{TOKEN['admin']}")], id="a tab for the space"),
    pytest.param([("authorization", f"Basic {TOKEN['admin']}")], id="another scheme"),
    pytest.param([("authorization", f"Digest Bearer {TOKEN['admin']}")], id="a scheme before the scheme"),
    pytest.param([("proxy-authorization", f"Bearer {TOKEN['admin']}")], id="for a proxy"),
    pytest.param([("x-authorization", f"Bearer {TOKEN['admin']}")], id="another header"),
    pytest.param([("cookie", f"token={TOKEN['admin']}")], id="a cookie"),
]


@pytest.mark.parametrize("headers", NOT_A_TOKEN)
async def test_no_token_or_a_wrong_one_is_unauthorized(guarded, headers):
    exchange = await ask(guarded, "GET", "/v1/operations", *headers)
    assert (exchange.status, exchange.slug) == (401, "unauthorized")
    assert exchange.headers["www-authenticate"] == "Bearer"
    assert exchange.headers["cache-control"] == "no-store"
    assert exchange.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("value", ["Bearer {}", "bearer {}", "BEARER {}", "Bearer   {}", " Bearer {}\t "])
async def test_the_scheme_ignores_case_and_surrounding_space(guarded, value):
    exchange = await ask(guarded, "GET", "/v1/operations", ("authorization", value.format(TOKEN["read"])))
    assert exchange.status == 200


@pytest.mark.parametrize("name", ["access_token", "token", "authorization"])
async def test_a_token_in_the_url_opens_nothing(guarded, name):
    assert (await ask(guarded, "GET", f"/v1/operations?{name}={TOKEN['admin']}")).slug == "unauthorized"
    assert (await ask(guarded, "GET", f"/v1/keys/{TOKEN['admin']}")).slug == "unauthorized"


FAULTS = [
    pytest.param("GET", "/nowhere", b"", [], id="unknown path"),
    pytest.param("GET", "/healthz/", b"", [], id="behind an open path"),
    pytest.param("GET", "//healthz", b"", [], id="an open path behind two slashes"),
    pytest.param("GET", "/v1/%2e%2e/healthz", b"", [], id="an open path behind dots"),
    pytest.param("PUT", "/v1/operations", b"", [], id="wrong method"),
    pytest.param("OPTIONS", "/v1/operations", b"", [], id="OPTIONS"),
    pytest.param("HEAD", "/v1/operations", b"", [], id="HEAD"),
    pytest.param("POST", "/v1/operations", b"{", [JSON], id="malformed body"),
    pytest.param("POST", "/v1/operations", b"{}", [JSON], id="invalid body"),
    pytest.param("POST", "/v1/operations", b"x" * (1 << 20), [JSON], id="huge body"),
    pytest.param(
        "POST", "/v1/operations", b"x", [("content-length", "9" * 18)], id="body that says it is too large"
    ),
    pytest.param("POST", "/v1/operations", b"{}", [("content-type", "text/plain")], id="wrong type"),
    pytest.param("GET", "/v1/operations?limit=no", b"", [], id="bad parameter"),
    pytest.param("GET", "/v1/keys/%ff", b"", [], id="bad key"),
    pytest.param("GET", "/v1/operations", b"", [("accept", "text/html")], id="not acceptable"),
    pytest.param("GET", "/v1/operations", b"", [("host", "evil.example")], id="wrong host"),
    pytest.param("POST", "/v1/operations", b"{}", [("origin", "http://evil.example")], id="cross-origin"),
]


@pytest.mark.parametrize(("method", "target", "body", "headers"), FAULTS)
async def test_a_missing_token_is_refused_before_the_body_is_read(guarded, method, target, body, headers):
    for token in ([], [bearer("nobody-0123456789abcdef")]):
        exchange = await ask(guarded, method, target, *headers, *token, body=[body])
        assert (exchange.status, exchange.unread) == (401, 1)
        assert exchange.headers["www-authenticate"] == "Bearer"


async def test_without_a_token_neither_drain_nor_operation_shows(guarded):
    guarded.service.draining = True
    for target in ("/v1/operations/known", "/v1/operations/unknown", "/v1/wait?key=a&wait=5"):
        answers = {(await ask(guarded, "GET", target)).body for _ in range(2)}
        assert answers == {(await ask(guarded, "GET", "/v1/operations")).body}


async def test_with_a_token_the_other_faults_are_reported(guarded):
    read = bearer(TOKEN["read"])
    assert (await ask(guarded, "GET", "/nowhere", read)).slug == "not-found"
    wrong_method = await ask(guarded, "PUT", "/v1/operations", read)
    assert (wrong_method.slug, wrong_method.headers["allow"]) == ("method-not-allowed", "GET, HEAD, POST")
    assert (
        await ask(guarded, "POST", "/v1/operations", bearer(TOKEN["wait"]), JSON, body=b"{")
    ).slug == "malformed"


async def test_without_a_tokens_file_no_token_is_required(client):
    for headers in ([], [bearer("whatever")], [("authorization", "Basic eDp5")]):
        assert (await ask(client, "GET", "/v1/operations", *headers)).status == 200


async def test_no_refusal_repeats_or_logs_a_token(guarded):
    wrong = "nobody-0123456789abcdef"
    attempts = [
        ("GET", "/v1/operations", [bearer(wrong)]),
        ("GET", "/v1/operations", [("authorization", wrong)]),
        ("GET", "/v1/operations", [bearer(TOKEN["admin"]), bearer(wrong)]),
        ("POST", "/v1/operations", [bearer(TOKEN["read"])]),
        ("GET", "/nowhere", [bearer(TOKEN["admin"])]),
        ("PUT", "/v1/operations", [bearer(TOKEN["admin"])]),
        ("POST", "/v1/operations", [bearer(TOKEN["admin"]), ("origin", "null")]),
        ("GET", "/v1/operations", [bearer(TOKEN["admin"]), ("host", "evil.example")]),
        ("POST", "/v1/operations", [bearer(TOKEN["admin"]), JSON]),
    ]
    for method, target, headers in attempts:
        exchange = await ask(guarded, method, target, *headers)
        assert 400 <= exchange.status < 500
        shown = f"{exchange.headers}{exchange.body.decode()}{guarded.log.getvalue()}"
        assert "0123456789abcdef" not in shown


async def test_a_fault_of_ours_logs_no_token(guarded, monkeypatch):
    monkeypatch.setattr(guarded.service, "signal", lambda *_: 1 / 0)
    exchange = await ask(guarded, "POST", "/v1/keys/a/signal", bearer(TOKEN["signal"]))
    assert exchange.slug == "internal"
    logged = guarded.log.getvalue()
    assert "ZeroDivisionError" in logged
    assert "0123456789abcdef" not in logged
    guarded.log.truncate(0)
    guarded.log.seek(0)


async def test_the_file_is_reread_on_request_and_a_bad_one_ignored(guarded, tokens):
    old, new = bearer(TOKEN["read"]), bearer("another-0123456789")
    assert (await ask(guarded, "GET", "/v1/operations", new)).status == 401
    tokens.write_text("another-0123456789 read")
    assert (await ask(guarded, "GET", "/v1/operations", new)).status == 401
    guarded.app.access.reload()
    assert (await ask(guarded, "GET", "/v1/operations", new)).status == 200
    assert (await ask(guarded, "GET", "/v1/operations", old)).status == 401
    tokens.write_text("short read")
    with pytest.raises(SettingsError, match="line 1: the token must have"):
        guarded.app.access.reload()
    assert (await ask(guarded, "GET", "/v1/operations", new)).status == 200
    assert (await ask(guarded, "GET", "/v1/operations", old)).status == 401
    assert (await ask(guarded, "GET", "/v1/operations")).status == 401


async def test_an_application_whose_tokens_cannot_be_read_is_not_made(tmp_path):
    with pytest.raises(SettingsError, match="cannot read"):
        create_app(Settings(tokens=tmp_path / "tokens"))


async def test_its_repr_shows_the_number_of_tokens_and_none_of_them(guarded, client):
    assert repr(guarded.app.access) == "<Access tokens=<Tokens 4> hosts=['127.0.0.1']>"
    assert repr(client.app.access) == "<Access tokens=None hosts=['127.0.0.1']>"
