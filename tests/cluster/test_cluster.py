"""Signals that reach every worker, once and in one order, whatever the connections do."""

import asyncio
import random

import pytest
import pytest_asyncio

from purgatory_async import OperationExpired, Purgatory, PurgatoryError, PurgatoryFull
from purgatory_async.cluster import Cluster, LogError, LogUnavailable, MemoryLog
from purgatory_async.cluster import writer as writer_module
from tests.cluster.faulty import ANSWER, REQUEST
from tests.cluster.workers import Workers

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


@pytest_asyncio.fixture
async def workers():
    async with Workers() as made:
        yield made


async def test_a_signal_completes_a_wait_at_another_worker(workers):
    here, there = await workers.start(), await workers.start()
    arrived = lambda: "order-42" in there.keys  # noqa: E731 - a condition, as an application writes it
    waiting = asyncio.ensure_future(there.purgatory.wait("order-42", until=arrived, timeout=5))
    await asyncio.sleep(1)
    position = await here.cluster.signal("order-42", {"paid": True})
    assert await waiting is True
    assert here.seen == there.seen == [(position, "order-42", {"paid": True})]


async def test_a_signal_is_applied_here_when_it_returns(workers):
    worker = await workers.start()
    position = await worker.cluster.signal("k", amount=3, voter="v")
    assert worker.cluster.position == position == 2  # after the introduction
    assert worker.seen == [(2, "k", None)]
    (entry,) = workers.entries()
    assert entry.keys() == {"k", "w", "n", "key", "amount", "voter"}
    assert (entry["k"], entry["n"], entry["key"], entry["amount"], entry["voter"]) == (
        "signal",
        2,
        "k",
        3,
        "v",
    )


async def test_signals_at_once_are_one_batch_in_order(workers):
    worker = await workers.start()
    positions = await asyncio.gather(*(worker.cluster.signal(f"k{number}") for number in range(100)))
    assert positions == list(range(2, 102))
    assert worker.keys == [f"k{number}" for number in range(100)]
    assert worker.log.appended == 2  # the introduction, and all of them


@pytest.mark.parametrize("losses", [[REQUEST], [ANSWER], [ANSWER, ANSWER, REQUEST, ANSWER]], ids="-".join)
@pytest.mark.parametrize("introduced", [False, True])
async def test_an_unknown_outcome_is_repeated_and_counts_once(workers, losses, introduced):
    here, there = await workers.start(), await workers.start()
    if introduced:
        await here.cluster.signal("first")
    here.log.losses.extend(losses)
    here.log.deaf_s = 1  # otherwise reading it back settles it first
    await here.cluster.signal("k")
    await there.cluster.caught_up()
    assert here.seen == there.seen
    assert here.keys == [*(["first"] if introduced else []), "k"]
    assert not here.log.losses


async def test_a_repetition_counts_once_however_late_it_comes(workers):
    here, there = await workers.start(), await workers.start()
    await here.cluster.signal("k")
    late = workers.store.entries[-1].data
    await here.cluster.signal("other")
    workers.store.append([late])
    await asyncio.sleep(3600)
    workers.store.append([late])
    await there.cluster.caught_up()
    assert here.keys == there.keys == ["k", "other"]


async def test_an_engine_that_is_away_is_unavailable_in_time(workers):
    worker = await workers.start()
    waiting = asyncio.ensure_future(worker.purgatory.wait("k", timeout=60))
    worker.log.away = True
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with pytest.raises(
        LogUnavailable, match=r"the signal on 'k' was not applied within 2 s; it may still happen"
    ):
        await worker.cluster.signal("k", timeout=2)
    assert loop.time() - begun == pytest.approx(2, abs=0.01)
    assert not waiting.done()
    worker.log.away = False
    await worker.cluster.signal("other")
    assert worker.keys == ["other"]  # nothing waited for the first one any more
    waiting.cancel()


async def test_a_signal_waits_for_an_engine_that_comes_back(workers):
    worker = await workers.start()
    worker.log.away = True
    signalling = asyncio.ensure_future(worker.cluster.signal("k", timeout=None))
    await asyncio.sleep(3600)
    assert not signalling.done()
    worker.log.away = False
    await signalling
    assert worker.keys == ["k"]


async def test_a_caller_that_leaves_before_the_append_appends_nothing(workers):
    worker = await workers.start()
    leaving, staying = (asyncio.ensure_future(worker.cluster.signal(key)) for key in ("left", "stayed"))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    assert worker.keys == ["stayed"]


