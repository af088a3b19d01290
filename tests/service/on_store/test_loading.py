"""What a request sees at a worker that has not loaded its state yet: what it would see later."""

import asyncio

import pytest

from tests.service.every_request import CHANGES, REPEATABLE, SAMPLES, furnish

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


async def sent_while_loading(members, row, headers=()):
    """Send a request to a worker, let it load its state, and return the answer."""
    method, path = row.split()
    there = await members.loading()
    request = there.start(method, SAMPLES[row].target(path, "in-"), SAMPLES[row].content("in-"), headers)
    await asyncio.sleep(1)
    assert not request.answered or path == "/v1/admin/drain"
    there.link.away = False
    await request.over
    return request


@pytest.mark.parametrize("row", CHANGES)
async def test_every_change_waits_until_the_state_is_loaded(members, row):
    furnish(await members.start(), "in-")
    await asyncio.sleep(1)
    answer = await sent_while_loading(members, row)
    assert answer.status == SAMPLES[row].status, answer.body


@pytest.mark.parametrize("row", REPEATABLE)
async def test_an_earlier_request_with_the_same_key_is_found(members, row):
    here = await members.start()
    furnish(here, "in-")
    method, path = row.split()
    once = [("idempotency-key", "k")]
    first = await here.request(method, SAMPLES[row].target(path, "in-"), SAMPLES[row].content("in-"), once)
    again = await sent_while_loading(members, row, once)
    assert (again.status, again.headers.get("idempotency-replayed")) == (first.status, "true"), again.body
