"""The limits of an owner: refusals with 429 that no other owner notices."""

import fcntl
import os
import signal
from contextlib import suppress

import pytest

from purgatory_async.durable.documents.problems import Problem
from purgatory_async.durable.grants import PERIODS, Grant, OwnerLimits, Rate
from purgatory_async.service.access.rates import Rates, SharedTimes, shared_file

pytestmark = pytest.mark.asyncio

READ = ("GET", "/v1/keys/k")


def limits(reply):
    return {name: reply.json[name] for name in ("limit", "allowed", "used")}


async def test_a_burst_of_n_is_allowed_and_then_one_in_turn(tenants):
    shop = tenants("ann read name=ann rate=3/s", "bob read name=bob")
    for _ in range(3):
        assert (await shop.ask("ann", *READ)).status == 200
    refused = await shop.ask("ann", *READ)
    assert (refused.status, refused.slug) == (429, "limited")
    assert limits(refused) == {"limit": "rate", "allowed": 3, "used": 3}
    assert refused.headers["retry-after"] == "1"
    assert (await shop.ask("bob", *READ)).status == 200
    await shop.client.advance(0.34)
    assert [(await shop.ask("ann", *READ)).status for _ in "12"] == [200, 429]


async def test_refused_requests_are_not_counted(tenants):
    shop = tenants("ann read name=ann rate=1/s")
    await shop.ask("ann", *READ)
    for _ in range(50):
        assert (await shop.ask("ann", *READ)).status == 429
    await shop.client.advance(1)
    assert (await shop.ask("ann", *READ)).status == 200


async def test_a_rate_per_minute_allows_one_seconds_at_once(tenants):
    shop = tenants("ann read name=ann rate=6/m", "bob read name=bob rate=120/m")
    assert [(await shop.ask("ann", *READ)).status for _ in "12"] == [200, 429]
    assert (await shop.ask("ann", *READ)).headers["retry-after"] == "10"
    assert [(await shop.ask("bob", *READ)).status for _ in "123"] == [200, 200, 429]
    await shop.client.advance(10)
    assert (await shop.ask("ann", *READ)).status == 200


