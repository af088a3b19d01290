"""The observer of OpenTelemetry: one span for each operation, from its submission to its end."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.otel import OtelObserver, Traces
from purgatory_async.testing import ManualClock, settle
from tests.otel.spans import links


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def purgatory(clock, spans):
    return Purgatory(timer=Timer(clock=clock), observer=OtelObserver(spans.provider))


def submitted(purgatory, *keys, timeout=None):
    operation = DelayedOperation(timeout)
    purgatory.try_complete_else_watch(operation, keys)
    return operation


def test_a_span_lasts_as_long_as_its_operation(purgatory, clock, spans):
    submitted(purgatory, "order:42")
    clock.advance(2.5)
    purgatory.complete_for_key("order:42")
    span = spans.one("operation order")
    assert span.end_time - span.start_time == 2_500_000_000
    assert dict(span.attributes) == {
        "purgatory.key.prefix": "order",
        "purgatory.outcome": "completed",
        "purgatory.held_seconds": 2.5,
    }


def test_it_is_a_child_of_the_asker_and_linked_to_the_answer(purgatory, spans):
    with spans.span("ask") as ask:
        submitted(purgatory, "door")
    with spans.span("answer") as answer:
        purgatory.complete_for_key("door")
    span = spans.one("operation")
    assert span.parent.span_id == ask.get_span_context().span_id
    assert span.context.trace_id == ask.get_span_context().trace_id
    assert links(span) == [answer.get_span_context().span_id]


def test_the_span_of_the_asker_is_no_link(purgatory, spans):
    with spans.span("ask"):
        submitted(purgatory, "door")
        purgatory.complete_for_key("door")
    assert links(spans.one("operation")) == []


def test_an_expiry_has_no_link(purgatory, clock, spans):
    submitted(purgatory, "door", timeout=1)
    with spans.span("of another matter"):
        clock.advance(3)
    span = spans.one("operation")
    assert (span.attributes["purgatory.outcome"], links(span)) == ("expired", [])
    assert span.status.status_code is StatusCode.UNSET


def test_a_failure_has_the_type_of_its_error_and_not_its_text(purgatory, spans):
    submitted(purgatory, "door")
    purgatory.fail_for_key("door", LookupError("of Ann Smith"))
    span = spans.one("operation")
    assert span.attributes["error.type"] == "LookupError"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert "Smith" not in span.to_json()


def test_whole_keys_are_shown_only_where_asked(clock, spans):
    observer = OtelObserver(spans.provider, keys=True)
    with_keys = Purgatory(timer=Timer(clock=clock), observer=observer)
    submitted(with_keys, "order:42", ("door", 7))
    assert repr(observer) == "<OtelObserver open=1>"
    with_keys.complete_for_key("order:42")
    assert spans.one("operation order").attributes["purgatory.keys"] == ("order:42", "('door', 7)")


def test_a_closed_purgatory_ends_its_spans(purgatory, spans):
    submitted(purgatory, "door")
    purgatory.close()
    assert spans.one("operation").attributes["purgatory.outcome"] == "closed"


def test_without_an_sdk_nothing_is_kept(clock):
    observer = OtelObserver(trace.NoOpTracerProvider())
    purgatory = Purgatory(timer=Timer(clock=clock), observer=observer)
    submitted(purgatory, "door")
    assert repr(observer) == "<OtelObserver open=0>"
    purgatory.complete_for_key("door")


@pytest.mark.asyncio
async def test_a_wait_in_a_task_belongs_to_the_tasks_trace(clock, spans):
    async with Purgatory(timer=Timer(clock=clock), observer=OtelObserver(spans.provider)) as purgatory:

        async def ask(name):
            with spans.span(name):
                await purgatory.wait(name)

        tasks = [asyncio.ensure_future(ask(name)) for name in ("a", "b")]
        await settle()
        purgatory.complete_for_key("b")
        purgatory.complete_for_key("a")
        await asyncio.gather(*tasks)
    asked = [spans.one(name).context.span_id for name in ("b", "a")]
    assert [span.parent.span_id for span in spans.named("operation")] == asked


@pytest.mark.parametrize("make", [OtelObserver, Traces])
def test_what_makes_no_tracers_is_refused_with_what_to_pass(make):
    with pytest.raises(TypeError, match=r"tracer_provider must be a TracerProvider, .* got 'shop'; the name"):
        make("shop")
