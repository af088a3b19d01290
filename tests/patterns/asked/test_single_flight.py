"""What people asked for who share calls: the fault of their way, and `SingleFlight` without it."""

import asyncio

import pytest

from purgatory_async.patterns import SingleFlight
from purgatory_async.testing import settle
from tests.patterns.flights import Service
from tests.patterns.waiters import ends, waiting

pytestmark = pytest.mark.asyncio


async def test_aiocache_1041_a_burst_on_a_cold_cache(purgatory):
    """aio-libs/aiocache#1041: a decorator that caches results lets the whole first burst call the slow function.

    The results are stored when they come, so all who ask before that miss the cache. Four asked at once, four different
    results came. Those who asked before, as in karpetrosyan/hishel#338 and #463, want the same.
    """

    async def cached(cache, service):
        if "page" not in cache:
            cache["page"] = await service.fetch()
        return cache["page"]

    by_hand, cache = Service(), {}
    burst = await waiting(*[cached(cache, by_hand) for _ in range(4)])
    assert by_hand.calls == 4
    for number, answer in enumerate(by_hand.answers):
        answer.set_result(number)
    assert await ends(burst) == [0, 1, 2, 3]

    service, pages = Service(), SingleFlight(purgatory, keep=300)
    burst = await waiting(*[pages.run("page", service.fetch) for _ in range(4)])
    assert service.calls == 1
    service.answer(0)
    assert await ends(burst) == [0, 0, 0, 0]
    assert await pages.run("page", service.fetch) == 0


async def test_ztf_viewer_638_a_visitor_leaves_the_others(purgatory):
    """snad-space/ztf-viewer#638: one task for all callers is cancelled with any of them.

    A visitor who closes the page cancels the upstream query of all who look at the same object. Behind a shield it goes
    on, and also when the last of them has gone.
    """

    async def shared(tasks, service, *, shield):
        task = tasks.setdefault("object", None) or asyncio.ensure_future(service.fetch())
        tasks["object"] = task
        return await (asyncio.shield(task) if shield else task)

    by_hand, tasks = Service(), {}
    gone, stays = await waiting(*[shared(tasks, by_hand, shield=False) for _ in range(2)])
    gone.cancel()
    assert await stays.end() == "cancelled"  # which it was not

    by_hand, tasks = Service(), {}
    (gone,) = await waiting(shared(tasks, by_hand, shield=True))
    gone.cancel()
    await gone.end()
    assert (by_hand.running, tasks["object"].cancelling()) == (1, 0)  # for no one
    tasks["object"].cancel()

    service, objects = Service(), SingleFlight(purgatory)
    gone, stays = await waiting(*[objects.run("object", service.fetch) for _ in range(2)])
    gone.cancel()
    await gone.end()
    service.answer("light curve")
    assert await stays.end() == "light curve"
    (gone,) = await waiting(objects.run("object", service.fetch))
    gone.cancel()
    await settle()
    assert (service.cancelled, service.running) == (1, 0)
