"""Whatever a service keeps for clients is counted somewhere, or bounded by something that is.

A collection that stands in no row of `BOUNDS` is a fault: say what bounds it, or count what it keeps.
"""

import pytest
import pytest_asyncio

from tests.service.on_store.containers import containers

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

BOUNDS = {
    "bytes of what is kept, at most --max-bytes; see `fold.kept_bytes`": """
        durable.waiting.feed:Feed._ring durable.fold.items:Queue.hidden durable.fold.items:Queue.ready
        durable.fold.kept_answers:KeptAnswers.by_idem durable.fold.kept_answers:Until.by_name
        durable.fold.kept_answers:Until._heap durable.fold.kept_signals:KeptSignals.keys
        durable.fold.operations:Operations.by_id durable.fold.operations:Operations.by_idem
        durable.fold.operations:Operations.ended_ones durable.fold.operations:Operations.idem_of
        durable.fold.operations:Operations.questions durable.fold.promises:Questions.waiting
        durable.fold.operations:Shown.latest durable.fold.queues:Queues.by_name
        durable.fold.queues:Queues.leases durable.fold.leases:Leases.takes
        durable.fold.remembered:Remembered._entries durable.fold.replays:Replays._entries
        durable.fold.kept_signals:Key.signals durable.fold.kept_signals:Superseded._turns
        durable.listing:Listing._order_of durable.listing:Order._blocks durable.fold.needs:Voters._voters
    """,
    "held requests of each worker": """
        durable.waiting.followers:Followers._by_key durable.waiting.followers:Followers._by_prefix
        durable.waiting.followers:Followers._lengths durable.waiting.followers:_Audience.asleep
        durable.waiting.followers:_Audience.heard durable.waiting.followers:_Follower.audiences
        held.stream:Streams.running held.takers:HeldTakers._left held.takers:HeldTakers._leased
        http.traffic:Traffic.held app:Application.held held.requests:HeldRequests._ended
        durable.fold.queues:Queues.takers durable.fold.leases:Line.by_writer durable.fold.takes:Take.in_line
        durable.waiting.pacing:Pace._batches durable.waiting.takers:Takers._leased
        durable.waiting.takers:Takers._left
    """,
    "requests under way, or connections": """
        access.check:Access._present app:Application.tasks http.unsent:Unsent._senders
        records:Records._unrecorded durable.at_once:AtOnce._posted durable.progress:Progress._asking
        durable.progress:Progress._to_ask durable.steps:Steps._works
    """,
    "one-shot waits, at most --max-pending, and bytes that they have heard; see `heard`": """
        durable.waiting.heard:Heard._holders durable.waiting.heard:Heard.pinned_of
        durable.waiting.waits:Waits._joinable
    """,
    "names in the tokens file": """
        access.rates:_OwnTimes._free_at_ns durable.fold.kept_bytes:KeptBytes.pinned_of
        durable.fold.operations:Operations.pending_of durable.waiting.waits:Waits._pending_of
    """,
    "workers": """
        peers:Peers._questions durable.fold.terms:Terms._names durable.fold.terms:Terms._positions
        durable.fold.writers:Writers.known durable.fold.writers:Writers._silences durable.ticks:Ticks._own
    """,
    "one step": """
        durable.fold.telling:Telling.untold durable.fold.shared:Shared.effects
        durable.waiting.waits:Condition._completed durable.waiting.waits:Waits._completed
    """,
    "a number in the code: its routes, labels, tasks, seconds and positions": """
        api.endpoint:Endpoint.answers api.endpoint:_Node.by_text http.traffic:Traffic._lines
        http.traffic:Traffic._refused http.traffic:_Line.statuses durable.fold.fold:Fold._lately
        durable.fold.fold:Fold._rules durable.fold.log_clock:LogClock._wakeups
        durable.fold.operation_rules:OperationRules.by_kind durable.fold.queue_rules:QueueRules.by_kind
        durable.fold.signal_rules:SignalRules.by_kind durable.fold.shared:Totals.ended
        durable.tasks:Tasks._running durable.stats.recent:Recent._row durable.stats.recent:Recent._rows
        durable.stats.recent:Window._slots durable.stats.recent:_Slot.counts held.held:Held._hearers
        durable.stats.survey:Survey._narrower
        durable.library.waits:LocalWaits._hearers
    """,
}


@pytest_asyncio.fixture(params=["memory", "store"])
async def here(request, members):
    """A worker without a store, and one with it."""
    return await (members.in_memory() if request.param == "memory" else members.start())


async def fill(here):
    """Let a service keep something of each kind; return the requests that it holds."""
    await here.request("POST", "/v1/operations", {"keys": ["a"], "id": "op", "need": {"voters": 3}})
    await here.request("POST", "/v1/operations", {"keys": ["a"], "id": "ended"}, [("idempotency-key", "i")])
    await here.request("POST", "/v1/keys/a/signal", {"voter": "v"}, [("idempotency-key", "k")])
    await here.request("PUT", "/v1/queues/set", {"max_items": 9})
    for delay in (0, 0, 60):
        await here.request("POST", "/v1/queues/q/items", {"item": 1, "delay": delay})
    await here.request("POST", "/v1/queues/q/take", {})
    newest = (await here.request("GET", "/v1/wait?key=a&since=0")).json["next"]
    return [
        await here.held("GET", "/v1/wait?key=a&need=voters:9&wait=9s"),
        await here.held("GET", f"/v1/wait?key=a&prefix=y&since={newest}&wait=9s"),
        await here.held("GET", "/v1/operations/op?wait=9s"),
        await here.held("POST", "/v1/queues/empty/take?wait=9s", {}, [("idempotency-key", "t")]),
    ]


async def test_each_collection_of_a_service_has_a_bound(here):
    held = await fill(here)
    found = containers(here.app, here.service)
    assert len(found) > 50
    assert sorted(found - {name for names in BOUNDS.values() for name in names.split()}) == []
    for each in held:
        each.hang_up()
        await each.over


async def test_settings_of_queues_are_refused_without_room(members):
    here = await members.in_memory(max_bytes="1KiB")
    answers = [await here.request("PUT", f"/v1/queues/{name}", {"max_items": 9}) for name in range(10)]
    assert [each.status for each in answers] == [200] * 7 + [503] * 3
    assert (answers[-1].slug, answers[-1].json["budget"]) == ("overloaded", "max_bytes")
    await here.request("DELETE", "/v1/queues/0")
    assert (await here.request("PUT", "/v1/queues/9", {"max_items": 9})).status == 200
