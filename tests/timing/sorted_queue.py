"""A sorted list as a timer queue: the model that the wheels are checked against."""

from purgatory_async.timing import TimerEntry


class SortedQueue:
    """A `TimerQueue` as a plain list in the order of scheduling, searched from end to end."""

    def __init__(self, start_tick: int = 0) -> None:
        self.now_tick = start_tick
        self._waiting: list[TimerEntry] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def next_tick(self) -> int | None:
        return min((entry.deadline_tick for entry in self._waiting), default=None)

    def schedule(self, entry: TimerEntry) -> bool:
        if entry.scheduled:
            raise ValueError(f"entry for tick {entry.deadline_tick} is scheduled already")
        if entry.deadline_tick <= self.now_tick:
            return False
        entry._next = entry._prev = self  # what makes an entry `scheduled`; it is in no linked list here
        self._waiting.append(entry)
        return True

    def cancel(self, entry: TimerEntry) -> bool:
        if not entry.scheduled:
            return False
        self._remove(entry)
        return True

    def advance(self, now_tick: int, limit: int | None = None) -> list[TimerEntry]:
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        self.now_tick = max(self.now_tick, now_tick)
        in_order = sorted(
            self._waiting, key=lambda entry: entry.deadline_tick
        )  # stable: equal ones stay FIFO
        due = [entry for entry in in_order if entry.deadline_tick <= self.now_tick][:limit]
        for entry in due:
            self._remove(entry)
        return due

    def check_invariants(self) -> None:
        assert all(entry.scheduled for entry in self._waiting), f"{self._waiting!r}"

    def _remove(self, entry: TimerEntry) -> None:
        self._waiting = [other for other in self._waiting if other is not entry]
        entry._next = entry._prev = None
