"""A clock for timers on a loop whose time the test moves, and whose wakeups it makes and counts."""

from collections.abc import Callable

from purgatory_async.testing import settle


class Wakeup:
    """One call that a timer asked for."""

    def __init__(self, when_ns: int, callback: Callable[[], object]) -> None:
        self.when_ns = when_ns
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class SteppedClock:
    """A `Clock` that needs a loop, as `MonotonicClock` does; but its time only moves on demand.

    Args:
        start: The present, in seconds.
        early: How much too early the first wakeup asked for a time comes, in seconds.
    """

    def __init__(self, start: float = 0.0, *, early: float = 0.0) -> None:
        self.now_ns = round(start * 1e9)
        self.asked: list[int] = []  # every time for which a wakeup was ever asked
        self.rung = 0  # wakeups made
        self._early_ns = round(early * 1e9)
        self._wakeups: list[Wakeup] = []

    def time_ns(self) -> int:
        return self.now_ns

    def call_at_ns(self, when_ns: int, callback: Callable[[], object]) -> Wakeup:
        first_time = when_ns not in self.asked
        self.asked.append(when_ns)
        wakeup = Wakeup(when_ns - self._early_ns if first_time else when_ns, callback)
        self._wakeups.append(wakeup)
        return wakeup

    @property
    def armed(self) -> list[float]:
        """The times of the wakeups to come, in seconds."""
        return sorted(wakeup.when_ns / 1e9 for wakeup in self._live())

    def move(self, seconds: float) -> None:
        """Let time pass without a wakeup, as it does while the loop is blocked."""
        self.now_ns += round(seconds * 1e9)

    def ring(self) -> None:
        """Make the wakeups that are due, in the present pass of the loop."""
        due = [wakeup for wakeup in self._live() if wakeup.when_ns <= self.now_ns]
        for wakeup in sorted(due, key=lambda wakeup: wakeup.when_ns):
            if not wakeup.cancelled:
                wakeup.cancelled = True
                self.rung += 1
                wakeup.callback()

    async def run(self, seconds: float) -> None:
        """Let time pass as it does on an idle loop: each wakeup at its time, and all tasks in between."""
        target_ns = self.now_ns + round(seconds * 1e9)
        await settle()
        while (live := self._live()) and (when_ns := min(wakeup.when_ns for wakeup in live)) <= target_ns:
            self.now_ns = max(self.now_ns, when_ns)
            self.ring()
            await settle()
        self.now_ns = target_ns

    def _live(self) -> list[Wakeup]:
        self._wakeups = [wakeup for wakeup in self._wakeups if not wakeup.cancelled]
        return self._wakeups
