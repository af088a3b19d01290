"""One trace from a question to its answer, over processes on one store and their restarts."""

import asyncio

import pytest
import pytest_asyncio
from opentelemetry.trace import StatusCode

from purgatory_async.cluster import MemoryLog
from purgatory_async.durable import Durable
from purgatory_async.durable.fold import codec
from purgatory_async.durable.fold.checkpoint import digest, parts
from purgatory_async.durable.fold.entries import SetLevel, SubmitOperation
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.restoring import restored
from purgatory_async.otel import Traces
from tests.durable.library.calls import cancelled, later, start
from tests.durable.library.on_store import Members
from tests.otel.spans import Recorded, links

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ASK = {"title": "Go?", "choices": ["yes", "no"]}


@pytest_asyncio.fixture
async def members():
    async with Members() as made:
        yield made


@pytest.fixture
def there():
    """The spans of another process."""
    return Recorded()


def telling(recorded, **options):
    return {"telemetry": Traces(recorded.provider, **options)}


def stored(store):
    return [entry for entry in store.decoded() if isinstance(entry, SubmitOperation)]


async def test_one_trace_from_ask_to_answer_over_two_workers(members, spans, there):
    asker = await members.open(**telling(spans))
    answerer = await members.open(**telling(there))
    with spans.span("ask") as ask:
        waiting = await start(asker.ask("deploy-7", "Go?", choices=["yes", "no"]))
    await later(10)
    with there.span("answer") as answer:
        await answerer.answer("deploy-7", "yes", by="ann")
    assert (await waiting).choice == "yes"
    span = there.one("operation")
    assert spans.named("operation") == []
    assert span.context.trace_id == ask.get_span_context().trace_id
    assert span.parent.span_id == ask.get_span_context().span_id
    assert links(span) == [ask.get_span_context().span_id, answer.get_span_context().span_id]
    assert [link.attributes["purgatory.link"] for link in span.links] == ["submit", "end"]
    held = span.attributes["purgatory.held_seconds"]
    assert held == (span.end_time - span.start_time) / 1e9 == pytest.approx(10.2, abs=0.1)
    assert dict(span.attributes) == {
        "purgatory.outcome": "completed",
        "purgatory.held_seconds": held,
    }


@pytest.mark.parametrize(
    ("verb", "outcome"),
    [
        (lambda verbs: verbs.signal("k:1", "secret"), "completed"),
        (lambda verbs: verbs.signal_batch([{"key": "k:1"}, {"key": "k:2"}]), "completed"),
        (lambda verbs: verbs.complete("o", "secret"), "completed"),
        (lambda verbs: verbs.fail("o", "secret"), "failed"),
        (lambda verbs: verbs.cancel("o"), "cancelled"),
    ],
)
@pytest.mark.parametrize("place", ["memory", "log"])
async def test_each_way_to_end_an_operation_is_linked(members, spans, verb, outcome, place):
    settings = telling(spans)
    async with (
        Durable("memory:", **settings)
        if place == "memory"
        else Durable(MemoryLog(members.store), **settings) as here
    ):
        with spans.span("ask") as ask:
            await here.submit(["k:1"], operation_id="o")
        with spans.span("end") as end:
            await verb(here)
    span = spans.one("operation k")
    assert span.attributes["purgatory.outcome"] == outcome
    assert links(span) == [ask.get_span_context().span_id, end.get_span_context().span_id]
    assert (span.status.status_code is StatusCode.ERROR) == (outcome == "failed")
    assert "secret" not in span.to_json()


async def test_an_expiry_is_one_span_without_a_link_to_an_end(members, spans, there):
    here = await members.open(**telling(spans))
    await members.open(**telling(there))
    with spans.span("ask") as ask:
        await here.submit(["k"], timeout=2, operation_id="o")
    await later(5)
    [span] = [*spans.named("operation"), *there.named("operation")]
    assert span.attributes["purgatory.outcome"] == "expired"
    assert span.end_time - span.start_time == 2_000_000_000
    assert links(span) == [ask.get_span_context().span_id]


async def test_what_expires_in_the_step_of_a_signal_has_no_link_to_it(members, spans, there):
    here, other = await members.open(**telling(spans)), await members.open(**telling(there))
    began = asyncio.get_running_loop().time()
    await here.submit(["k"], timeout=2, operation_id="o")
    await here.__aexit__()
    # Before the other one appends a tick for what is not its own.
    await later(began + 2.1 - asyncio.get_running_loop().time())
    with there.span("of another matter"):
        await other.signal("another")
    span = there.one("operation")
    assert (span.attributes["purgatory.outcome"], links(span)) == ("expired", [])


