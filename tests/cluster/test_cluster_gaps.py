"""What a cluster does when the log is trimmed, loses entries, or holds what it cannot read."""

import asyncio

import pytest
import pytest_asyncio

from purgatory_async.cluster import LogDamaged, LogRefused, LogUnavailable
from purgatory_async.cluster.retention import MARK
from tests.cluster.reading import each
from tests.cluster.workers import Workers

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


@pytest_asyncio.fixture
async def workers():
    async with Workers() as made:
        yield made


async def trim(workers, position):
    log = workers.log()
    await log.open()
    await log.save(position, each([b"a service's state"]), keep=0)


async def test_a_trimmed_worker_checks_all_and_goes_on(workers):
    here, there = await workers.start(), await workers.start()
    there.log.deaf_s = 3
    done = []
    waits = [
        asyncio.ensure_future(there.purgatory.wait(key, until=lambda: done or None)) for key in ("a", 7, "b")
    ]
    await here.cluster.signal("early")
    for number in range(10):
        await here.cluster.signal(f"k{number}")
    await trim(workers, 8)
    done.append("the condition holds, and its signal is gone")
    there.log.deaf_s = 0
    there.log.cut()
    await there.cluster.caught_up()
    (gap,) = there.gaps
    assert (gap.oldest, gap.epoch) == (9, here.cluster.epoch)
    assert await asyncio.gather(*waits) == [done] * 3
    assert there.keys[-4:] == ["k6", "k7", "k8", "k9"]  # whatever is still there is applied
    assert there.cluster.epoch == here.cluster.epoch
    await there.cluster.signal("after")
    await here.cluster.caught_up()
    assert here.keys[-1] == there.keys[-1] == "after"


async def test_lost_entries_are_a_gap_for_every_worker(workers):
    here, there = await workers.start(), await workers.start()
    for number in range(5):
        await here.cluster.signal(f"k{number}")
    await there.cluster.caught_up()
    epoch = here.cluster.epoch
    waiting = asyncio.ensure_future(there.purgatory.wait("x", until=lambda: there.gaps or None))
    await asyncio.sleep(0)
    workers.lose(2)
    await asyncio.sleep(10)
    assert [len(worker.gaps) for worker in (here, there)] == [1, 1]
    assert here.cluster.epoch == there.cluster.epoch == workers.store.epoch != epoch
    assert here.cluster.position == there.cluster.position == 4
    await waiting
    position = await here.cluster.signal("after")
    await there.cluster.caught_up(position)
    assert here.keys[-1] == there.keys[-1] == "after"
    assert len({here.cluster.position, there.cluster.position, workers.store.position}) == 1


async def test_a_signal_in_a_gap_is_unknown_at_once(workers):
    here, there = await workers.start(), await workers.start()
    here.log.deaf_s = 50
    await there.cluster.signal("first")
    signalling = asyncio.ensure_future(here.cluster.signal("k", timeout=3600))
    await asyncio.sleep(10)
    assert there.keys == ["first", "k"]
    await trim(workers, workers.store.position)
    with pytest.raises(LogUnavailable, match="the log has a gap before position 5: the outcome is unknown"):
        await signalling
    assert here.gaps
    here.log.deaf_s = 0
    await here.cluster.signal("after")
    await there.cluster.caught_up()
    assert there.keys == ["first", "k", "after"]


async def test_a_writer_introduced_in_a_gap_is_known_after_it(workers):
    here, there = await workers.start(), await workers.start()
    there.log.deaf_s = 7000
    await here.cluster.signal("a")
    await asyncio.sleep(3600)
    await here.cluster.signal("b")  # under another name, after so long
    await trim(workers, workers.store.position)
    there.log.deaf_s = 0
    await here.cluster.signal("c")
    await there.cluster.caught_up()
    assert len(there.gaps) == 1
    assert there.keys == ["c"]


async def test_an_error_of_on_gap_is_reported(workers):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    worker = await workers.start()

    def broken(gap):
        raise RuntimeError("cannot load it again")

    worker.cluster._on_gap = broken
    await worker.cluster.signal("k")
    workers.lose(1)
    await asyncio.sleep(10)
    await worker.cluster.signal("after")
    assert [str(context["exception"]) for context in reported] == ["cannot load it again"]


