"""`TimerEntry`: a deadline and what belongs to it."""

import pytest

from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel


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