async def test_a_restart_from_a_checkpoint_keeps_the_trace(members, spans, there):
    before = await members.open(**telling(spans))
    with spans.span("ask") as ask:
        await before.submit(["k"], operation_id="o")
    members.trim(before)
    await before.__aexit__()
    after = await members.open(**telling(there))
    await after.complete("o")
    assert there.one("operation").parent.span_id == ask.get_span_context().span_id


async def test_what_is_applied_again_makes_no_second_span(members, spans):
    here = await members.open(**telling(spans))
    await here.submit(["k"], operation_id="o")
    members.trim(here)
    await here.complete("o")
    again = await members.open(**telling(spans))
    await members.fall_behind(here, lambda other: other.signal("k"))
    assert (await again.status("o")).state == "completed"
    assert len(spans.named("operation")) == 1


async def test_a_store_of_an_older_level_keeps_no_trace(members, spans):
    members.store.append([codec.encode(SetLevel(level=2))])
    here = await members.open(**telling(spans))
    with spans.span("ask"):
        await here.attach("o", ask=ASK)
        await here.put("q", 1)
    with spans.span("answer") as answer:
        await here.answer("o", "yes")
    assert {entry.needed_level for entry in members.store.decoded()} <= {1, 2}
    assert b"trace" not in b"".join(entry.data for entry in members.store.entries)
    span = spans.one("operation")
    assert (span.parent, links(span)) == (None, [answer.get_span_context().span_id])


async def test_without_telemetry_entries_are_as_they_were(members, spans):
    here = await members.open()
    with spans.span("ask"):
        await here.submit(["k"], operation_id="o", timeout=9)
        await here.put("q", {"a": 1})
        await here.put_batch("q", [{"item": 1}])
    writer = here.keeper.state.writer.encode()
    written = [each.data.replace(writer, b"W") for each in members.store.entries]
    assert [each for each in written if b'"alive"' not in each and b'"level"' not in each] == [
        b'{"k":"submit","id":"o","keys":["k"],"timeout":9000000,"w":"W","n":3}',
        b'{"k":"put","queue":"q","item":{"a":1},"delay":0,"w":"W","n":4}',
        b'{"k":"puts","queue":"q","items":[{"item":1}],"w":"W","n":5}',
    ]


async def test_a_trace_counts_in_the_budget_and_is_in_the_checkpoint():
    fold, plain = Fold(), Fold()
    for each, trace in ((fold, TRACE), (plain, None)):
        order = SubmitOperation(id="o", keys=("k",))
        if trace:
            order.trace = trace
        each.apply(1, 0, order)
    assert fold.shared.kept.used - plain.shared.kept.used == len(TRACE)
    again = restored(parts(fold))
    assert digest(again) == digest(fold) != digest(plain)
    assert again.shared.kept.used == fold.shared.kept.used
    assert again.operations.by_id["o"].promise.trace == TRACE
    for each in (fold, plain, again):
        each.close()


async def test_the_end_of_a_cancelled_wait_is_a_span(members, spans):
    here = await members.open(**telling(spans))
    with spans.span("ask"):
        waiting = await start(here.wait("k"))
    await cancelled(waiting)
    await later(1)
    assert spans.one("operation").attributes["purgatory.outcome"] == "cancelled"


async def test_whole_keys_and_names_are_shown_only_where_asked(spans):
    async with Durable("memory:", owner="ann", **telling(spans, keys=True)) as here:
        await here.submit(["order:42"], operation_id="o")
        await here.complete("o")
    attributes = spans.one("operation order").attributes
    assert attributes["purgatory.operation.id"] == "o"
    assert (attributes["purgatory.keys"], attributes["purgatory.by"]) == (("order:42",), "ann")


async def test_what_telemetry_raises_does_no_harm(members):
    class Broken:
        def begin(self, *told):
            raise LookupError("begin")

        happened = failed = restarted = begin

    here = await members.open(telemetry=Broken())
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["exception"]))
    await here.submit(["k"], operation_id="o")
    await here.complete("o")
    assert (await here.status("o")).state == "completed"
    assert {type(each) for each in heard} == {LookupError}


@pytest.mark.parametrize("telemetry", [True, Traces])
async def test_what_is_no_telemetry_is_refused_before_the_store_opens(telemetry):
    with pytest.raises(TypeError, match=r"telemetry must be a Telemetry, as .*Traces\(\) is, or None, got"):
        Durable("memory:", telemetry=telemetry)
