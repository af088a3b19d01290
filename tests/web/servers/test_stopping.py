"""A server stops while it holds polls: every poll is answered, and the process ends."""

import os
import signal
from contextlib import ExitStack

import pytest

from tests.processes import python
from tests.web.servers.wire import PATIENCE, Connection

HELD = 50
LOOPS = ("asyncio", "uvloop")
SIGNALS = ("SIGTERM", "SIGINT")

# A poll that is not released delays its server for longer than these tests wait.
WAIT = PATIENCE + 20

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_factories=["asyncio"])]


@pytest.fixture
def start():
    """Start servers; stop them all after the test."""
    with ExitStack() as ends:

        def start(*arguments):
            strict = {**os.environ, "PYTHONWARNINGS": "error"}
            server = python("-m", "tests.web.servers.stopped", *arguments, env=strict)
            ends.enter_context(server)
            ends.callback(server.kill)
            return server, int(server.stdout.readline())

        yield start


CASES = [
    *((stack, loop, number) for stack in ("starlette", "aiohttp") for loop in LOOPS for number in SIGNALS),
    ("middleware", "uvloop", "SIGTERM"),
    ("fastapi", "asyncio", "SIGTERM"),
    ("asgi", "uvloop", "SIGINT"),
]


@pytest.mark.parametrize(("stack", "loop", "name"), CASES, ids=["-".join(case) for case in CASES])
async def test_every_held_poll_is_answered_503_and_the_process_ends(start, stack, loop, name):
    number = signal.Signals[name]
    server, port = start(stack, loop, str(HELD))
    with ExitStack() as ends:
        connections = [ends.enter_context(Connection(port)) for _ in range(HELD)]
        for connection in connections:
            await connection.ask(f"/poll?wait={WAIT}s")
        assert server.stdout.readline() == "held\n"
        server.send_signal(number)
        answers = [await connection.answer() for connection in connections]
    assert {answer.status for answer in answers} == {503}
    assert {answer.headers["connection"].lower() for answer in answers} == {"close"}
    waits = {int(answer.headers["retry-after"]) for answer in answers}
    assert waits == {0, 1}
    _, errors = server.communicate(timeout=PATIENCE)
    # At its end uvicorn raises the signal once more; SIGINT is then swallowed by its caller.
    by_signal = stack != "aiohttp" and number == signal.SIGTERM
    assert server.returncode == (-number if by_signal else 0)
    assert "Traceback" not in errors
