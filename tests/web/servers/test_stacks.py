"""Real frameworks, real servers, and a real client that hangs up."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from purgatory_async import Purgatory
from tests.web.servers.stacks import ON_AIOHTTP, ON_UVICORN
from tests.web.servers.wire import Connection, until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]

STACKS = {**ON_UVICORN, **ON_AIOHTTP}
each_stack = pytest.mark.parametrize("stack", STACKS)
# Where a client that leaves is not the matter, the way to the framework is all that differs.
each_framework = pytest.mark.parametrize("stack", ["starlette-httptools", "fastapi", "asgi-h11", "aiohttp"])
each_aiohttp = pytest.mark.parametrize("stack", ON_AIOHTTP)
each_way = pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])


@pytest.fixture(autouse=True)
def nothing_logged(request, caplog):
    """A server logs what a handler lets out, and goes on; no other check would see it."""
    yield
    faults = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert bool(faults) == ("json" in request.node.name), faults


@asynccontextmanager
async def served(stack, **limits):
    """A purgatory that a stack serves, and a function that connects to it; at the end no task is left."""
    async with AsyncExitStack() as ends:
        purgatory = await ends.enter_async_context(Purgatory(**limits))
        port = await ends.enter_async_context(STACKS[stack](purgatory))

        async def ask(*request):
            return await ends.enter_context(Connection(port)).ask(*request)

        yield purgatory, ask
    # A connection's own end may come a few turns after its server's.
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


@each_stack
async def test_a_poll_is_answered_with_the_value_that_comes(stack):
    async with served(stack) as (purgatory, ask):
        connection = await ask("/poll?wait=20s&x=y", b"", "Prefer: wait=9")
        await until(lambda: purgatory.pending)
        purgatory.complete_for_key("k", {"status": "green"})
        answer = await connection.answer()
    assert (answer.status, json.loads(answer.body)) == (200, {"status": "green"})
    wanted = {
        "content-type": "application/json",
        "cache-control": "no-store",
        "vary": "Prefer",
        "preference-applied": "wait=20",
    }
    assert wanted.items() <= answer.headers.items()


@each_framework
async def test_a_connection_is_good_for_poll_after_poll(stack):
    async with served(stack) as (_, ask):
        connection = await ask("/poll?wait=20ms")
        for _ in range(3):
            answer = await connection.answer()
            assert (answer.status, answer.body) == (204, b"")
            assert not {"content-length", "content-type", "connection"} & answer.headers.keys()
            await connection.ask("/poll?wait=20ms")
        connection.hang_up(reset=False)


@each_framework
async def test_a_malformed_wait_is_a_400_in_one_sentence(stack):
    async with served(stack) as (_, ask):
        answer = await (await ask("/poll?wait=5%20s")).answer()
    assert (answer.status, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    assert answer.body.startswith(b"wait must follow [0-9]{1,9}(ms|s|m|h|d)?, got '5 s'; write it as ")
    assert answer.body.endswith(b"\n")


@each_stack
@each_way
async def test_a_client_that_hangs_up_leaves_nothing(stack, reset):
    async with served(stack) as (purgatory, ask):
        leaving = [await ask("/poll?wait=50s") for _ in range(20)]
        staying = await ask("/poll?wait=50s")
        await until(lambda: purgatory.pending == 21)
        for connection in leaving:
            connection.hang_up(reset=reset)
        await until(lambda: purgatory.pending == 1)
        purgatory.complete_for_key("k", "green")
        assert (await staying.answer()).status == 200


@each_stack
@each_way
async def test_a_client_that_leaves_its_stream_leaves_nothing(stack, reset):
    async with served(stack) as (purgatory, ask):
        connection = await ask("/events")
        await until(lambda: purgatory.pending)
        connection.hang_up(reset=reset)
        await until(lambda: purgatory.pending == 0)


@each_stack
@each_way
async def test_a_client_that_sent_a_body_and_hangs_up_leaves_nothing(stack, reset):
    async with served(stack) as (purgatory, ask):
        unread = await ask("/poll?wait=50s", b"{}" * 20_000)
        read = await ask("/read?wait=50s", b'{"a": 1}', "Content-Type: application/json")
        await until(lambda: purgatory.pending == 2)
        for connection in (unread, read):
            connection.hang_up(reset=reset)
        await until(lambda: purgatory.pending == 0)


@each_stack
async def test_a_client_that_shuts_its_side_down_leaves_nothing(stack):
    async with served(stack) as (purgatory, ask):
        connection = await ask("/poll?wait=50s")
        await until(lambda: purgatory.pending)
        connection.shut_down()
        await until(lambda: purgatory.pending == 0)


@each_stack
async def test_closing_the_purgatory_sends_503_and_closes(stack):
    async with served(stack) as (purgatory, ask):
        connection = await ask("/poll")
        await until(lambda: purgatory.pending)
        purgatory.close()
        answer = await connection.answer()
        assert (answer.status, answer.headers["connection"].lower()) == (503, "close")
        assert answer.headers["retry-after"] in {"0", "1"}
        assert await connection.ended()


@each_framework
async def test_a_full_purgatory_answers_503_and_keeps_the_connection(stack):
    async with served(stack, max_pending=1) as (purgatory, ask):
        first = await ask("/poll")
        await until(lambda: purgatory.pending)
        second = await ask("/poll")
        answer = await second.answer()
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
        assert "connection" not in answer.headers
        purgatory.complete_for_key("k", 1)
        assert (await first.answer()).status == 200
        await second.ask("/poll?wait=10ms")
        assert (await second.answer()).status == 204


@each_framework
async def test_a_value_beyond_json_is_a_fault_of_the_framework(stack):
    async with served(stack) as (_, ask):
        connection = await ask("/odd")
        answer = await connection.answer()
        assert answer.status == 500
        assert b"json" not in answer.body


@each_aiohttp
async def test_what_a_client_sends_ahead_while_it_is_held_is_heard(stack):
    async with served(stack) as (purgatory, ask):
        connection = await ask("/poll?wait=50s")
        await until(lambda: purgatory.pending)
        await connection.ask("/poll?wait=10ms")
        purgatory.complete_for_key("k", "green")
        assert [(await connection.answer()).status for _ in range(2)] == [200, 204]
