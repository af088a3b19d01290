"""What requests see when a worker loads its state again: it fell behind, or the engine lost its newest entries."""

import asyncio

import pytest

from purgatory_async.durable.fold.entries import SignalKey
from tests.cluster.faulty import REQUEST
from tests.service.on_store.members import Member

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


async def fall_behind(members, here: Member, *happened):
    """Let ``here`` miss what another worker does, until the log has no entries of it."""
    other = await members.start()
    here.link.deaf_s = 1
    await other.signal("noise")  # is on its way already: it will arrive
    await asyncio.sleep(0.1)
    for method, target, body in happened:
        await other.request(method, target, body)
    members.trim(other)
    here.link.deaf_s = 0
    here.link.cut()
    await here.service.state.caught_up()
    assert here.service.state.recovery.gaps == 1


async def test_a_wait_ends_at_the_signal(members):
    here = await members.start()
    waiting = await here.held("GET", "/v1/wait?key=a&wait=20s")
    await here.signal("a", value=1)
    await asyncio.sleep(0.1)
    assert waiting.answered
    assert waiting.json["signals"][0]["value"] == 1


async def test_a_held_poll_is_answered_after_a_reload(members):
    here = await members.start()
    await here.submit("a", id="a")
    polling = await here.held("GET", "/v1/operations/a?wait=50s")
    await fall_behind(members, here, ("POST", "/v1/keys/a/signal", {}))
    await polling.over
    assert polling.json["state"] == "completed"


async def test_a_held_poll_goes_on_after_a_reload(members):
    here = await members.start()
    await here.submit("a", id="a")
    began = here.service.timer.time()
    polling = await here.held("GET", "/v1/operations/a?wait=50s")
    await fall_behind(members, here, ("POST", "/v1/keys/b/signal", {}))
    await asyncio.sleep(1)
    assert not polling.answered
    await here.signal("a")
    await polling.over
    assert polling.json["state"] == "completed"
    assert here.service.timer.time() - began < 50


async def test_a_poll_of_a_key_goes_on_after_a_reload(members):
    here = await members.start()
    index = (await here.signal("a"))["index"]
    polling = await here.held("GET", f"/v1/keys/a?index={index}&wait=50s")
    await fall_behind(members, here, ("POST", "/v1/keys/b/signal", {}))
    await asyncio.sleep(1)
    assert not polling.answered
    await here.signal("a", value=2)
    await polling.over
    assert polling.json["value"] == 2


async def test_a_poll_of_a_key_sees_what_a_reload_brought(members):
    here = await members.start()
    polling = await here.held("GET", "/v1/keys/a?index=0&wait=50s")
    await fall_behind(members, here, ("POST", "/v1/keys/a/signal", {"value": 1}))
    await polling.over
    assert polling.json["value"] == 1


async def test_a_wait_fails_with_gap_after_a_reload(members):
    here = await members.start()
    waiting = await here.held("GET", "/v1/wait?key=a&wait=50s")
    await fall_behind(members, here, ("POST", "/v1/keys/a/signal", {}))
    await waiting.over
    assert (waiting.status, waiting.slug) == (503, "gap")


async def test_a_taker_gets_what_it_was_lent_before_a_reload(members):
    here = await members.start()
    taking = await here.held("POST", "/v1/queues/q/take?wait=50s")
    await fall_behind(members, here, ("POST", "/v1/queues/q/items", {"item": 7}))
    await asyncio.sleep(1)
    assert (taking.status, taking.json["item"]) == (200, 7)


async def test_a_taker_stays_in_line_after_a_reload(members):
    here = await members.start()
    taking = await here.held("POST", "/v1/queues/q/take?wait=50s")
    await fall_behind(members, here, ("POST", "/v1/keys/b/signal", {}))
    await asyncio.sleep(1)
    assert not taking.answered
    await here.request("POST", "/v1/queues/q/items", {"item": 7})
    await taking.over
    assert taking.json["item"] == 7


async def test_metrics_count_once_what_a_reload_repeats(members):
    here = await members.start()
    await here.submit("a")
    await here.submit("b", timeout=30)
    await fall_behind(members, here, ("POST", "/v1/keys/a/signal", {}))
    await asyncio.sleep(1)
    counts = (await here.request("GET", "/v1/admin/stats")).json["counts"]
    assert (counts["submitted"], counts["pending"], counts["signals"]) == (2, 1, 2)
    assert counts["ended"] == {"completed": 1, "expired": 0, "cancelled": 0, "failed": 0, "closed": 0}
    listed = (await here.request("GET", "/v1/operations")).json["operations"]
    assert [operation["keys"] for operation in listed] == [["b"]]


