"""What only other servers let through: a connection refuses such heads itself, in test_head_refusals."""

import pytest
from prometheus_client import generate_latest

from tests.service.access.tokens_file import bearer
from tests.service.exchanges import Mounted

pytestmark = pytest.mark.asyncio

JSON = ("content-type", "application/json")
SIGNAL = "/v1/keys/a/signal"
HEADS = [
    pytest.param("get", "/v1/operations", [], id="a method in lower case"),
    pytest.param("BREW", "/v1/operations", [], id="an unknown method"),
    pytest.param("GET", "/v1/operations", [("host", "a"), ("host", "b")], id="two hosts"),
    pytest.param("GET", "/v1/wait?key=\u00e9", [], id="a target that is not ASCII"),
    pytest.param("POST", SIGNAL, [("content-length", "9" * 20)], id="a length that no body has"),
]


@pytest.fixture
def mounted(tenants):
    """A client through the adapter, whichever path the suite takes."""
    client = tenants("ann wait,signal").client
    client.through = Mounted
    return client


@pytest.mark.parametrize(("method", "target", "headers"), HEADS)
async def test_a_missing_token_comes_before_all_else(mounted, method, target, headers):
    for token in ([], bearer("nobody")):
        reply = await mounted.request(method, target, [b"{}"], [*headers, *token])
        assert (reply.status, reply.slug, reply.unread) == (401, "unauthorized", 1)


async def test_a_query_in_other_letters_is_refused(mounted):
    reply = await mounted.request("GET", "/v1/wait?key=a&since=\u00e9-1", headers=bearer("ann"))
    assert (reply.status, reply.slug) == (400, "bad-parameter")


async def test_a_length_of_many_digits_is_too_large(mounted):
    headers = [JSON, ("content-length", "9" * 5000), *bearer("ann")]
    reply = await mounted.request("POST", SIGNAL, [b"x"], headers)
    assert (reply.slug, reply.unread) == ("too-large", 1)


async def test_unknown_methods_are_refused_and_add_no_labels(mounted):
    for method in ("BREW", "VERB-"):
        assert (await mounted.request(method, "/healthz")).status == 405
        assert method not in generate_latest(mounted.service.metrics.registry).decode()
