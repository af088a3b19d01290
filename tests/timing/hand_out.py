"""Steps that the timer queue tests share."""

from collections.abc import Iterable

from purgatory_async.timing import TimerEntry, TimerQueue

MOST_CALLS_PER_ENTRY = 70  # 64 levels of a wheel of two buckets, and some


def scheduled(queue: TimerQueue, ticks: Iterable[int]) -> list[TimerEntry[int]]:
    """One entry for each tick, scheduled in this order; the payload is its number."""
    entries = [TimerEntry(tick, number) for number, tick in enumerate(ticks)]
    for entry in entries:
        assert queue.schedule(entry)
    return entries


def hand_out(queue: TimerQueue, now_tick: int, limit: int) -> list[TimerEntry]:
    """All that is due, fetched in calls of at most ``limit``; an assertion instead of an endless loop."""
    handed_out = queue.advance(now_tick, limit)
    calls_left = (len(queue) + len(handed_out) + 1) * MOST_CALLS_PER_ENTRY
    while queue.next_tick is not None and queue.next_tick <= now_tick:
        part = queue.advance(now_tick, limit)
        assert len(part) <= limit
        queue.check_invariants()
        handed_out += part
        calls_left -= 1
        assert calls_left, f"{queue!r} promises more, but hands out nothing"
    return handed_out


def ticks_of(entries: Iterable[TimerEntry]) -> list[int]:
    return [entry.deadline_tick for entry in entries]


def numbers_of(entries: Iterable[TimerEntry[int]]) -> list[int]:
    return [entry.payload for entry in entries]
