"""``/v1/wait`` with ``since`` on a store: the same at every worker, through reloads, losses and kills."""

import asyncio
import random
import re

import pytest

from purgatory_async.durable.fold.entries import SignalKey
from tests.service.on_store.test_reloads import fall_behind

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])
SIGNALS = 300


async def collect(members, since, names, last, draw):
    """Follow until the signal of index ``last``, each time at another worker; return the indexes in order."""
    got = []
    while last() is None or not got or got[-1] < last():
        here = draw.choice(members)
        asked = here.start("GET", f"/v1/wait?{names}&since={since}&wait={draw.choice((0, 1, 20))}&limit=7")
        if draw.random() < 0.2:
            await asyncio.sleep(draw.random())
            asked.hang_up()
            await asked.over
            continue
        await asked.over
        if asked.status == 204:
            since = asked.headers["x-purgatory-next"]
        else:
            assert (asked.status, asked.json["gap"]) == (200, False)
            since = asked.json["next"]
            got += [signal["index"] for signal in asked.json["signals"]]
    return got


@pytest.mark.parametrize("seed", range(4))
async def test_a_follower_that_changes_workers_sees_each_signal_once(members, seed):
    draw = random.Random(seed)
    workers = [await members.start(keep_signals=1000), await members.start(keep_signals=1000)]
    sent, last = [], []
    followers = [
        asyncio.create_task(
            collect(workers, "0", names, lambda: last[0] if last else None, random.Random(seed * 9 + number))
        )
        for number, names in enumerate(("key=a&key=b", "prefix=a", "prefix=b&prefix=a"))
    ]
    for number in range(SIGNALS):
        key = draw.choice(("a", "b", "ab", "c"))
        sent.append(((await draw.choice(workers).signal(key))["index"], key))
        if draw.random() < 0.3:
            await asyncio.sleep(draw.choice((0.01, 1)))
        if number % 50 == 25:
            draw.choice(workers).link.cut()
        if number == SIGNALS // 2:
            members.trim(workers[0])
            workers.append(await members.start())
    assert [each.service.fold.shared.limits.keep_signals for each in workers] == [1000] * 3
    sent += [((await workers[0].signal(key))["index"], key) for key in ("b", "ab", "a")]
    last.append(sent[-1][0])
    assert await followers[0] == [index for index, key in sent if key in {"a", "b"}]
    assert await followers[1] == [index for index, key in sent if key.startswith("a")]
    assert await followers[2] == [index for index, key in sent if key.startswith(("a", "b"))]


async def test_a_batch_reaches_followers_of_all_workers_whole(members):
    here, there = await members.start(), await members.start()
    held = [worker.start("GET", "/v1/wait?prefix=a&since=0&wait=20") for worker in (here, there)]
    await asyncio.sleep(1)
    signals = [{"key": f"a{number}"} for number in range(200)]
    posted = here.start("POST", "/v1/signals", {"signals": signals})
    await asyncio.gather(posted.over, *(each.over for each in held))
    last = posted.json["index"]
    for each in held:
        assert [signal["index"] for signal in each.json["signals"]] == list(range(last - 199, last + 1))


async def test_a_loaded_worker_knows_the_newest_index(members):
    here = await members.start()
    index = (await here.signal("a"))["index"]
    await here.submit("b")
    members.trim(here)
    there = await members.start()
    for worker in (here, there):
        now = (await worker.request("GET", "/v1/wait?key=a&since=now")).json
        assert (now["index"], now["gap"]) == (index, False)
        assert (await worker.request("GET", f"/v1/wait?key=a&since={now['next']}")).status == 204


async def test_a_follower_goes_on_after_a_reload(members):
    here = await members.start()
    index = (await here.signal("a"))["index"]
    held = await here.held("GET", f"/v1/wait?key=a&since={index}&wait=50s")
    await fall_behind(members, here, ("POST", "/v1/keys/b/signal", {}))
    await asyncio.sleep(1)
    assert not held.answered
    await here.signal("a", value=2)
    await held.over
    assert ([signal["value"] for signal in held.json["signals"]], held.json["gap"]) == ([2], False)


@pytest.mark.parametrize("names", ["key=a", "prefix=a"])
async def test_a_follower_gets_what_a_reload_brought(members, names):
    here = await members.start()
    index = (await here.signal("a"))["index"]
    held = await here.held("GET", f"/v1/wait?{names}&since={index}&wait=50s")
    await fall_behind(members, here, *[("POST", "/v1/keys/a/signal", {"value": value}) for value in (1, 2)])
    await held.over
    assert [signal["value"] for signal in held.json["signals"]] == [1, 2]
    assert not held.json["gap"]


@pytest.mark.parametrize("place", ["{epoch}-{index}", "{index}"])
async def test_lost_entries_are_a_gap_for_a_held_follower(members, place):
    here = await members.start()
    index = (await here.signal("a"))["index"]
    since = place.format(epoch=here.service.state.epoch, index=index)
    held = await here.held("GET", f"/v1/wait?key=a&since={since}&wait=50s")
    here.post(SignalKey(key="lost"))
    await asyncio.sleep(0.1)
    members.store.lose(1)
    await held.over
    assert (held.status, held.json["gap"]) == (200, True)
    assert [signal["index"] for signal in held.json["signals"]] == [index]
    assert re.fullmatch(rf"{here.service.state.epoch}\.[0-9a-f]{{8}}-{index}", held.json["next"])
    assert (await here.request("GET", f"/v1/wait?key=b&since={held.json['next']}")).status == 204


async def test_an_empty_answer_comes_only_from_a_worker_that_caught_up(members):
    here, there = await members.start(), await members.start()
    held = await here.held("GET", "/v1/wait?key=a&since=0&wait=9s")
    await asyncio.sleep(8)
    here.link.deaf_s = 3
    await there.signal("a")
    await held.over
    assert held.status == 200


async def test_a_follower_is_refused_while_the_store_is_away(members):
    here = await members.start()
    held = await here.held("GET", "/v1/wait?key=a&since=0&wait=3s")
    here.link.away = True
    await held.over
    assert (held.status, held.slug) == (503, "store-unavailable")
    here.link.away = False
