"""Signals: given one by one and in batches, read, watched, followed from a place on; and the events of operations."""

import pytest

from purgatory_async.client import Event, KeyState, Signal, SignalGap
from tests.durable.library.calls import cancelled, first, later, refused, start

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("value", [None, False, 0, "", "\N{SNOWMAN}", [1, {"a": None}], 1e300])
async def test_a_signal_carries_any_json(verbs, value):
    assert await verbs.signal("k", value) == 0
    state = await verbs.read("k")
    assert isinstance(state, KeyState)
    assert (state.key, state.value) == ("k", value)
    assert state.index > 0


async def test_a_key_that_never_had_a_signal_reads_as_such(verbs):
    assert await verbs.read("k") == KeyState("k", 0, None)
    await verbs.signal("k")
    assert (await verbs.read("k")).value is None


async def test_a_signal_tells_how_many_operations_it_completed(verbs):
    for name in "abc":
        await verbs.submit(["k", name], operation_id=name)
    assert await verbs.signal("c", 1) == 1
    assert await verbs.signal("k", 2) == 2
    assert await verbs.signal("k", 3) == 0
    assert [signal["value"] for signal in (await verbs.status("a")).signals] == [2]


async def test_a_batch_is_one_step_in_its_order(verbs):
    await verbs.submit(["a", "b"], operation_id="o", need="all")
    batch = [{"key": "a", "value": 1}, {"key": "b", "amount": 2, "voter": "v"}, {"key": "a", "value": 3}]
    assert await verbs.signal_batch(batch) == 1
    ended = await verbs.status("o")
    assert [(each["key"], each.get("value"), each.get("voter")) for each in ended.signals] == [
        ("a", 1, None),
        ("b", None, "v"),
    ]
    indexes = [(await verbs.read(key)).index for key in "ba"]
    assert indexes[1] == indexes[0] + 1


async def test_a_batch_with_a_fault_does_nothing(verbs):
    batch = [{"key": "a"}, {"key": ""}, {"key": "b", "amount": 0}, {"value": 1}]
    refusal = await refused(verbs.signal_batch(batch), 422, "invalid")
    assert [each["pointer"].split("/")[2] for each in refusal.document["errors"]] == ["1", "2", "3"]
    assert (await verbs.read("a")).index == 0


async def test_a_watch_returns_the_next_signal_above_its_index(verbs):
    assert await verbs.watch("k", 0, timeout=0) is None
    watching = await start(verbs.watch("k", 0))
    await verbs.signal("k", "v")
    state = await watching
    assert state == await verbs.read("k") == await verbs.watch("k", 0, timeout=0)
    assert await verbs.watch("k", state.index, timeout="200ms") is None
    assert await verbs.watch("k", 2**62, timeout=0) == state  # of a state that was lost


async def test_a_cancelled_watch_leaves_the_next_one_its_signal(verbs):
    await cancelled(await start(verbs.watch("k", 0)))
    await verbs.signal("k", 1)
    assert (await verbs.watch("k", 0)).value == 1


async def test_signals_come_once_and_in_order(verbs):
    await verbs.signal("a", 0)
    signals = verbs.signals("a", "b", since=0)
    assert signals.since == "0"
    following = await start(first(signals, 4))
    await verbs.signal("other", "no")
    await verbs.signal_batch([{"key": "b", "amount": 2}, {"key": "a", "voter": "v"}])
    await verbs.signal("a", {"n": 3})
    found = await following
    assert all(isinstance(each, Signal) for each in found)
    shown = [(each.key, each.value, each.amount, each.voter) for each in found]
    assert shown == [("a", 0, 1, None), ("b", None, 2, None), ("a", None, 1, "v"), ("a", {"n": 3}, 1, None)]
    assert [each.index for each in found] == sorted({each.index for each in found})
    assert signals.since >= found[-1].place


async def test_signals_go_on_behind_a_place_an_index_and_an_iterator(verbs):
    for value in range(5):
        await verbs.signal("k", value)
    signals = verbs.signals("k", since=0)
    second = (await first(signals, 2))[1]
    for since in (second.place, second.index, str(second.index), signals.since):
        assert [each.value for each in await first(verbs.signals("k", since=since), 3)] == [2, 3, 4]
    assert [each.value for each in await first(signals, 3)] == [2, 3, 4]


