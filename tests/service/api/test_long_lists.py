"""Lists of a body that are far too long are refused before their elements are made."""

import asyncio
import json
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.durable.documents import strict_json
from purgatory_async.durable.documents.long_lists import check_list
from purgatory_async.durable.documents.messages import MAX_LISTED
from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.api import request as request_module

JSON = ("content-type", "application/json")
LISTS = {
    "keys": ("/v1/operations", MAX_LISTED),
    "signals": ("/v1/signals", 1000),
    "items": ("/v1/queues/q/items", 100),
    "leases": ("/v1/leases/ack", 100),
}
ELEMENTS = ["1", '"a"', "[1,[2,{}]]", '{"a":1,"b":2}', '"\\\\"', '"\\",["', "[]", '",,,"']


def listed(name, element, number, padding=1 << 14):
    """A body with a list of that many elements, long enough to be looked at."""
    elements = ",".join(islice((element for _ in count()), number))
    return f'{{"x":"{" " * padding}","{name}":[{elements}]}}'.encode()


@pytest.mark.parametrize("element", ELEMENTS)
def test_a_list_is_as_long_as_its_elements_are_many(element):
    check_list(listed("keys", element, 100), "keys", 100)
    with pytest.raises(Problem, match=r"/keys: Expected `array` of length <= 100"):
        check_list(listed("keys", element, 101), "keys", 100)


@given(st.lists(st.recursive(st.integers() | st.text(), st.lists, max_leaves=5), max_size=8))
def test_any_list_is_counted_right(elements):
    body = json.dumps({"x": " " * (1 << 14), "keys": elements}).encode()
    check_list(body, "keys", max(1, len(elements)))
    if len(elements) > 1:
        with pytest.raises(Problem):
            check_list(body, "keys", len(elements) - 1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 20_000,
        b'{"keys":' + b"[" * 20_000 + b"," * 200 + b"]" * 20_000 + b"}",
        b'{"keys":"' + b"," * 20_000 + b'"}',
        b'{"others":[' + b"1," * 20_000 + b"1]}",
    ],
    ids=["nothing", "no end", "deep", "a string", "another"],
)
def test_what_is_no_long_list_is_left_to_others(body):
    check_list(body, "keys", 100)


@pytest.mark.asyncio
@pytest.mark.parametrize("name", LISTS)
async def test_a_body_with_a_list_that_is_too_long_is_invalid(client, name):
    target, most = LISTS[name]
    reply = await client.request("POST", target, json.dumps({name: ["a"] * 200_000}).encode(), [JSON])
    assert (reply.status, reply.slug) == (422, "invalid")
    [fault] = reply.json["errors"]
    assert (fault["pointer"], fault["detail"]) == (f"/{name}", f"Expected `array` of length <= {most}")


@pytest.mark.asyncio
async def test_so_many_keys_may_be_listed_and_no_more(client):
    assert (await client.request("POST", "/v1/operations", {"keys": ["a"] * MAX_LISTED})).status == 202
    reply = await client.request("POST", "/v1/operations", {"keys": ["a"] * (MAX_LISTED + 1)})
    assert (reply.slug, reply.json["errors"][0]["pointer"]) == ("invalid", "/keys")


@pytest.mark.asyncio
async def test_others_have_a_turn_before_the_digest_of_a_large_body(client, monkeypatch):
    turns = []

    def checked(body, check=strict_json.check):
        check(body)
        asyncio.get_running_loop().call_soon(turns.append, "another")

    def digested(*request, digest=request_module.digest_of):
        turns.append("digest")
        return digest(*request)

    monkeypatch.setattr(strict_json, "check", checked)
    monkeypatch.setattr(request_module, "digest_of", digested)
    body = {"keys": ["a"], "data": "x" * 100_000}
    reply = await client.request("POST", "/v1/operations", body, [("idempotency-key", "k")])
    assert (reply.status, turns) == (202, ["another", "digest"])
