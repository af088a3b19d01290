"""A held request hears of its client's end by a call, and has no task."""

import asyncio
import gc

import pytest

from purgatory_async.testing import settle
from tests.service.wire import HELD, SIGNAL, request

pytestmark = pytest.mark.asyncio


@pytest.fixture
def wired(make_client):
    """Connections to a service; at the end nothing is left of any."""
    made = make_client().server
    yield made
    assert made.idle
    assert not made.service.timer.pending


@pytest.mark.parametrize("body", [b"", b"12", b"12345"], ids=["none", "unread", "read"])
async def test_a_held_request_ends_when_its_client_leaves(wired, body):
    link = wired.link()
    head = request("/v1/wait?key=a&wait=30s", content_length=str(5 if body else 0))
    await link.send(head + body)
    assert wired.service.held.requests.count == 1
    await link.hang_up()
    await settle()
    assert (wired.service.held.requests.count, wired.service.waits.purgatory.pending) == (0, 0)


async def test_a_held_request_has_no_task(wired):
    before = len(asyncio.all_tasks())
    links = [wired.link() for _ in range(3)]
    for link in links:
        await link.send(HELD)
    assert len(asyncio.all_tasks()) == before
    assert wired.service.held.requests.count == len(links)
    for link in links:
        await link.hang_up()
    await settle()


async def test_the_next_request_is_not_ended_with_the_held_one(wired):
    link = wired.link()
    await link.send(HELD)
    await wired.client.signal("a")
    await link.send(SIGNAL)
    assert [reply.status for reply in link.replies] == [200, 200]
    await link.send(HELD)
    await link.hang_up()
    await settle()
    assert wired.service.held.requests.count == 0
    assert wired.service.metrics.undelivered == 0


async def test_a_result_for_a_client_that_left_is_undelivered(wired):
    link = wired.link()
    await link.send(request("/v1/keys/a?index=0&wait=50s"))
    link.pipe.close()  # noticed in the next pass of the loop, before the request runs again
    assert wired.service.held.requests.happened("a")
    await settle()
    assert (wired.service.held.requests.count, link.pipe.written) == (0, b"")
    assert wired.service.metrics.undelivered == 1


# While reading is paused a disconnect goes unseen.
async def test_a_held_request_reads_on_through_its_body(wired):
    link = wired.link()
    await link.send(request("/v1/keys/a?index=0&wait=50s", content_length="200000"), b"a" * 70_000)
    assert (wired.service.held.requests.count, link.pipe.reading) == (1, True)
    await link.hang_up()
    await settle()
    assert wired.service.held.requests.count == 0


# The fault: its coroutine is never awaited, which warns.
@pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])  # an eager task has had it
async def test_a_task_cancelled_before_its_first_step_leaves_nothing(wired):
    link = wired.link()
    link.protocol.data_received(request("/v1/admin/stats"))
    for task in list(wired.app.tasks):
        task.cancel()
    await settle()
    assert (link.pipe.cut, link.pipe.written, link.pipe.lost) == (True, b"", True)
    gc.collect()
