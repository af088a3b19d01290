"""`TimerEntry`: a deadline and what belongs to it."""

import gc
import weakref

import pytest

from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel
from purgatory_async.timing._entry import TimerNode


def test_a_new_entry_is_in_no_queue() -> None:
    entry = TimerEntry(30, "close the window")
    assert (entry.deadline_tick, entry.payload, entry.scheduled) == (30, "close the window", False)


def test_an_entry_needs_no_payload() -> None:
    assert TimerEntry(30).payload is None


def test_the_payload_is_never_looked_at() -> None:
    class Untouchable:
        def __eq__(self, other: object) -> bool:
            raise AssertionError(f"the queue compared a payload with {other!r}")

        __hash__ = None

    wheel = TimingWheel()
    entries = [TimerEntry(9, Untouchable()) for _ in range(3)]
    for entry in entries:
        wheel.schedule(entry)
    wheel.cancel(entries[1])
    assert [entry is entries[index] for index, entry in zip((0, 2), wheel.advance(9), strict=True)] == [
        True,
        True,
    ]


def test_its_repr_says_where_it_stands() -> None:
    entry = TimerEntry(30, "close the window")
    out = repr(entry)
    TimingWheel().schedule(entry)
    assert (out, repr(entry)) == (
        "<TimerEntry deadline_tick=30 out payload='close the window'>",
        "<TimerEntry deadline_tick=30 scheduled payload='close the window'>",
    )


def test_an_entry_is_in_one_queue_at_a_time() -> None:
    wheel, other = TimingWheel(), HashedWheel()
    entry = TimerEntry(30)
    wheel.schedule(entry)
    with pytest.raises(ValueError, match="entry for tick 30 is scheduled already; cancel it"):
        other.schedule(entry)
    assert (len(wheel), len(other)) == (1, 0)


def test_an_entry_may_move_to_another_queue_once_it_is_out() -> None:
    wheel, other = TimingWheel(), HashedWheel()
    entry = TimerEntry(30)
    wheel.schedule(entry)
    wheel.cancel(entry)
    other.schedule(entry)
    assert (wheel.advance(30), other.advance(30)) == ([], [entry])


def test_an_entry_carries_no_dictionary() -> None:
    with pytest.raises(AttributeError):
        TimerEntry(30).colour = "red"


@pytest.mark.parametrize("how", ["advance", "cancel"])
def test_an_entry_that_is_out_keeps_no_neighbour_alive(how: str) -> None:
    wheel = TimingWheel()
    first, second = TimerEntry(5), TimerEntry(5)
    wheel.schedule(first)
    wheel.schedule(second)
    if how == "advance":
        wheel.advance(5)
    else:
        wheel.cancel(first)
    assert (first._next, first._prev) == (None, None)


@pytest.mark.parametrize("tick", [2**62 + 1, 10**30, -(2**62), -(10**30)], ids=str)
def test_a_tick_beyond_the_bounds_is_refused(tick: int) -> None:
    entry, wheel = TimerEntry(5), TimingWheel()
    with pytest.raises(ValueError, match=f"deadline_tick must be above .* at most 2.*62, got {tick}"):
        entry.deadline_tick = tick
    with pytest.raises(ValueError, match=f"now_tick must be above .* at most 2.*62, got {tick}"):
        wheel.advance(tick)
    assert (entry.deadline_tick, wheel.now_tick) == (5, 0)
    for queue in (TimingWheel, HashedWheel):
        with pytest.raises(ValueError, match=f"start_tick must be .*, got {tick}"):
            queue(start_tick=tick)


def test_a_tick_is_an_integer() -> None:
    with pytest.raises(TypeError, match="float"):
        TimerEntry(1.0)


def test_a_node_without_a_deadline_says_so() -> None:
    node = TimerNode.__new__(TimerNode)
    with pytest.raises(AttributeError):
        _ = node.deadline_tick


@pytest.mark.parametrize("kind", [TimerNode, TimerEntry], ids=lambda kind: kind.__name__)
def test_a_chain_of_a_million_is_freed_without_recursion(kind: type[TimerNode]) -> None:
    first = kind.__new__(kind)
    last = first
    for _ in range(1_000_000):
        following = kind.__new__(kind)
        last._next = following
        last = following
    last._next = None
    del first, following
    assert last._next is None


@pytest.mark.parametrize("queue", [TimingWheel, HashedWheel], ids=["TimingWheel", "HashedWheel"])
def test_a_queue_of_many_is_dropped_without_recursion(queue: type[TimingWheel]) -> None:
    full = queue()
    entries = [TimerEntry(5) for _ in range(300_000)]
    for entry in entries:
        full.schedule(entry)
    witness = weakref.ref(entries[150_000])
    del entries, entry, full
    gc.collect()
    assert witness() is None


@pytest.mark.parametrize("tick", [5, 70_000], ids=["on the finest level", "on a coarse level"])
def test_a_cut_link_is_an_error(tick: int) -> None:
    wheel, entries = TimingWheel(), [TimerEntry(tick) for _ in range(3)]
    for entry in entries:
        wheel.schedule(entry)
    entries[1]._next = entries[1]._prev = None
    with pytest.raises(AttributeError, match="NoneType"):
        wheel.advance(tick)


def test_a_link_may_hold_any_object() -> None:
    entry, mark = TimerEntry(5), object()
    entry._next = entry._prev = mark
    assert (entry._next is mark, entry._prev is mark, entry.scheduled) == (True, True, True)
    entry._next = None
    assert not entry.scheduled
