"""The survey behind ``GET /v1/admin/stats``: busiest keys, oldest operations and the wheel, once a second for all."""

import asyncio
import random
from collections import Counter
from types import SimpleNamespace

import pytest

from purgatory_async.durable.fold.entries import SubmitOperation
from purgatory_async.durable.stats import survey
from purgatory_async.testing import settle
from purgatory_async.timing import TimingWheel

pytestmark = pytest.mark.asyncio

STATS = "/v1/admin/stats"


async def stats(client):
    reply = await client.request("GET", STATS)
    assert reply.status == 200
    return reply.json


class Wheel(TimingWheel):
    """The service's wheel with another walk over its buckets."""

    def __init__(self, client, buckets):
        super().__init__(start_tick=client.service.fold.shared.timer.queue.now_tick)
        self.buckets = buckets


def timer_with(client, buckets):
    timer = SimpleNamespace(tick=client.service.timer.tick, queue=Wheel(client, buckets))
    return property(lambda _: timer)


async def fresh(client):
    """The answer, of a new survey."""
    await client.advance(survey.PERIOD)
    return await stats(client)


# What is surveyed.


async def test_the_busiest_keys_are_those_with_most_watchers(client):
    chance, watched = random.Random(2), Counter()
    for _ in range(150):
        keys = {f"k{int(chance.paretovariate(0.7)) % 40}" for _ in range(chance.randint(1, 4))}
        await client.submit(*keys)
        watched.update(keys)
    busiest = (await stats(client))["busiest_keys"]
    assert len(busiest) == 10
    assert [entry["watchers"] for entry in busiest] == sorted(watched.values(), reverse=True)[:10]
    assert all(watched[entry["key"]] == entry["watchers"] for entry in busiest)


async def test_keys_include_one_shot_waits_and_exclude_ended_ones(client):
    await client.submit("a", id="op")
    for _ in range(2):
        await client.held("GET", "/v1/wait?key=b&wait=9s")
    assert (await stats(client))["busiest_keys"] == [
        {"key": "b", "watchers": 2},
        {"key": "a", "watchers": 1},
    ]
    await client.request("DELETE", "/v1/operations/op")
    await client.signal("b")
    assert (await fresh(client))["busiest_keys"] == []


async def test_the_oldest_operations_are_shown_with_what_they_wait_for(client):
    await client.submit("a", "b", id="all", need="all", timeout="1m")
    await client.advance(1)
    await client.submit("a", "b", id="amount", need={"amount": 5})
    await client.advance(1)
    await client.held("GET", "/v1/wait?key=c&need=voters:2&wait=30s")
    await client.advance(1.5)
    await client.request("POST", "/v1/keys/a/signal", {"amount": 2})
    assert (await stats(client))["oldest_operations"] == [
        {
            "id": "all",
            "keys": ["a", "b"],
            "need": "all",
            "waiting_for": {"all": ["b"]},
            "elapsed": 3.5,
            "expires_in": 56.5,
        },
        {
            "id": "amount",
            "keys": ["a", "b"],
            "need": {"amount": 5},
            "waiting_for": {"amount": 3},
            "elapsed": 2.5,
            "expires_in": None,
        },
        {
            "id": None,
            "keys": ["c"],
            "need": {"voters": 2},
            "waiting_for": {"voters": 2},
            "elapsed": 1.5,
            "expires_in": 28.5,
        },
    ]


async def test_twenty_of_them_are_shown(client):
    for number in range(30):
        await client.submit("a", id=f"op{number}")
    for number in (0, 5, 29):
        await client.request("DELETE", f"/v1/operations/op{number}")
    shown = [entry["id"] for entry in (await stats(client))["oldest_operations"]]
    assert shown == [f"op{number}" for number in range(30) if number not in {0, 5, 29}][:20]


async def test_an_overdue_deadline_is_not_shown_as_negative(client):
    await client.submit("a", timeout="1s")
    operation = next(client.service.fold.operations.pending())
    operation.submitted -= 5_000_000  # as when the loop is held up
    assert (await stats(client))["oldest_operations"][0]["expires_in"] == 0


# The wheel.


def deadlines_of(wheel):
    """Every deadline in the wheel, in ticks, by a way of its own."""
    return [
        entry.deadline_tick
        for level in wheel._levels
        for bucket in level[2].values()
        for entry in _entries(bucket)
    ]


