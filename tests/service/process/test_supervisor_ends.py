"""How a supervisor takes each end of a worker, with a small program in the place of the workers."""

import asyncio
import gc
import io
import json
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from purgatory_async.cluster.log import LogDamaged
from purgatory_async.service.logs import stderr_log
from purgatory_async.service.process import supervisor
from purgatory_async.service.process.listeners import StartRefused, listen
from purgatory_async.service.process.supervisor import Supervisor
from purgatory_async.service.settings.settings import Settings
from tests.processes import PATIENCE_S
from tests.service.process.test_supervisor import gone

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

# It gets ready, and ends with the code of its number for the present occasion; each is a member of a JSON document.
WORKER = """
import asyncio, json, os, signal, socket, sys
from purgatory_async.service.channel import Channel, Forwarded, Ready, Refused, Start

async def main():
    occasions, channel = json.loads(sys.argv[1]), await Channel.over(socket.socket(fileno=int(sys.argv[2])))
    ending = None
    while ending is None:
        message = await channel.receive()
        if isinstance(message, Start):
            number = str(message.number)
            ending = occasions.get("start", {}).get(number)
            if ending is None:
                channel.send(Ready())
            elif ending == "hang":
                ending = None
        elif isinstance(message, Forwarded):
            occasion = signal.Signals(message.signal).name
            ending = occasions.get(occasion, {}).get(number, 0 if occasion == "SIGTERM" else None)
        elif message is None:
            ending = 0
    if ending < 0:
        os.kill(os.getpid(), -ending)
    if ending in (2, 3):
        channel.send(Refused(f"reason {ending}"))
    await channel.aclose()
    return ending

sys.exit(asyncio.run(main()))
"""


GIVEN_UP = "worker is given up, the others go on without it: mend the reason, then restart the service"


class Supervised:
    """A supervisor in this process, and what it logged and announced."""

    def __init__(self, tmp_path, occasions, workers=2):
        script, tokens = tmp_path / "worker.py", tmp_path / "tokens"
        script.write_text(WORKER)
        self.settings = Settings(port=0, workers=workers, store=f"sqlite:///{tmp_path}/a.db", tokens=tokens)
        self.command = [sys.executable, str(script), json.dumps(occasions)]
        self.stream = io.StringIO()
        self.announced = []

    @property
    def records(self):
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def logged(self, message):
        return [record for record in self.records if record["message"] == message]

    async def run(self):
        with listen(self.settings) as listeners:
            supervised = Supervisor(self.settings, listeners, stderr_log(self.stream), self.command)
            async with asyncio.timeout(PATIENCE_S):
                return await supervised.run(self.announced.append)

    async def until(self, message, times=1):
        async with asyncio.timeout(PATIENCE_S):
            while len(self.logged(message)) < times:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(supervised):
    task = asyncio.create_task(supervised.run())
    try:
        yield task
    finally:
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait([task])


async def test_the_pause_doubles_while_a_worker_keeps_ending(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.04)
    supervised = Supervised(tmp_path, {"start": {"2": 1}})
    async with running(supervised) as task:
        await supervised.until("worker ended", 4)
    assert [record["started_again_in"] for record in supervised.logged("worker ended")][:4] == [
        0.01,
        0.02,
        0.04,
        0.04,
    ]
    assert supervised.announced == []
    assert task.result() == 0


async def test_the_pause_is_short_again_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.0)  # so any time is long enough
    supervised = Supervised(tmp_path, {"SIGHUP": {"2": -signal.SIGKILL}})
    async with running(supervised):
        await supervised.until("all workers are ready")
        for number in (1, 2):
            os.kill(os.getpid(), signal.SIGHUP)
            await supervised.until("worker ended", number)
            await supervised.until("worker started", 2 + number)
    ended = supervised.logged("worker ended")
    assert [(record["signal"], record["started_again_in"]) for record in ended] == [("SIGKILL", 0.01)] * 2


