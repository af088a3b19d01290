"""Traces of a service: what a request's ``traceparent`` becomes, and what a client sends."""

import asyncio
import sys

import httpx2
import pytest
import pytest_asyncio
from msgspec import UNSET
from opentelemetry import trace

from purgatory_async.client import AsyncClient, Client
from purgatory_async.durable.fold.entries import SubmitOperation
from purgatory_async.otel import Traces, headers, traces
from purgatory_async.otel.context import parsed, traceparent
from purgatory_async.service.service import Service
from purgatory_async.service.settings.settings import Settings, SettingsError
from tests.otel.spans import links
from tests.service.on_store.members import Members

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

virtual = pytest.mark.asyncio(loop_factories=["virtual"])


@pytest_asyncio.fixture
async def members(monkeypatch, spans):
    """Workers whose spans are recorded."""
    monkeypatch.setattr(traces, "Traces", lambda: Traces(spans.provider))
    async with Members(monkeypatch) as made:
        yield made


def kept(members):
    [submission] = [each for each in members.store.decoded() if isinstance(each, SubmitOperation)]
    return submission.trace


async def submit(member, **fields):
    reply = await member.request(
        "POST", "/v1/operations", {"keys": ["order:42"], "id": "o"}, headers=fields.items()
    )
    assert reply.status == 202


@virtual
async def test_a_request_goes_on_with_its_trace_in_another_worker(members, spans):
    here, other = await members.start(otel=True), await members.start(otel=True)
    await submit(here, traceparent=TRACE)
    assert kept(members) == TRACE
    await other.request("POST", "/v1/keys/order:42/signal", {}, headers=[("traceparent", OTHER)])
    span = spans.one("operation order")
    assert f"{span.context.trace_id:032x}" == TRACE.split("-")[1]
    assert [f"{each:016x}" for each in (span.parent.span_id, *links(span))] == [
        each.split("-")[2] for each in (TRACE, TRACE, OTHER)
    ]


@virtual
async def test_a_worker_that_loads_its_state_keeps_the_trace(members):
    await members.start()
    here = await members.loading(otel=True)
    submitting = asyncio.ensure_future(submit(here, traceparent=TRACE))
    await asyncio.sleep(1)
    here.link.away = False
    await submitting
    assert kept(members) == TRACE


@virtual
@pytest.mark.parametrize("given", ["", "garbage", f"{TRACE}-more", TRACE.replace("0af7", "0AF7"), "00-0-0-0"])
async def test_an_invalid_traceparent_is_ignored(members, spans, given):
    here = await members.start(otel=True)
    await submit(here, traceparent=given)
    assert kept(members) is UNSET
    await here.request("POST", "/v1/operations/o/complete", {})
    span = spans.one("operation order")
    assert (span.parent, links(span)) == (None, [])


@virtual
async def test_without_the_setting_no_trace_is_kept(members, spans):
    here = await members.start()
    await submit(here, traceparent=TRACE)
    await here.request("POST", "/v1/operations/o/complete", {})
    assert b"trace" not in b"".join(entry.data for entry in members.store.entries)
    assert spans.ended == []


@virtual
async def test_a_service_in_memory_makes_spans_too(members, spans):
    here = await members.in_memory(otel=True)
    await submit(here, traceparent=TRACE)
    await here.request("POST", "/v1/operations/o/complete", {}, headers=[("traceparent", OTHER)])
    assert len(links(spans.one("operation order"))) == 2


def test_the_setting_without_the_api_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for name in [name for name in sys.modules if name.startswith(("purgatory_async.otel", "opentelemetry."))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(
        SettingsError, match=r'otel must be false without .*; run: pip install "purgatory-async\[otel\]"'
    ):
        Service(Settings(otel=True))


def test_a_client_passes_its_trace_on(spans):
    seen = []

    def answer(request):
        seen.append(request.headers.get("traceparent"))
        return httpx2.Response(200, json={"key": "k", "index": 1, "completed": 0})

    with Client("http://localhost", transport=httpx2.MockTransport(answer), headers=headers) as client:
        client.signal("k")
        with spans.span("caller") as caller:
            client.signal("k")
    assert seen == [None, traceparent(caller.get_span_context())]


@virtual
async def test_an_async_client_passes_its_trace_on(spans):
    seen = []

    async def answer(request):
        seen.append(request.headers.get("traceparent"))
        return httpx2.Response(200, json={"key": "k", "index": 1, "completed": 0})

    transport = httpx2.MockTransport(answer)
    async with AsyncClient("http://localhost", transport=transport, headers=headers) as client:
        with trace.use_span(trace.NonRecordingSpan(parsed(TRACE))):
            await client.signal("k")
    assert seen == [TRACE]
