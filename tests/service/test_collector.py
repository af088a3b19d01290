"""The garbage collector never looks at all that is held: nothing is left to it, and its settings say so."""

import gc
from contextlib import contextmanager, nullcontext

import pytest

from purgatory_async.service.app import CATCH_UP
from purgatory_async.service.process import server
from purgatory_async.service.settings.settings import Settings
from purgatory_async.testing import settle

HELD = 20
POLLS = {
    "operation": ("POST", "/v1/operations?wait=9", {"keys": ["a"]}),
    "key": ("GET", "/v1/keys/a?index=0&wait=9", None),
    "wait": ("GET", "/v1/wait?key=a&wait=9", None),
    "take": ("POST", "/v1/queues/a/take?wait=9", None),
}


@contextmanager
def nothing_left_to_the_collector():
    gc.collect()
    gc.disable()
    try:
        yield
        found = gc.collect()
    finally:
        gc.enable()
    assert found == 0, f"the collector found {found} unreachable objects"


async def answered(client, exchanges):
    await client.signal("a")
    for _ in exchanges:
        await client.request("POST", "/v1/queues/a/items", {"item": 1})


async def expired(client, exchanges):
    await client.advance(9.001)


async def left(client, exchanges):
    for exchange in exchanges:
        exchange.hang_up()
    await settle()


async def drained(client, exchanges):
    client.service.drain()
    await settle()


# An exception that is kept by what its traceback leads to is such a cycle: thirty objects for each client that left.
@pytest.mark.asyncio
@pytest.mark.parametrize("end", [answered, expired, left, drained], ids=lambda end: end.__name__)
@pytest.mark.parametrize("poll", POLLS)
async def test_requests_that_were_held_leave_nothing_to_the_collector(make_client, poll, end):
    method, target, body = POLLS[poll]
    for warm in (True, False):  # objects made once do not belong to a request
        client = make_client()
        if warm:
            await end(client, [await client.held(method, target, body)])
            continue
        with nothing_left_to_the_collector():
            exchanges = [await client.held(method, target, body) for _ in range(HELD)]
            await end(client, exchanges)
            assert all(exchange.over.done() for exchange in exchanges)
            del exchanges


@pytest.mark.asyncio
async def test_what_tasks_refuse_leaves_nothing_to_the_collector(make_client):
    ahead = [("x-purgatory-position", "99")]
    for count in (1, HELD):  # objects made once do not belong to a request
        client = make_client()
        with nothing_left_to_the_collector() if count == HELD else nullcontext():
            exchanges = [client.start("GET", "/v1/keys/a", headers=ahead) for _ in range(count)]
            await settle()
            await client.advance(CATCH_UP + 0.001)
            assert {exchange.slug for exchange in exchanges} == {"behind"}
            del exchanges


# Scanning all objects of 15 000 held requests stops the loop for a third of a second.
def test_a_started_service_rarely_collects_all_generations(monkeypatch):
    seen = []
    monkeypatch.setattr(
        server, "run_on_uvloop", lambda _: seen.append((gc.get_threshold(), gc.get_freeze_count()))
    )
    before = gc.get_threshold()
    try:
        server.serve(Settings(port=0), print)
    finally:
        gc.set_threshold(*before)
    (((young, middle, old), frozen),) = seen
    assert young * middle <= 20_000
    assert young * middle * old >= 10_000_000
    assert frozen > 0