@pytest.mark.parametrize(("unit", "seconds"), [("h", 3600), ("d", 86_400)])
async def test_a_rate_per_hour_or_day_is_spread_over_it(tenants, unit, seconds):
    shop = tenants(f"ann read name=ann rate=4/{unit}")
    assert (await shop.ask("ann", *READ)).status == 200
    refused = await shop.ask("ann", *READ)
    assert (refused.status, refused.headers["retry-after"]) == (429, str(seconds // 4))
    assert f"rate=4/{unit}, 1 of them at once" in refused.json["detail"]
    await shop.client.advance(seconds / 4)
    assert (await shop.ask("ann", *READ)).status == 200


async def test_a_faster_rate_does_not_wait_for_the_slower_one(tenants):
    shop = tenants("ann read name=ann rate=1/d")
    assert [(await shop.ask("ann", *READ)).status for _ in "12"] == [200, 429]
    shop.change("ann read name=ann rate=5/s")
    assert [(await shop.ask("ann", *READ)).status for _ in "12"] == [200, 429]


async def test_tokens_of_one_name_share_a_rate(tenants):
    shop = tenants("old read name=ann rate=2/s", "new wait,read name=ann rate=2/s")
    assert [(await shop.ask(name, *READ)).status for name in ("old", "new", "old", "new")] == [
        200,
        200,
        429,
        429,
    ]


async def test_a_rate_is_asked_before_the_body_is_read(tenants):
    shop = tenants("ann signal name=ann rate=1/s")
    await shop.ask("ann", "POST", "/v1/keys/k/signal", {})
    refused = await shop.ask("ann", "POST", "/v1/keys/k/signal", [b"{}"])
    assert (refused.status, refused.unread) == (429, 1)
    assert shop.service.fold.shared.totals.signals == 1


async def test_a_batch_is_one_request_to_the_rate(tenants):
    shop = tenants("ann signal name=ann rate=2/s")
    body = {"signals": [{"key": f"k{n}"} for n in range(100)]}
    found = [(await shop.ask("ann", "POST", "/v1/signals", body)).status for _ in "123"]
    assert found == [200, 200, 429]


async def test_a_new_rate_counts_from_the_next_request_on(tenants):
    shop = tenants("ann read name=ann rate=1/s")
    await shop.ask("ann", *READ)
    shop.change("ann read name=ann rate=5/s")
    assert (await shop.ask("ann", *READ)).status == 429  # the second that is used is still used
    await shop.client.advance(1)
    assert [(await shop.ask("ann", *READ)).status for _ in range(6)] == [200] * 5 + [429]


@pytest.mark.parametrize("number", [1, 3, 7, 999_999])
@pytest.mark.parametrize("seconds", PERIODS.values())
async def test_twice_the_rate_is_let_through_by_half(number, seconds):
    now, rate = [10**18 + 12_345], Rate(number, seconds)
    rates, grant = Rates(lambda: now[0]), Grant("a", frozenset(), (), OwnerLimits(rate=rate))
    step_ns, allowed = -(-rate.every_ns // 2), 0  # twice as many as the rate
    steps = min(4 * rate.burst + 1_000, 20_000)
    for _ in range(steps):
        try:
            rates.count(grant)
            allowed += 1
        except Problem:
            pass
        now[0] += step_ns
    # All, while the burst lasts, and then each second one.
    assert allowed == min(steps, rate.burst + (steps - 1) * step_ns // rate.every_ns)


async def test_operations_and_one_shot_waits_share_max_pending(tenants):
    shop = tenants("ann wait,signal name=ann max-pending=3", "bob wait name=bob")
    for number in range(2):
        await shop.submit("ann", keys=["k"], id=f"op{number}")
    wait = await shop.held("ann", "GET", "/v1/wait?key=w&wait=9")
    for method, target, body in (
        ("POST", "/v1/operations", {"keys": ["k"]}),
        ("GET", "/v1/wait?key=w&wait=9", None),
    ):
        refused = await shop.ask("ann", method, target, body)
        assert (refused.status, refused.slug) == (429, "limited")
        assert limits(refused) == {"limit": "max-pending", "allowed": 3, "used": 3}
        assert refused.headers["retry-after"] == "1"
    await shop.submit("bob", keys=["k"])
    await shop.ask("ann", "POST", "/v1/keys/w/signal", {})
    assert wait.status == 200
    await shop.submit("ann", keys=["k"], id="op2")
    assert (await shop.ask("ann", "POST", "/v1/operations", {"keys": ["k"]})).status == 429
    await shop.ask("ann", "DELETE", "/v1/operations/op0")
    await shop.submit("ann", keys=["k"])


@pytest.mark.parametrize("end", ["DELETE", "expiry", "signal"])
async def test_every_end_makes_room_for_another(tenants, end):
    shop = tenants("ann wait,signal name=ann max-pending=1")
    for _ in range(3):
        operation = await shop.submit("ann", keys=["k"], timeout=5)
        assert shop.service.fold.operations.pending_of == {"ann": 1}
        if end == "DELETE":
            await shop.ask("ann", "DELETE", f"/v1/operations/{operation['id']}")
        elif end == "signal":
            await shop.ask("ann", "POST", "/v1/keys/k/signal", {})
        else:
            await shop.client.advance(5)
    assert shop.service.fold.operations.pending_of == {}


async def test_a_repeated_submission_is_answered_at_the_limit(tenants):
    shop = tenants("ann wait name=ann max-pending=1")
    key = ("idempotency-key", "one")
    first = await shop.ask("ann", "POST", "/v1/operations", {"keys": ["k"]}, key)
    again = await shop.ask("ann", "POST", "/v1/operations", {"keys": ["k"]}, key)
    assert (again.status, again.json["id"]) == (202, first.json["id"])


async def test_waits_that_leave_are_counted_no_longer(tenants):
    shop = tenants("ann wait name=ann max-pending=1")
    for _ in range(3):
        wait = await shop.held("ann", "GET", "/v1/wait?key=w&wait=9")
        assert shop.service.waits.pending_of("ann") == 1
        wait.hang_up()
        await shop.client.advance(0)
    assert shop.service.waits.pending_of("ann") == 0


TEXT = "x" * 98  # with its quotes and 128 bytes 228


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/v1/operations", {"keys": ["k"], "data": TEXT}),
        ("/v1/queues/q/items", {"item": TEXT}),
        ("/v1/queues/q/items", {"items": [{"item": TEXT}]}),
        ("/v1/keys/new/signal", {"value": TEXT}),
        ("/v1/signals", {"signals": [{"key": "new", "value": TEXT}]}),
    ],
)
async def test_what_an_owner_keeps_is_bounded_by_max_bytes(tenants, target, body):
    shop = tenants(
        "ann wait,signal name=ann max-bytes=500", "bob wait,signal name=bob", "root admin name=root"
    )
    for _ in range(2):
        assert (await shop.ask("ann", "POST", "/v1/queues/q/items", {"item": TEXT})).status == 201
    refused = await shop.ask("ann", "POST", target, body)
    assert (refused.status, refused.slug) == (429, "limited")
    assert limits(refused) == {"limit": "max-bytes", "allowed": 500, "used": 456}
    assert refused.headers["retry-after"] == "1"
    assert (await shop.ask("bob", "POST", target, body)).status < 300
    await shop.ask("root", "POST", "/v1/queues/q/purge")
    assert (await shop.ask("ann", "POST", target, body)).status < 300


async def test_workers_with_one_file_share_a_rate():
    now, grant = [10**15], Grant("ann", frozenset(), (), OwnerLimits(rate=Rate(4, 1)))
    with shared_file() as file:
        workers = [Rates(lambda: now[0], SharedTimes(file.fileno())) for _ in range(2)]

        def allowed(requests):
            found = 0
            for number in range(requests):
                with suppress(Problem):
                    workers[number % 2].count(grant)
                    found += 1
            return found

        assert allowed(20) == 4
        now[0] += 10**9
        assert allowed(20) == 4


async def test_shared_times_outlast_more_owners_than_slots():
    now = [10**15]
    with shared_file() as file:
        rates = Rates(lambda: now[0], SharedTimes(file.fileno()))
        for number in range(3000):
            grant = Grant(f"owner{number}", frozenset(), (), OwnerLimits(rate=Rate(1, 1)))
            rates.count(grant)
            with pytest.raises(Problem, match="rate=1/s"):
                rates.count(grant)
            now[0] += 10**7  # a hundred owners are busy at a time


async def test_a_stopped_worker_that_has_the_lock_stops_no_other():
    grant = Grant("ann", frozenset(), (), OwnerLimits(rate=Rate(1, 1)))
    with shared_file() as file:
        locked, let_go = os.pipe(), os.pipe()
        child = os.fork()
        if not child:
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX)
            os.write(locked[1], b"1")
            os.close(let_go[1])
            os.read(let_go[0], 1)
            os._exit(0)
        try:
            os.read(locked[0], 1)
            rates = Rates(lambda: 10**15, SharedTimes(file.fileno()))
            rates.count(grant)
            with pytest.raises(Problem, match="rate=1/s"):
                rates.count(grant)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)  # noqa: ASYNC222 - it was just killed
            for descriptor in (*locked, *let_go):
                os.close(descriptor)
