"""What readers of a SQLite log may show: nothing that its end mark does not count, also if a writer dies."""

import asyncio
import subprocess
from contextlib import aclosing, asynccontextmanager, contextmanager

import pytest

from purgatory_async.cluster import LogUnavailable, SqliteLog
from purgatory_async.cluster.end_mark import EndMarkFile
from purgatory_async.cluster.nudges import Nudges
from tests.cluster.end_mark_model import BrokenError, explore
from tests.cluster.reading import read
from tests.processes import python

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("polls", "asks"), [(1, 1), pytest.param(2, 1, marks=SLOW), pytest.param(1, 2, marks=SLOW)]
)
def test_no_read_shows_less_than_an_earlier_answer(polls, asks):
    assert explore("whole", polls, asks) > 100_000


@pytest.mark.parametrize("rule", ["uncounted", "turnless", "early", "patient"])
def test_a_weaker_rule_breaks_a_promise(rule):
    with pytest.raises(BrokenError):
        explore(rule)


@asynccontextmanager
async def opened(path):
    log = SqliteLog(path)
    await log.open()
    try:
        yield log
    finally:
        await log.aclose()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def uncounted(monkeypatch):
    """A function that makes writers die between commit and mark, as far as others can see."""
    whole = EndMarkFile.write

    def write(mark, epoch, position, *, safe, durable=False):
        if safe and not durable:  # an append; a reader that counts says that nothing is safe
            raise OSError(5, "killed")
        whole(mark, epoch, position, safe=safe, durable=durable)

    return lambda: monkeypatch.setattr(EndMarkFile, "write", write)


@pytest.mark.asyncio
async def test_the_end_is_known_without_asking(path):
    async with opened(path) as log, opened(path) as other:
        assert log.end_now() == 0
        await log.append([b"a", b"b"])
        assert (log.end_now(), other.end_now()) == (2, 2)


@pytest.mark.asyncio
async def test_an_end_of_another_epoch_is_not_known(path):
    async with opened(path) as log, opened(path) as other:
        await other.change_epoch()
        assert log.end_now() is None


@pytest.mark.asyncio
async def test_a_removed_mark_is_not_known(path):
    async with opened(path) as log:
        path.with_name(f"{path.name}.lock").unlink()
        assert log.end_now() is None


@pytest.mark.asyncio
async def test_a_mark_that_is_being_written_is_not_known(path):
    async with opened(path) as log:
        await log.append([b"a"])
        path.with_name(f"{path.name}.lock").write_bytes(b"torn")
        assert log.end_now() is None
        assert await log.end() == 1
        assert [entry.data for entry in await read(log, 1)] == [b"a"]


@pytest.mark.asyncio
async def test_an_entry_whose_writer_died_is_counted_by_a_reader(path, uncounted):
    async with opened(path) as log, opened(path) as other:
        await log.append([b"a"])
        uncounted()
        with pytest.raises(LogUnavailable, match="killed"):
            await log.append([b"b"])
        assert [log.end_now(), await log.end()] == [1, 1]  # not in the log yet
        assert [entry.data for entry in await read(other, 2)] == [b"a", b"b"]
        assert [log.end_now(), other.end_now(), await log.end()] == [2, 2, 2]


@pytest.mark.asyncio
async def test_an_entry_whose_writer_died_is_counted_by_the_next(path, uncounted, monkeypatch):
    async with opened(path) as log, opened(path) as other:
        uncounted()
        with pytest.raises(LogUnavailable, match="killed"):
            await log.append([b"a"])
        monkeypatch.undo()
        await other.append([b"b"])
        assert log.end_now() == 2


@pytest.mark.asyncio
async def test_nothing_is_handed_out_before_it_is_counted(path, monkeypatch):
    monkeypatch.setattr(Nudges, "send", lambda *_: None)
    async with opened(path) as log, opened(path) as other:
        ahead = list[tuple[int, int]]()

        async def follow():
            async with aclosing(log.follow(0)) as stream:
                async for entries in stream:
                    ahead.append((entries[-1].position, log.end_now()))

        following = asyncio.create_task(follow())
        while len(ahead) < 3:
            await other.append([b"a"])
        following.cancel()
    assert all(position <= end for position, end in ahead)


APPEND = """
import asyncio, sys
from purgatory_async.cluster import SqliteLog
from purgatory_async.cluster.end_mark import EndMarkFile

whole = EndMarkFile.write

def write(mark, epoch, position, *, safe, durable=False):
    if position == 2:
        print("committed", flush=True)
        sys.stdin.readline()  # with its turn
    whole(mark, epoch, position, safe=safe, durable=durable)

async def main():
    log = SqliteLog(sys.argv[1])
    await log.open()
    await log.append([b"a"])
    EndMarkFile.write = write
    await log.append([b"b"])

asyncio.run(main())
"""


@contextmanager
def committed(path):
    """A process that has committed entry 2, and has not counted it yet."""
    with python("-c", APPEND, path, stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == "committed\n"
        yield process


@pytest.mark.slow
@pytest.mark.asyncio
async def test_what_a_killed_process_committed_is_shown(path):
    async with opened(path) as log:
        with committed(path) as process:
            process.kill()
        assert [entry.data for entry in await read(log, 2)] == [b"a", b"b"]
        assert log.end_now() == 2


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_process_stopped_before_its_mark_stops_no_read(path):
    async with opened(path) as log, opened(path) as other:
        with committed(path) as process:
            assert await log.end() == log.end_now() == 1
            behind = asyncio.create_task(read(other, 2, after=1))
            assert [entry.data for entry in await read(other, 1)] == [b"a"]
            assert await log.end() == await other.end() == 1
            assert not behind.done()
            process.communicate("go on\n")
        assert [entry.data for entry in await behind] == [b"b"]
