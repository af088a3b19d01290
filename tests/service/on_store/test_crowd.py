"""A thousand held polls at each of four workers, and one signal."""

import asyncio
import json
import resource
import time

import pytest

from tests.processes import PATIENCE_S

pytestmark = pytest.mark.slow

POLLS = 1000


@pytest.fixture
def many_files():
    """Let this process, and those that it starts, open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def poll(port):
    """Send a held request; returns the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /v1/keys/a?index=0&wait=10m HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return reader, writer


async def answer(reader, writer):
    """The status of an answer, and the value in it."""
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.split(b"\r\n")[0], json.loads(body)["value"]


def test_one_signal_answers_1_000_polls_at_each_worker(worker, file_store, many_files):
    workers = [worker(file_store).ready() for _ in range(4)]

    async def main():
        polls = []
        for each in workers:
            polls += await asyncio.gather(*(poll(each.port) for _ in range(POLLS)))
        for each in workers:
            give_up = time.monotonic() + PATIENCE_S
            while (await asyncio.to_thread(each.counts))["held"] < POLLS:
                assert time.monotonic() < give_up, "polls are not held"
        signalled = await asyncio.to_thread(workers[0].request, "POST", "/v1/keys/a/signal", {"value": 1})
        assert signalled.status == 200
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.gather(*(answer(*each) for each in polls))

    answers = asyncio.run(main())
    assert answers == [(b"HTTP/1.1 200 OK", 1)] * 4 * POLLS
    assert [each.counts()["held"] for each in workers] == [0] * 4
