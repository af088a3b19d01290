"""What both clients make of addresses, tokens and connections, without a service."""

from contextlib import suppress

import httpx
import pytest

from purgatory_async.client import AsyncClient, Client, Policy, ServiceUnreachable
from purgatory_async.testing import ManualClock

BAD_ADDRESSES = [
    "",
    "localhost:8765",
    "ftp://h",
    "http://",
    "http:///x",
    "http://h:99999",
    "http://h?x",
    "http://h\n",
]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_address_that_is_none_is_refused_and_named(kind, address):
    with pytest.raises(ValueError, match="address must be like http://") as refused:
        kind(address)
    assert repr(address) in str(refused.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("address", ["http://me:secret@h", "http://secret@h"])
def test_a_password_in_an_address_is_refused_and_not_repeated(kind, address):
    with pytest.raises(ValueError, match="give a token") as refused:
        kind(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("token", ["", " ", "a\nb", "sécret", "secret ", b"secret"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_repeated(kind, token):
    with pytest.raises((ValueError, TypeError), match="token must be") as refused:
        kind("http://h", token=token)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(
    "error", [httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadTimeout, httpx.DecodingError]
)
def test_whatever_the_connection_says_is_an_error_of_ours_with_the_reason(error):
    def fail(request):
        raise error("the reason")

    clock = ManualClock()
    policy = Policy(clock=clock.time)
    with (
        Client("http://h", policy=policy, transport=httpx.MockTransport(fail), sleep=clock.advance) as client,
        pytest.raises(ServiceUnreachable, match="GET /v1/admin/stats was not answered: the reason"),
    ):
        client.stats()


def test_an_interrupted_wait_cancels_its_operation():
    seen = []

    def answer(request):
        seen.append((request.method, request.url.path))
        if request.method == "POST":
            raise KeyboardInterrupt
        return httpx.Response(200, json={})

    with (
        Client("http://h", transport=httpx.MockTransport(answer)) as client,
        suppress(KeyboardInterrupt),
    ):
        client.wait("k")
    assert [method for method, _ in seen] == ["POST", "DELETE"]
    assert seen[1][1].removeprefix("/v1/operations/")


def test_a_prefix_stands_before_every_path():
    seen = []

    def answer(request):
        seen.append(request.url.raw_path)
        return httpx.Response(200, json={})

    with Client("http://h/pre/", transport=httpx.MockTransport(answer)) as client:
        client.stats()
    assert seen == [b"/pre/v1/admin/stats"]
