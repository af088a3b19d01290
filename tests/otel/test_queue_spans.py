"""Spans of queues, by the semantic conventions for messaging."""

import asyncio

import pytest
import pytest_asyncio
from opentelemetry.trace import SpanKind, StatusCode

from purgatory_async.client import RequestRefused
from purgatory_async.cluster import MemoryLog
from purgatory_async.durable import Durable
from purgatory_async.durable.fold.checkpoint import parts
from purgatory_async.durable.fold.restoring import restored
from purgatory_async.otel import Traces
from tests.durable.library.calls import cancelled, later, start
from tests.durable.library.on_store import Members
from tests.otel.spans import links

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


@pytest_asyncio.fixture
async def members():
    async with Members() as made:
        yield made


@pytest_asyncio.fixture(params=["memory", "log"])
async def here(request, members, spans):
    store = "memory:" if request.param == "memory" else MemoryLog(members.store)
    async with Durable(store, telemetry=Traces(spans.provider)) as made:
        yield made


def messaging(span):
    """The attributes of the conventions, without their common beginning."""
    return {
        name.removeprefix("messaging."): value
        for name, value in span.attributes.items()
        if name not in {"messaging.system", "messaging.destination.name"}
    }


async def test_an_item_is_sent_received_and_settled(here, spans):
    with spans.span("producer") as producer:
        await here.put("jobs", "secret")
    with spans.span("consumer") as consumer:
        lease = await here.take("jobs")
        await here.acknowledge(lease)
    put, take, ack = (spans.one(f"{verb} jobs") for verb in ("put", "take", "ack"))
    assert [span.kind for span in (put, take, ack)] == [SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CLIENT]
    assert [span.parent.span_id for span in (put, take, ack)] == [
        each.get_span_context().span_id for each in (producer, consumer, consumer)
    ]
    assert (links(take), links(ack)) == ([put.context.span_id], [put.context.span_id])
    number = put.attributes["messaging.message.id"]
    assert [messaging(span) for span in (put, take, ack)] == [
        {"operation.name": "put", "operation.type": "send", "message.id": number},
        {"operation.name": "take", "operation.type": "receive", "message.id": number},
        {"operation.name": "ack", "operation.type": "settle", "message.id": number},
    ]
    for span in (put, take, ack):
        assert span.attributes["messaging.system"] == "purgatory"
        assert span.attributes["messaging.destination.name"] == "jobs"
        assert "secret" not in span.to_json()


async def test_a_batch_is_one_span_with_its_count(here, spans):
    await here.put_batch("jobs", [{"item": 1}, {"item": 2}])
    leases = await here.take_batch("jobs", 5)
    put, take = spans.one("put jobs"), spans.one("take jobs")
    assert messaging(put) == {"operation.name": "put", "operation.type": "send", "batch.message_count": 2}
    assert messaging(take) == {
        "operation.name": "take",
        "operation.type": "receive",
        "batch.message_count": 2,
    }
    assert links(take) == [put.context.span_id] * 2
    await here.give_back(leases[0])
    assert messaging(spans.one("return jobs"))["operation.type"] == "settle"


async def test_a_taker_in_line_is_linked_to_the_put_that_ends_it(here, spans):
    with spans.span("consumer") as consumer:
        taking = await start(here.take("jobs", timeout=60))
    await later(5)
    await here.put("jobs", 1)
    await taking
    take = spans.one("take jobs")
    assert take.parent.span_id == consumer.get_span_context().span_id
    assert links(take) == [spans.one("put jobs").context.span_id]


async def test_a_take_that_gets_nothing_has_no_span(here, spans):
    assert await here.take("jobs", timeout=0) is None
    assert await here.take("jobs", timeout=1) is None
    await cancelled(await start(here.take("jobs", timeout=60)))
    await later(1)
    assert spans.named("take jobs") == []
    assert "takers=0" in repr(here._backing.telemetry._queues)


async def test_a_refused_put_is_an_error(spans):
    async with Durable("memory:", max_bytes=1000, telemetry=Traces(spans.provider)) as here:
        with pytest.raises(RequestRefused):
            await here.put("jobs", "x" * 2000)
    span = spans.one("put jobs")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "overloaded"


async def test_an_item_keeps_its_trace_through_leases_and_restarts(members, spans):
    before = await members.open(telemetry=Traces(spans.provider))
    await before.put_batch("jobs", [{"item": 1}, {"item": 2, "delay": 3600}, {"item": 3}])
    await before.give_back(await before.take("jobs"))
    await before.take("jobs", lease=3600)
    fold = before.keeper.fold
    again = restored(parts(fold))
    assert list(parts(again)) == list(parts(fold))
    assert again.shared.kept.used == fold.shared.kept.used
    again.close()
    members.trim(before)
    await before.__aexit__()
    after = await members.open(telemetry=Traces(spans.provider))
    await after.take("jobs")
    put, take = spans.one("put jobs"), spans.named("take jobs")[-1]
    assert links(take) == [put.context.span_id]


async def test_takes_of_two_processes_have_a_span_each(members, spans):
    here = await members.open(telemetry=Traces(spans.provider))
    other = await members.open(telemetry=Traces(spans.provider))
    taking = [await start(each.take("jobs", timeout=60)) for each in (here, other)]
    await here.put_batch("jobs", [{"item": 1}, {"item": 2}])
    await asyncio.gather(*taking)
    assert len(spans.named("take jobs")) == 2
