"""Positions, epochs, repetitions and reads at the memory mode and at workers on a store."""

import asyncio
import random

import pytest
import pytest_asyncio

from tests.service.on_store.members import Member

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


@pytest_asyncio.fixture(params=["memory", "store"])
async def here(request, members):
    """A worker without a store, and one with it."""
    return await (members.in_memory() if request.param == "memory" else members.start())


async def test_every_answer_has_its_position_and_epoch(here: Member):
    epoch = here.service.state.epoch
    for method, target, body, status in (
        ("POST", "/v1/keys/a/signal", {}, 200),
        ("POST", "/v1/operations", {"keys": ["a"]}, 202),
        ("GET", "/v1/keys/a", None, 200),
        ("GET", "/v1/keys/a?index=1000", None, 200),
        ("GET", "/v1/wait?key=a", None, 204),
        ("GET", "/v1/operations/unknown", None, 404),
        ("GET", "/v1/nothing", None, 404),
        ("GET", "/v1/admin/stats", None, 200),
        ("POST", "/v1/queues/q/take", None, 204),
    ):
        answer = await here.request(method, target, body)
        assert answer.status == status, target
        assert answer.headers["x-purgatory-epoch"] == epoch
        assert int(answer.headers["x-purgatory-position"]) == here.service.fold.position
    assert "x-purgatory-position" not in (await here.request("GET", "/healthz")).headers


async def test_a_position_above_the_end_is_behind_after_5_s(here: Member):
    position = (await here.signal("a"))["index"]
    above = (("x-purgatory-position", str(position + 10_000)),)
    began = here.service.timer.time()
    answer = await here.request("GET", "/v1/keys/a", headers=above)
    assert (answer.status, answer.slug) == (503, "behind")
    assert "retry-after" in answer.headers
    assert here.service.timer.time() - began == pytest.approx(5, abs=0.01)
    for wrong in ("", "-1", "1e3", "9" * 17):
        answer = await here.request("GET", "/v1/keys/a", headers=(("x-purgatory-position", wrong),))
        assert (answer.status, answer.slug) == (400, "bad-header")


async def test_a_request_waits_for_the_position_it_names(here: Member):
    await asyncio.sleep(3)  # past what a new worker appends by itself
    position = here.service.fold.position + 1
    reading = here.start("GET", "/v1/keys/a", headers=(("x-purgatory-position", str(position)),))
    await asyncio.sleep(1)
    assert not reading.answered
    await here.signal("a", value=1)
    await asyncio.sleep(0.1)
    assert (reading.status, reading.json["value"]) == (200, 1)


@pytest.mark.parametrize(
    ("target", "body", "other", "member"),
    [
        ("/v1/keys/a/signal", {"value": 1}, {"value": 2}, "index"),
        ("/v1/queues/q/items", {"item": 1}, {"item": 2}, "delivered"),
        ("/v1/operations", {"keys": ["b"]}, {"keys": ["c"]}, "id"),
    ],
)
async def test_a_repetition_has_the_first_answer(here: Member, target, body, other, member):
    once = (("idempotency-key", "x"),)
    await here.submit("a", id="watches-a")
    first = await here.request("POST", target, body, once)
    assert "idempotency-replayed" not in first.headers
    waiting = await here.held("GET", "/v1/wait?key=z&wait=20s")
    await here.signal("z")
    await waiting.over
    again = await here.request("POST", target, body, once)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json[member] == first.json[member]
    assert again.json.get("completed") == first.json.get("completed")
    assert (await here.request("POST", target, other, once)).slug == "idempotency-mismatch"
    stats = (await here.request("GET", "/v1/admin/stats")).json
    assert stats["queues"]["items"] == (target == "/v1/queues/q/items")
    assert stats["counts"]["signals"] == 1 + (target == "/v1/keys/a/signal")


async def test_a_key_stands_for_its_request_after_a_restart(members):
    once = (("idempotency-key", "x"),)
    here = await members.start()
    first = await here.request("POST", "/v1/keys/a/signal", {"value": 1, "amount": 2}, once)
    await here.stop()
    here = await members.start()
    again = await here.request("POST", "/v1/keys/%61/signal", {"amount": 2, "value": 1.0}, once)
    assert (again.json, again.headers["idempotency-replayed"]) == (first.json, "true")
    other = await here.request("POST", "/v1/keys/b/signal", {"value": 1, "amount": 2}, once)
    assert (other.slug, here.service.fold.signals.latest("b")) == ("idempotency-mismatch", None)


async def test_an_index_above_what_is_applied_waits_for_it(members):
    here, other = await members.start(), await members.start()
    here.link.deaf_s = 2
    index = (await other.signal("a", value=1))["index"]
    answer = await here.request("GET", f"/v1/keys/a?index={index}&wait=1s")
    assert answer.status == 304
    answer = await here.request("GET", f"/v1/keys/a?index={index - 1}&wait=1s")
    assert (answer.status, answer.json["value"]) == (200, 1)


async def test_events_have_the_same_ids_at_two_workers(members):
    here, other = await members.start(), await members.start()
    streams = [await each.held("GET", "/v1/events") for each in (here, other)]
    await here.submit("a", "b", need="all")
    await other.submit("a", timeout=2)
    await here.signal("a")
    await other.signal("b")
    await asyncio.sleep(3)
    texts = [stream.body.decode() for stream in streams]
    ids = [[line for line in text.splitlines() if line.startswith("id:")] for text in texts]
    assert ids[0] == ids[1]
    assert len(ids[0]) == len(set(ids[0])) >= 6
    for stream in streams:
        stream.hang_up()
        await stream.over
    seen = (("last-event-id", ids[0][2].removeprefix("id: ")),)
    rest = await other.held("GET", "/v1/events", headers=seen)
    await asyncio.sleep(0.1)
    assert [line for line in rest.body.decode().splitlines() if line.startswith("id:")] == ids[0][3:]
    rest.hang_up()
    await rest.over


async def test_a_wait_is_not_ended_by_what_came_before_it(members):
    here, other = await members.start(), await members.start()
    other.link.deaf_s = 0.3
    await here.signal("a")
    waiting = other.start("GET", "/v1/wait?key=a&wait=2")
    await asyncio.sleep(1)
    assert not waiting.answered
    await here.signal("a", value=2)
    await asyncio.sleep(1)
    assert [signal["value"] for signal in waiting.json["signals"]] == [2]


async def test_reads_at_one_worker_show_writes_at_another(members):
    here, other = await members.start(), await members.start()
    other.link.deaf_s, here.link.late_s, other.link.late_s = 0.3, 0.01, 0.02
    draw = random.Random(5)
    written = {}
    for number in range(60):
        name = f"k{draw.randrange(5)}"
        if draw.random() < 0.5:
            written[name] = (await here.signal(name, value=number))["index"]
            answer = await other.request("GET", f"/v1/keys/{name}")
            assert (answer.json["index"], answer.json["value"]) == (written[name], number)
        else:
            made = await here.submit(name, id=f"o{number}")
            if draw.random() < 0.5:
                await here.request("DELETE", f"/v1/operations/{made['id']}")
                made["state"] = "cancelled"
            answer = await other.request("GET", f"/v1/operations/{made['id']}")
            assert answer.json["state"] == made["state"]
            listed = (await other.request("GET", "/v1/operations?limit=1000")).json["operations"]
            assert (made["id"] in {each["id"] for each in listed}) == (made["state"] == "pending")
