"""An async ``apply`` or ``on_gap``: awaited in the order of the log, before what follows, and by closing."""

import asyncio

import pytest

from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, MemoryLog, MemoryStore
from tests.cluster.workers import Workers
from tests.loop.worlds import reports

pytestmark = [
    pytest.mark.asyncio(loop_factories=["virtual"]),
    pytest.mark.filterwarnings("error"),
]


class Application:
    """Applies signals, each for a second; its condition sees only those that it has applied to the end."""

    def __init__(self):
        self.begun, self.applied, self.gaps = [], [], []
        self.purgatory = Purgatory()

    async def apply(self, signalled):
        self.begun.append(signalled.key)
        await asyncio.sleep(1)
        self.applied.append(signalled.key)
        if signalled.value is not None:
            raise {"bad": ValueError, "cancelled": asyncio.CancelledError}[signalled.value](signalled.value)

    def cluster(self, store, **settings):
        return Cluster(self.purgatory, MemoryLog(store), **({"apply": self.apply} | settings))


@pytest.mark.parametrize("dressed", [False, True], ids=["method", "lambda"])
async def test_signals_are_applied_one_after_the_other(dressed):
    store, here = MemoryStore(), Application()
    hidden = lambda signalled: here.apply(signalled)  # noqa: E731, PLW0108 - it hides the async function
    apply = hidden if dressed else here.apply
    async with here.purgatory, here.cluster(store, apply=apply) as cluster:
        waiting = asyncio.ensure_future(here.purgatory.wait("b", until=lambda: "b" in here.applied))
        signals = [asyncio.ensure_future(cluster.signal(key)) for key in "abc"]
        await asyncio.sleep(1.5)
        assert (here.begun, here.applied, cluster.position) == (["a", "b"], ["a"], 2)
        assert [signal.done() for signal in signals] == [True, False, False]
        assert await waiting is True
        assert await asyncio.gather(*signals) == [2, 3, 4]
        assert (here.applied, cluster.position, await cluster.caught_up()) == (["a", "b", "c"], 4, 4)


async def test_a_slow_apply_holds_up_the_reader_not_the_log():
    store, here, there = MemoryStore(), Application(), Application()
    async with there.cluster(store, apply=None) as other, here.cluster(store) as cluster:
        for number in range(600):
            await other.signal(f"key-{number}", timeout=None)
        position = await cluster.caught_up()
        assert (len(here.applied), position) == (600, other.position)
        assert here.applied == [f"key-{number}" for number in range(600)]


@pytest.mark.parametrize("error", ["bad", "cancelled"])
async def test_an_error_is_reported_and_the_next_is_applied(error):
    here, reported = Application(), reports()
    async with here.cluster(MemoryStore()) as cluster:
        await asyncio.gather(cluster.signal("a", error), cluster.signal("b"))
    assert here.applied == ["a", "b"]
    assert [str(report["exception"]) for report in reported] == [error]


async def test_leaving_waits_for_the_one_under_way():
    here, reported = Application(), reports()
    async with here.cluster(MemoryStore()) as cluster:
        signals = [asyncio.ensure_future(cluster.signal(key)) for key in "ab"]
        await asyncio.sleep(0.5)
    assert (here.begun, here.applied, reported) == (["a"], ["a"], [])
    await asyncio.gather(*signals, return_exceptions=True)


async def test_after_a_gap_what_is_loaded_again_is_awaited():
    here, loaded = Application(), []

    async def load(gap):
        await asyncio.sleep(1)
        loaded.append(gap.epoch)

    async with Workers() as workers, here.purgatory, here.cluster(workers.store, on_gap=load) as cluster:
        waiting = asyncio.ensure_future(here.purgatory.wait("key", until=lambda: loaded))
        await cluster.signal("other")
        workers.lose(1)
        assert await waiting == [cluster.epoch] == [workers.store.epoch]


async def test_an_async_generator_is_refused():
    async def stream(_):
        yield 1

    for name in ("apply", "on_gap"):
        with pytest.raises(TypeError, match=f"{name} must be a plain or async function"):
            Cluster(Purgatory(), MemoryLog(MemoryStore()), **{name: stream})