async def test_signals_that_wait_for_the_engine_are_bounded(workers, monkeypatch):
    monkeypatch.setattr(writer_module, "MAX_WAITING", 3)
    worker = await workers.start()
    worker.log.away = True
    waiting = [asyncio.ensure_future(worker.cluster.signal("k", timeout=5)) for _ in range(3)]
    await asyncio.sleep(1)
    with pytest.raises(PurgatoryFull, match="at most 3 entries") as caught:
        await worker.cluster.signal("k")
    assert caught.value.limit == 3
    for each in waiting:
        with pytest.raises(LogUnavailable):
            await each


async def test_the_bound_in_bytes_counts_values(workers, monkeypatch):
    monkeypatch.setattr(writer_module, "MAX_WAITING_BYTES", 3000)
    worker = await workers.start()
    worker.log.away = True
    waiting = asyncio.ensure_future(worker.cluster.signal("k", "x" * 2000, timeout=5))
    await asyncio.sleep(1)
    with pytest.raises(PurgatoryFull, match="or 3000 bytes"):
        await worker.cluster.signal("k", "x" * 2000)
    with pytest.raises(LogUnavailable):
        await waiting
    worker.log.away = False
    await worker.cluster.signal("k", "x" * 2000)


async def test_an_error_of_apply_is_reported_and_the_next_follows(workers):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    worker = await workers.start()
    seen = worker.cluster._applier.apply

    def apply(signalled):
        if signalled.key == "bad":
            raise RuntimeError("cannot apply it")
        seen(signalled)

    worker.cluster._applier.apply = apply
    waiting = asyncio.ensure_future(worker.purgatory.wait("bad", until=lambda: True if reported else None))
    await asyncio.sleep(0)
    await worker.cluster.signal("bad")
    await worker.cluster.signal("good")
    assert worker.keys == ["good"]
    assert await waiting is True
    (context,) = reported
    assert str(context["exception"]) == "cannot apply it"
    assert "key='bad'" in context["message"]


async def test_a_cluster_starts_at_the_logs_end(workers):
    first = await workers.start()
    await first.cluster.signal("before")
    second = await workers.start()
    assert second.cluster.position == first.cluster.position
    assert second.cluster.epoch == first.cluster.epoch
    await first.cluster.signal("after")  # by a writer that was introduced before
    await second.cluster.caught_up()
    assert second.keys == ["after"]


async def test_caught_up_waits_for_what_others_appended(workers):
    here, there = await workers.start(), await workers.start()
    there.log.deaf_s = 3
    position = await here.cluster.signal("k")
    assert there.keys == []
    with pytest.raises(OperationExpired, match=f"did not reach {position} within 1"):
        await there.cluster.caught_up(timeout=1)
    assert await there.cluster.caught_up(timeout=10) == position
    assert there.keys == ["k"]
    assert await there.cluster.caught_up(position) == position
    with pytest.raises(OperationExpired):
        await there.cluster.caught_up(position + 1, timeout=1)


async def test_caught_up_needs_the_engine_only_for_its_end(workers):
    worker = await workers.start()
    position = await worker.cluster.signal("k")
    worker.log.away = True
    assert await worker.cluster.caught_up(position) == position
    with pytest.raises(LogUnavailable):
        await worker.cluster.caught_up()
    worker.log.away, worker.log.late_s = False, 60
    with pytest.raises(OperationExpired, match="the log's end did not come within 2 s"):
        await worker.cluster.caught_up(timeout=2)


async def test_connected_and_lag_follow_the_engine(workers):
    here, there = await workers.start(), await workers.start()
    await asyncio.sleep(10)
    assert there.cluster.connected
    assert there.cluster.lag == 0.0
    there.log.away = True
    await here.cluster.signal("k")
    await asyncio.sleep(10)
    assert not there.cluster.connected
    assert 8 <= there.cluster.lag <= 11
    there.log.away = False
    await asyncio.sleep(5)
    assert there.cluster.connected
    assert there.cluster.lag == 0.0
    there.log.deaf_s = 30
    await here.cluster.signal("k")
    await asyncio.sleep(10)
    assert there.cluster.connected  # its end is heard, the entries are not
    assert 8 <= there.cluster.lag <= 11


async def test_a_writer_that_was_idle_introduces_itself_again(workers):
    here, there = await workers.start(), await workers.start()
    await here.cluster.signal("a")
    await asyncio.sleep(3600)
    await here.cluster.signal("b")
    await there.cluster.caught_up()
    assert here.seen == there.seen
    assert here.keys == ["a", "b"]
    names = [entry["w"] for entry in workers.entries()]
    assert len(set(names)) == 2