async def test_a_position_that_a_reload_brought_is_waited_for(members):
    here, other = await members.start(), await members.start()
    here.link.deaf_s = 1
    await other.signal("noise")
    await asyncio.sleep(0.1)
    position = (await other.signal("a", value=1))["index"]
    members.trim(other)
    named = (("x-purgatory-position", str(position)),)
    reading = here.start("GET", "/v1/keys/a", headers=named)
    await asyncio.sleep(0.01)
    assert not reading.answered
    here.link.deaf_s = 0
    here.link.cut()
    await reading.over
    assert (reading.status, reading.json["value"], here.service.state.recovery.gaps) == (200, 1, 1)


async def test_lost_entries_end_held_requests_with_gap(members):
    here = await members.start()
    await here.submit("a", id="a")
    held = [
        await here.held("GET", "/v1/operations/a?wait=50s"),
        await here.held("GET", "/v1/keys/a?index=0&wait=50s"),
        await here.held("GET", "/v1/wait?key=a&wait=50s"),
        await here.held("POST", "/v1/queues/q/take?wait=50s"),
    ]
    epoch = here.service.state.epoch
    here.post(SignalKey(key="lost"))
    await asyncio.sleep(0.1)
    members.store.lose(1)
    await asyncio.sleep(5)
    assert [(each.status, each.slug) for each in held] == [(503, "gap")] * 4
    answer = await here.request("GET", "/v1/operations/a")
    assert answer.json["state"] == "pending"
    assert answer.headers["x-purgatory-epoch"] == here.service.state.epoch != epoch


async def test_an_append_refused_before_a_reload_counts_no_more(members):
    here = await members.start()
    here.link.losses.extend([REQUEST] * 3)
    refused = here.start("POST", "/v1/keys/a/signal", {})
    await asyncio.sleep(0.01)
    members.store.lose(0)
    await refused.over
    await asyncio.sleep(6)  # the next heartbeat is later
    assert (refused.status, here.service.state.recovery.gaps) == (503, 1)
    assert (await here.request("GET", "/readyz")).status == 200


async def test_a_worker_serves_on_at_lower_positions(members):
    here = await members.start()
    for lost in (3, 0):
        position = here.service.fold.position + 3
        reading = here.start("GET", "/v1/keys/a", headers=(("x-purgatory-position", str(position)),))
        await asyncio.sleep(0.01)
        for _ in range(3):
            await here.signal("a")
        await reading.over
        assert reading.status == 200
        members.store.lose(lost)
        await asyncio.sleep(5)
    assert not here.running.done()


async def test_an_index_above_the_end_answers_at_once(members):
    here = await members.start()
    index = (await here.signal("a"))["index"]
    members.store.lose(1)
    await asyncio.sleep(5)
    began = here.service.timer.time()
    answer = await here.request("GET", f"/v1/keys/a?index={index + 100}&wait=50s")
    assert (answer.status, answer.json["index"]) == (200, 0)
    assert here.service.timer.time() - began < 1


async def test_a_stream_of_events_has_a_gap_after_a_loss(members):
    here = await members.start()
    streaming = await here.held("GET", "/v1/events")
    await here.signal("a")
    members.store.lose(1)
    await asyncio.sleep(5)
    await here.signal("b")
    await asyncio.sleep(1)
    text = streaming.body.decode()
    assert text.index('"a"') < text.index("event: gap") < text.index('"b"')
    assert here.service.state.epoch in text
    streaming.hang_up()
    await streaming.over


async def test_a_herd_completed_before_a_reload_is_answered(members):
    here = await members.start()
    herd = [here.start("GET", "/v1/wait?key=a&wait=50s") for _ in range(300)]
    await asyncio.sleep(0.5)
    here.start("POST", "/v1/keys/a/signal", {"value": 1})
    while not any(each.answered for each in herd):  # noqa: ASYNC110 - an answer sets no event
        await asyncio.sleep(0)
    assert not all(each.answered for each in herd)
    here.service._epoch = "of a history that is gone"
    here.service._replace(here.service.fold)
    await asyncio.sleep(1)
    assert {each.status for each in herd} == {200}