async def test_signals_made_in_sql_and_other_entries(workers):
    worker = await workers.start()
    workers.append(k="signal", key="sql", value=None)
    workers.append(k="signal", key="sql", value={"a": [1, 2.5]}, amount=2, voter=None)
    workers.append(k="submit", w="s", n=1, id="x", keys=["sql"], need={"voters": 2}, timeout=5)
    workers.append(k="limits", w="s", n=2, max_pending=5)
    workers.append(k="level", w="s", n=3, level=1)
    await worker.cluster.caught_up()
    assert worker.seen == [(1, "sql", None), (2, "sql", {"a": [1, 2.5]})]
    assert worker.cluster.position == 5


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b'{"k":"level","level":4}', LogRefused, "level 3 or below, got 4"),
        (b"no JSON", LogDamaged, "entry 1 must be a JSON object"),
        (b'{"k":"signal","key":7}', LogDamaged, "entry 1 must be a JSON object"),
    ],
)
async def test_an_entry_it_cannot_read_stops_it(workers, data, error, message):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    worker = await workers.start()
    waiting = asyncio.ensure_future(worker.purgatory.wait("k", timeout=3600))
    catching = asyncio.ensure_future(worker.cluster.caught_up(1))
    await asyncio.sleep(0)
    workers.store.append([data])
    with pytest.raises(error, match=message):
        await catching
    with pytest.raises(error, match=message):
        await worker.cluster.signal("k")
    assert not worker.cluster.connected
    assert [type(context["exception"]) for context in reported] == [error]
    assert not waiting.done()
    worker.purgatory.complete_for_key("k", "otherwise")
    assert await waiting == "otherwise"


async def signal_for(worker, minutes):
    for _ in range(minutes):
        await asyncio.sleep(60)
        await worker.cluster.signal("k")


async def test_without_a_service_signals_are_kept_an_hour(workers):
    here, there = await workers.start(), await workers.start()
    await signal_for(here, 55)
    assert workers.store.trimmed == 0
    await signal_for(here, 120)
    newest_us = workers.store.at_us
    ages = [(newest_us - entry.at_us) / 60e6 for entry in workers.store.entries]
    assert 60 <= ages[0] <= 65
    assert workers.store.parts[workers.store.checkpoint] == [MARK]
    assert here.gaps == there.gaps == []
    late = await workers.start()
    await signal_for(here, 90)
    await late.cluster.caught_up()
    assert late.keys == here.keys[-90:]


async def test_without_a_service_a_million_signals_are_kept(workers, monkeypatch):
    monkeypatch.setattr("purgatory_async.cluster.retention.KEPT_ENTRIES", 50)
    worker = await workers.start()
    for _ in range(200):
        await worker.cluster.signal("k")
    await asyncio.sleep(120)
    assert workers.store.position - workers.store.trimmed == 50


async def test_with_a_service_nothing_is_trimmed(workers, monkeypatch):
    monkeypatch.setattr("purgatory_async.cluster.retention.KEPT_ENTRIES", 50)
    worker = await workers.start()
    await worker.cluster.signal("k")
    await trim(workers, 1)
    for _ in range(200):
        await worker.cluster.signal("k")
    await asyncio.sleep(600)
    assert workers.store.trimmed == 1
    assert workers.store.parts[workers.store.checkpoint] == [b"a service's state"]


async def test_a_service_that_writes_keeps_its_entries(workers, monkeypatch):
    monkeypatch.setattr("purgatory_async.cluster.retention.KEPT_ENTRIES", 50)
    worker = await workers.start()
    workers.append(k="tick", w="service", n=2)
    for _ in range(200):
        await worker.cluster.signal("k")
    await asyncio.sleep(600)
    assert workers.store.trimmed == 0


async def test_entries_of_a_stopped_service_are_kept(workers, monkeypatch):
    monkeypatch.setattr("purgatory_async.cluster.retention.KEPT_ENTRIES", 50)
    workers.append(k="submit", w="service", n=2, id="x", keys=["k"])
    worker = await workers.start()
    for _ in range(200):
        await worker.cluster.signal("k")
    await asyncio.sleep(600)
    assert workers.store.trimmed == 0