async def test_a_writer_dropped_as_unknown_proposes_again(workers, monkeypatch):
    monkeypatch.setattr(writer_module, "RENEWED_AFTER_S", 1e9)
    here, there = await workers.start(), await workers.start()
    await here.cluster.signal("a")
    await asyncio.sleep(3600)
    position = await here.cluster.signal("b")
    await there.cluster.caught_up()
    assert here.seen == there.seen
    assert here.seen[1:] == [(position, "b", None)]
    assert [entry["key"] for entry in workers.entries()] == ["a", "b", "b"]  # the first b was dropped


async def test_closing_fails_what_waits_for_the_engine(workers):
    purgatory, log = Purgatory(), MemoryLog()
    async with Cluster(purgatory, log) as cluster:
        waiting = asyncio.ensure_future(cluster.caught_up(7))
        await asyncio.sleep(0)
    with pytest.raises(LogError, match="cluster is closed"):
        await waiting
    with pytest.raises(LogError, match="cluster is closed"):
        await cluster.signal("k")
    with pytest.raises(LogError, match="log is closed"):
        await log.end()
    assert not purgatory.closed
    assert not cluster.connected
    purgatory.close()


async def test_a_cluster_is_used_inside_its_context():
    async with Purgatory() as purgatory:
        cluster = Cluster(purgatory, MemoryLog())
        assert "not open" in repr(cluster)
        with pytest.raises(PurgatoryError, match="cluster is not open"):
            await cluster.signal("k")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"key": 7}, TypeError, "key must be text, got int"),
        ({"key": ""}, ValueError, "key must have 1 to 512 bytes in UTF-8, got 0"),
        ({"key": "é" * 257}, ValueError, "key must have 1 to 512 bytes in UTF-8, got 514"),
        ({"key": "a\nb"}, ValueError, "key must not contain control characters"),
        ({"key": "a\x9f"}, ValueError, "key must not contain control characters"),
        ({"key": ".."}, ValueError, "key must not be a path segment"),
        ({"key": "\ud800"}, ValueError, "key must be valid Unicode"),
        ({"voter": ""}, ValueError, "voter must have 1 to 512 bytes"),
        ({"amount": 0}, ValueError, "amount must be from 1 to 9007199254740991, got 0"),
        ({"amount": True}, TypeError, "amount must be an integer, got bool"),
        ({"value": object()}, TypeError, "object"),
        ({"value": "x" * 1_048_576}, ValueError, "value must be at most 1048576 bytes as JSON, got 1048578"),
        ({"timeout": float("nan")}, ValueError, "timeout must be finite"),
    ],
)
async def test_a_bad_argument_appends_nothing(workers, arguments, error, message):
    worker = await workers.start()
    with pytest.raises(error, match=message):
        await worker.cluster.signal(**{"key": "k"} | arguments)
    await asyncio.sleep(1)
    assert workers.store.position == 0


@pytest.mark.parametrize("seed", range(25))
async def test_chaos_keeps_one_order_and_loses_no_signal(workers, seed):
    draw = random.Random(seed)
    team = [await workers.start() for _ in range(3)]
    acknowledged, unknown, waits = {}, set(), {}
    working = True

    async def disturb():
        while working:
            await asyncio.sleep(draw.uniform(0, 0.3))
            worker = draw.choice(team)
            worker.log.cut()
            worker.log.losses.append(draw.choice([REQUEST, ANSWER]))
            worker.log.late_s = draw.choice([0, 0.01, 0.2])
            worker.log.deaf_s = draw.choice([0, 0.01, 0.5])
            worker.log.away = draw.random() < 0.1

    def wait(worker, key):
        return worker.purgatory.wait(key, until=lambda: key in worker.keys, timeout=600)

    async def send(worker, number):
        await asyncio.sleep(draw.uniform(0, 10))
        key = f"k{number}"
        waits[key] = [asyncio.ensure_future(wait(each, key)) for each in team]
        await asyncio.sleep(0)
        try:
            acknowledged[key] = await worker.cluster.signal(key, timeout=draw.choice([0.3, 5, 60]))
        except LogUnavailable:
            unknown.add(key)

    disturbing = asyncio.create_task(disturb())
    await asyncio.gather(*(send(draw.choice(team), number) for number in range(60)))
    working = False
    await disturbing
    for worker in team:
        worker.log.away, worker.log.late_s, worker.log.deaf_s = False, 0, 0
        worker.log.losses.clear()
    for worker in team:
        await worker.cluster.caught_up()
    assert team[0].seen == team[1].seen == team[2].seen
    keys = team[0].keys
    assert len(keys) == len(set(keys))
    assert acknowledged.keys() <= set(keys) <= acknowledged.keys() | unknown
    assert {key: position for position, key, _ in team[0].seen}.items() >= acknowledged.items()
    for key in keys:
        assert await asyncio.gather(*waits[key]) == [True, True, True]
    for key in unknown - set(keys):
        assert not any(each.cancel() is False for each in waits[key])
