"""Whatever a service keeps for clients is counted somewhere, or bounded by something that is.

A collection that stands in no row of `BOUNDS` is a fault: say what bounds it, or count what it keeps.
"""

import pytest
import pytest_asyncio

from tests.service.on_store.containers import containers

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

BOUNDS = {
    "bytes of what is kept, at most --max-bytes; see `fold.kept_bytes`": """
        http.feed:Feed._keys http.feed:Feed._places http.feed:Feed._ring http.feed:Feed._sizes
        state.fold.items:Queue.hidden state.fold.items:Queue.ready state.fold.kept_signals:KeptSignals.keys
        state.fold.operations:Operations.by_id state.fold.operations:Operations.by_idem
        state.fold.operations:Operations.ended_ones state.fold.operations:Operations.idem_of
        state.fold.operations:Shown.latest state.fold.queues:Queues.by_name state.fold.queues:Queues.leases
        state.fold.remembered:Remembered._entries state.fold.replays:Replays._entries
        state.fold.superseded:Key.signals state.fold.superseded:Superseded._turns
        state.listing:Listing._order_of state.order:Order._blocks state.needs:Voters._voters
    """,
    "held requests of each worker": """
        http.followers:Followers._by_key http.followers:Followers._by_prefix http.followers:Followers._lengths
        http.followers:_Follower.heard http.stream:Streams.running http.takers:Takers._left
        http.takers:Takers._lent http.traffic:Traffic._held state.fold.queues:Queues.takers
        state.fold.queues:Queues.takers_of state.pacing:Pace._batches
    """,
    "requests under way, or connections": """
        access:Access._present http.unsent:Unsent._senders records:Records._unrecorded
        state.at_once:AtOnce._posted state.progress:Progress._asking state.progress:Progress._to_ask
        state.steps:Steps._works
    """,
    "one-shot waits, at most --max-pending, and bytes that they have heard; see `heard`": """
        state.heard:Heard._holders state.heard:Heard.pinned_of
        state.waits:Condition._met state.waits:Waits._joinable state.waits:Waits._met
    """,
    "names in the tokens file": """
        rates:_OwnTimes._free_at_ns state.fold.kept_bytes:KeptBytes.pinned_of
        state.fold.operations:Operations.pending_of state.waits:Waits._pending_of
    """,
    "workers": """
        peers:Peers._questions state.fold.terms:Terms._names state.fold.terms:Terms._positions
        state.fold.writers:Writers.known state.ticks:Ticks._own
    """,
    "one step": """
        state.fold.shared:Shared.effects
    """,
    "a number in the code: its routes, labels, tasks, seconds and positions": """
        api.endpoint:Endpoint.answers api.endpoint:Routes._by_length http.traffic:Traffic._lines
        http.traffic:Traffic._refused http.traffic:_Line.statuses state.fold.fold:Fold._lately
        state.fold.fold:Fold._rules state.fold.log_clock:LogClock._wakeups
        state.fold.queue_rules:QueueRules.by_kind
        state.fold.signal_rules:SignalRules.by_kind state.fold.shared:Totals.ended state.on_log:OnLog._tasks
        stats.recent:Recent._row stats.recent:Recent._rows stats.recent:Window._slots stats.recent:_Slot.counts
        stats.survey:Survey._narrower
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
        await here.held("POST", "/v1/queues/empty/take?wait=9s"),
    ]


async def test_each_collection_of_a_service_has_a_bound(here):
    held = await fill(here)
    found = containers(here.app, here.service)
    assert len(found) > 50
    assert sorted(found - {name for names in BOUNDS.values() for name in names.split()}) == []
    for each in held:
        each.hang_up()
        await each.task


async def test_settings_of_queues_are_refused_without_room(members):
    here = await members.in_memory(max_bytes="1KiB")
    answers = [await here.request("PUT", f"/v1/queues/{name}", {"max_items": 9}) for name in range(10)]
    assert [each.status for each in answers] == [200] * 7 + [503] * 3
    assert (answers[-1].slug, answers[-1].json["budget"]) == ("overloaded", "max_bytes")
    await here.request("DELETE", "/v1/queues/0")
    assert (await here.request("PUT", "/v1/queues/9", {"max_items": 9})).status == 200