def _entries(bucket):
    entry = bucket._next
    while entry is not bucket:
        yield entry
        entry = entry._next


async def test_the_wheel_is_shown_as_strips_of_buckets_from_now_on(client):
    await client.advance(0.3)
    for timeout in ("100ms", "100ms", "200ms", "40s", "15m", "20m", None):
        await client.submit("a", timeout=timeout)
    wheel = (await stats(client))["wheel"]
    assert (wheel["tick"], wheel["now_tick"], wheel["entries"]) == (0.001, 300, 6)
    assert [(level["ticks_per_bucket"], level["first_tick"]) for level in wheel["levels"]] == [
        (1, 300),
        (256, 256),
        (65536, 0),
    ]
    assert [
        {place: count for place, count in enumerate(level["counts"]) if count} for level in wheel["levels"]
    ] == [
        {100: 2, 200: 1},
        {(40_300 - 256) // 256: 1},
        {900_300 // 65536: 1, 1_200_300 // 65536: 1},
    ]
    assert {len(level["counts"]) for level in wheel["levels"]} == {257}


async def test_every_deadline_is_in_the_bucket_of_its_time(client):
    chance = random.Random(4)
    for _ in range(40):
        for _ in range(15):
            await client.submit("a", timeout=round(chance.paretovariate(0.5), 3))
        await client.advance(chance.random() * 100)
        wheel = (await fresh(client))["wheel"]
        deadlines = deadlines_of(client.service.fold.shared.timer.queue)
        assert wheel["entries"] == len(deadlines) == sum(sum(level["counts"]) for level in wheel["levels"])
        buckets = Counter()
        for level in wheel["levels"]:
            width, first = level["ticks_per_bucket"], level["first_tick"]
            assert first <= wheel["now_tick"] < first + width
            for place, count in enumerate(level["counts"]):
                inside = [
                    tick for tick in deadlines if first + place * width <= tick < first + (place + 1) * width
                ]
                assert count <= len(inside)
                buckets[width] += count
        assert sum(buckets.values()) == len(deadlines)


async def test_an_idle_wheel_has_two_empty_levels(client):
    wheel = (await stats(client))["wheel"]
    assert [sum(level["counts"]) for level in wheel["levels"]] == [0, 0]


async def test_what_is_overdue_is_in_the_first_bucket(client):
    for timeout in ("20ms", "300ms"):
        await client.submit("a", timeout=timeout)
    wheel = client.service.fold.shared.timer.queue
    wheel.now_tick = 5000  # as when the loop was held up for so long
    levels = (await stats(client))["wheel"]["levels"]
    assert [level["counts"][0] for level in levels] == [1, 1]
    wheel.now_tick = 0


# How often, and for whom.


@pytest.fixture
def surveys(client, monkeypatch):
    """How many surveys were made, so far."""
    made = []
    walk = client.service.fold.operations.purgatory.watchers

    def watchers(keys=None):
        made.append(keys)
        return walk(keys)

    class Walked:
        def __getattr__(self, name):
            return watchers if name == "watchers" else getattr(client.service.fold.operations.purgatory, name)

    both = property(lambda _: (Walked(), client.service.waits.purgatory))
    monkeypatch.setattr(survey.Survey, "_purgatories", both)
    return lambda: sum(keys is None for keys in made)


async def test_however_many_ask_a_survey_is_made_once_a_second(client, surveys):
    for _ in range(50):
        await stats(client)
    assert surveys() == 1
    await client.advance(0.999)
    await stats(client)
    assert surveys() == 1
    await client.advance(0.001)
    for _ in range(50):
        await stats(client)
    assert surveys() == 2


async def test_one_that_took_long_is_made_less_often(client, monkeypatch):
    def buckets():
        client.clock.advance(0.5)  # a pass that takes so long
        yield from client.service.fold.shared.timer.queue.buckets()

    await client.submit("a")
    with monkeypatch.context() as context:
        context.setattr(survey.Survey, "_log_timer", timer_with(client, buckets))
        await stats(client)
    await client.submit("b")
    await client.advance(4.9)
    assert len((await stats(client))["busiest_keys"]) == 1
    await client.advance(0.1)
    assert len((await stats(client))["busiest_keys"]) == 2


async def test_the_time_that_others_take_meanwhile_does_not_count(client, monkeypatch):
    monkeypatch.setattr(survey, "STEPS", 1)
    for key in "abc":
        await client.submit(key)
    exchange = client.start("GET", STATS)
    while not exchange.answered:
        await asyncio.sleep(0)
        client.clock.advance(0.2)
    await client.submit("d")
    await client.advance(survey.PERIOD)
    assert len((await stats(client))["busiest_keys"]) == 4


async def test_shown_figures_are_at_most_a_second_old(client):
    for quiet in (0.0, 0.4, 0.599, 0.001, 0.999, 1.0, 3600.0, 0.5, 0.7):
        await client.advance(quiet)
        age = (await client.request("GET", "/v1/admin/stats")).json["survey_age"]
        assert 0 <= age < survey.PERIOD, quiet


async def test_who_asks_while_one_is_under_way_waits_for_it(client, surveys, monkeypatch):
    monkeypatch.setattr(survey, "STEPS", 2)
    for number in range(20):
        await client.submit(f"k{number}")
    exchanges = []
    for _ in range(5):
        exchanges.append(client.start("GET", STATS))
        await asyncio.sleep(0)
    await settle()
    assert surveys() == 1
    assert len({exchange.body for exchange in exchanges}) == 1


async def test_without_requests_no_survey_runs(client, surveys):
    await client.submit("a")
    await client.advance(60)
    assert surveys() == 0


async def test_cancelling_the_first_request_keeps_the_others_served(client, monkeypatch):
    monkeypatch.setattr(survey, "STEPS", 2)
    for number in range(20):
        await client.submit(f"k{number}")
    first, second = [asyncio.ensure_future(client.service.survey.findings()) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    assert len((await second).busiest_keys) == 10
    assert first.cancelled()


async def test_a_failing_survey_fails_its_waiters_and_the_next_is_new(client, monkeypatch):
    broken = client.service.survey
    with monkeypatch.context() as context:
        context.setattr(broken, "_recent", None)
        with pytest.raises(AttributeError):
            await broken.findings()
    assert (await stats(client))["counts"]["pending"] == 0


# With a hundred thousand.


@pytest.fixture
def looked_at(client, monkeypatch):
    """How many keys, and entries of the wheel, the survey looked at; reading it starts from zero."""
    count = 0

    class Walked:
        def __getattr__(self, name):
            return getattr(client.service.fold.operations.purgatory, name)

        def watchers(self, keys=None):
            nonlocal count
            for step in client.service.fold.operations.purgatory.watchers(keys):
                count += 1
                yield step

    def buckets():
        nonlocal count
        for step in client.service.fold.shared.timer.queue.buckets():
            count += step[2]
            yield step

    def read():
        nonlocal count
        read, count = count, 0
        return read

    both = property(lambda _: (Walked(), client.service.waits.purgatory))
    monkeypatch.setattr(survey.Survey, "_purgatories", both)
    monkeypatch.setattr(survey.Survey, "_log_timer", timer_with(client, buckets))
    return read


@pytest.mark.slow
async def test_a_survey_of_100_000_is_exact_and_yields_to_others(client, looked_at):
    number = 99_000
    for place in range(number):
        keys = (f"k{place}", f"shared{place % 1000}")
        client.post(SubmitOperation(id=f"op{place}", keys=keys, timeout_us=1_000_000 + 500 * place))
    for place in range(50):
        client.post(SubmitOperation(id=f"more{place}", keys=("shared7",), timeout_us=5_000_000))
    exchange, passes = client.start("GET", STATS), []
    while not exchange.answered:
        await asyncio.sleep(0)
        passes.append(looked_at())
    found = exchange.json
    counts = found["counts"]
    assert (counts["pending"], counts["watched"]) == (number + 50, 2 * number + 50)
    assert (counts["submitted"], counts["keys"]) == (number + 50, number + 1000)
    assert found["busiest_keys"][0] == {"key": "shared7", "watchers": 149}
    assert {entry["watchers"] for entry in found["busiest_keys"][1:]} == {99}
    assert [entry["keys"][0] for entry in found["oldest_operations"]] == [f"k{place}" for place in range(20)]
    assert found["wheel"]["entries"] == number + 50
    # Structure, not time: one pass makes this many steps and finishes a bucket of a quarter of a second.
    assert max(passes) < survey.STEPS + 2000 / 4 + 50
    assert sum(1 for steps in passes if steps) >= (number + number + 1000) // survey.STEPS