@pytest.mark.parametrize(("code", "error"), [(2, StartRefused), (3, LogDamaged)])
async def test_a_start_that_one_worker_refuses_ends_all(tmp_path, code, error):
    supervised = Supervised(tmp_path, {"start": {"2": code}})
    async with running(supervised) as task:
        await asyncio.wait([task])
    with pytest.raises(error, match=f"reason {code}"):
        task.result()
    assert supervised.announced == []
    assert len(supervised.logged("worker started")) == 2


async def test_a_worker_that_has_ended_need_not_be_terminated(tmp_path, monkeypatch):
    def too_late(process):
        raise ProcessLookupError

    monkeypatch.setattr("anyio._backends._asyncio.Process.terminate", too_late)
    supervised = Supervised(tmp_path, {"start": {"1": 2, "2": 2}})
    async with running(supervised) as task:
        await asyncio.wait([task])
    with pytest.raises(StartRefused, match="reason 2"):
        task.result()


async def test_the_others_go_on_without_a_damaged_worker(tmp_path):
    supervised = Supervised(tmp_path, {"SIGHUP": {"2": 3}})
    async with running(supervised) as task:
        await supervised.until("all workers are ready")
        os.kill(os.getpid(), signal.SIGHUP)
        await supervised.until(GIVEN_UP)
        assert not task.done()
    assert task.result() == 0
    (record,) = supervised.logged(GIVEN_UP)
    assert (record["worker"], record["code"], record["reason"]) == (2, 3, "reason 3")


async def test_the_last_worker_to_be_given_up_ends_the_service(tmp_path):
    supervised = Supervised(tmp_path, {"SIGHUP": {"1": 3, "2": 3}})
    async with running(supervised) as task:
        await supervised.until("all workers are ready")
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait([task])
    with pytest.raises(LogDamaged, match="reason 3"):
        task.result()


async def test_a_worker_that_fails_while_it_stops_is_told(tmp_path):
    supervised = Supervised(tmp_path, {"SIGTERM": {"1": 7}})
    async with running(supervised) as task:
        await supervised.until("all workers are ready")
    assert task.result() == 1
    (failed,) = supervised.logged("worker failed while it stopped")
    assert (failed["worker"], failed["code"]) == (1, 7)


async def test_a_worker_that_is_not_ready_is_terminated(tmp_path):
    supervised = Supervised(tmp_path, {"start": {"2": "hang"}})
    async with running(supervised) as task:
        await supervised.until("worker started", 2)
    assert task.result() == 0
    assert [record["message"] for record in supervised.records][2:] == ["stopping", "stopped"]


# It waits for none of them, which is what the warning says once they are collected: here, not in a test that follows.
@pytest.mark.filterwarnings("ignore:(subprocess .* is still running|unclosed transport):ResourceWarning")
async def test_a_cancelled_supervisor_leaves_no_worker(tmp_path):
    supervised = Supervised(tmp_path, {})
    async with running(supervised) as task:
        await supervised.until("all workers are ready")
        task.cancel()
    pids = [record["pid"] for record in supervised.logged("worker started")]
    async with asyncio.timeout(PATIENCE_S):
        while not all(map(gone, pids)):  # noqa: ASYNC110 - they are no children that could be awaited
            await asyncio.sleep(0.01)
    del task
    gc.collect()


async def test_without_a_process_a_worker_is_started_later(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    supervised = Supervised(tmp_path, {})
    pairs, socketpair = iter([OSError(24, "Too many open files")]), socket.socketpair

    def short_of_files():
        for error in pairs:
            raise error
        return socketpair()

    monkeypatch.setattr(supervisor.socket, "socketpair", short_of_files)
    async with running(supervised) as task:
        await supervised.until("all workers are ready")
    assert "Too many open files" in supervised.logged("worker has no process")[0]["reason"]
    assert task.result() == 0