async def test_signals_from_now_on_are_new_ones(verbs):
    await verbs.signal("k", "old")
    signals = verbs.signals("k")
    assert signals.since == "now"
    following = await start(first(signals, 1))
    await verbs.signal("k", "new")
    assert [each.value for each in await following] == ["new"]


async def test_prefixes_are_followed_beside_keys(verbs):
    signals = verbs.signals("k", prefixes=["a/", "b/"], since=0)
    for key in ("a/1", "a", "b/2", "k", "kk"):
        await verbs.signal(key)
    assert [each.key for each in await first(signals, 3)] == ["a/1", "b/2", "k"]


async def test_lost_signals_are_a_gap_and_those_left_come_next(verbs):
    for value in range(100):  # 64 are kept of a key
        await verbs.signal("k", value)
    signals = verbs.signals("k", since=0)
    with pytest.raises(SignalGap) as gap:
        await anext(signals)
    assert gap.value.since == "0"
    assert [each.value for each in await first(signals, 64)] == list(range(36, 100))


async def test_a_place_of_another_history_is_a_gap(verbs):
    await verbs.signal("k", 1)
    signals = verbs.signals("k", since="0123456789abcdef-7")
    with pytest.raises(SignalGap, match="0123456789abcdef-7"):
        await anext(signals)
    assert (await first(signals, 1))[0].value == 1


async def test_a_cancelled_iterator_goes_on_where_it_was(verbs):
    signals = verbs.signals("k", since=0)
    await cancelled(await start(first(signals, 1)))
    await verbs.signal("k", 1)
    assert (await first(signals, 1))[0].value == 1


@pytest.mark.parametrize(
    ("keys", "prefixes", "words"),
    [((), "a/", "prefixes must be an iterable of prefixes"), ((1,), (), "a key must be text, got 1")],
)
async def test_signals_of_what_is_no_key_are_an_error(verbs, keys, prefixes, words):
    with pytest.raises(TypeError, match=words):
        verbs.signals(*keys, prefixes=prefixes)


async def test_signals_that_cannot_be_followed_are_refused(verbs):
    await refused(anext(verbs.signals()), 422, "invalid")
    await refused(anext(verbs.signals("k", since="yesterday")), 400, "bad-parameter")
    await refused(anext(verbs.signals("")), 422, "bad-key")


async def test_events_tell_the_life_of_operations(verbs):
    events = verbs.events()
    reading = await start(first(events, 4))
    await verbs.submit(["k"], operation_id="o", timeout=60)
    await verbs.reschedule("o", timeout=90)
    await verbs.signal("k")
    found = await reading
    assert all(isinstance(each, Event) for each in found)
    assert [(each.kind, each.data["id"], each.data["state"]) for each in found] == [
        ("submitted", "o", "pending"),
        ("rescheduled", "o", "pending"),
        ("ended", "o", "completed"),
        ("signalled", None, None),
    ]
    assert [each.data["keys"] for each in found] == [["k"]] * 4
    assert found[-1].data["completed"] == 1
    await verbs.submit(operation_id="p", timeout=0)
    again = verbs.events(after=found[1].id)
    kinds = [(each.kind, each.data["id"]) for each in await first(again, 4)]
    assert kinds == [("ended", "o"), ("signalled", None), ("submitted", "p"), ("ended", "p")]
    for stream in (events, again):
        await stream.aclose()


async def test_events_behind_lost_ones_begin_with_a_gap(verbs):
    await verbs.submit(operation_id="o")
    events = verbs.events(after="0123456789abcdef-1.0")
    [gap] = await first(events, 1)
    assert (gap.kind, gap.data["missed"]) == ("gap", None)
    await events.aclose()


@pytest.mark.parametrize("after", ["", "x" * 65, "a b"])
async def test_an_id_that_no_event_has_is_an_error(verbs, after):
    with pytest.raises(ValueError, match="after must be an event's id of 1 to 64 visible ASCII characters"):
        await anext(verbs.events(after=after))


async def test_kept_signals_are_dropped_after_their_time(verbs):
    await verbs.signal("k", 1)
    await later(0.1)
    assert [each.value for each in await first(verbs.signals("k", since=0), 1)] == [1]
