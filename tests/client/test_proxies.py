"""Proxies of the environment: this machine is never asked through one, and errors name the one that was asked."""

import httpx2
import pytest

from purgatory_async.client import AsyncClient, Client, Policy, RequestRefused, ServiceUnreachable
from purgatory_async.client._transport import naming, proxy_of

NOBODY = "127.0.0.1:9"  # nothing listens on the port of RFC 863 here
HERE = [
    *("http://127.0.0.1:8765", "http://127.8.9.1", "http://localhost:8765/below", "http://LOCALHOST."),
    *("http://app.localhost", "https://[::1]:8765", "http://[::ffff:127.0.0.1]", "http://0.0.0.0:8765"),
    *("http://[::]:8765", "unix:///run/purgatory.sock"),
]
ELSEWHERE = [
    "http://service.example",
    "http://10.0.0.7:8765",
    "https://localhost.example",
    "http://128.0.0.1",
]


@pytest.fixture(autouse=True)
def proxies(monkeypatch):
    """The variables of a proxy where none listens; returns a function that sets another."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@{NOBODY}")
    monkeypatch.setenv("http_proxy", f"http://me:secret@{NOBODY}")
    return monkeypatch.setenv


@pytest.mark.parametrize("address", HERE)
def test_this_machine_is_asked_itself(address):
    assert proxy_of(address) is None


@pytest.mark.parametrize("address", ELSEWHERE)
def test_another_machine_is_asked_through_the_proxy(address):
    assert proxy_of(address) == f"http://me:secret@{NOBODY}"


def test_a_proxy_may_be_for_all_schemes_and_lack_its_own(proxies):
    proxies("http_proxy", "")
    proxies("ALL_PROXY", "proxy.example:3128")
    assert proxy_of("http://service.example") == "http://proxy.example:3128"


@pytest.mark.parametrize("spared", ["*", "service.example", ".example", "a.b,service.example:8765"])
def test_no_proxy_is_obeyed(proxies, spared):
    proxies("NO_PROXY", spared)
    assert proxy_of("http://service.example:8765") is None


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("proxy", ["ftp://me:secret@proxy", "http://me:secret@proxy:port"])
def test_a_malformed_proxy_is_named_by_its_variable(proxies, kind, proxy):
    proxies("http_proxy", proxy)
    with pytest.raises(ValueError, match="http_proxy must be like http://proxy:3128") as refused:
        kind("http://service.example")
    assert "secret" not in str(refused.value)
    kind("http://localhost")


NAMED = f"asked through the proxy http://{NOBODY} of the environment"


@pytest.mark.parametrize(
    ("address", "named"), [("http://service.example", True), (f"http://{NOBODY}", False)]
)
def test_what_was_not_answered_names_the_proxy_and_no_password(address, named):
    with Client(address, policy=Policy(patience=0)) as client:
        for call in (client.drain, lambda: next(client.events())):
            with pytest.raises(ServiceUnreachable) as unanswered:
                call()
            assert (NAMED in str(unanswered.value)) is named
            assert "secret" not in str(unanswered.value)


@pytest.mark.asyncio
async def test_so_does_the_async_client():
    async with AsyncClient("http://service.example", policy=Policy(patience=0)) as client:
        with pytest.raises(ServiceUnreachable, match=NAMED):
            await client.drain()
        with pytest.raises(ServiceUnreachable, match=NAMED):
            await anext(client.events())


def test_only_what_may_be_an_answer_of_the_proxy_names_it():
    proxy = f"http://{NOBODY}"
    with pytest.raises(RequestRefused, match=NAMED), naming(proxy):
        raise RequestRefused.of(403, "<html>")
    problem = {"type": "urn:purgatory:problem:forbidden", "detail": "the token must have the scope read"}
    with pytest.raises(RequestRefused) as refused, naming(proxy):
        raise RequestRefused.of(403, problem)
    assert str(refused.value) == "403 forbidden: the token must have the scope read"


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_transport_of_another_library_is_refused_at_once(client):
    with pytest.raises(
        TypeError, match=r"must be an httpx2\.\w*BaseTransport, got builtins.object; .* httpx does not"
    ):
        client("http://h", transport=object())


def test_a_given_transport_is_asked_itself():
    transport = httpx2.MockTransport(lambda _: httpx2.Response(202, json={}))
    with Client("http://service.example", transport=transport) as client:
        client.drain()
