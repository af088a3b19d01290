"""The probe of the event loop's lag."""

import pytest

from purgatory_async import Timer
from purgatory_async.durable.stats.recent import Probe
from purgatory_async.service.process.server import LAG_PERIOD as PERIOD
from purgatory_async.testing import ManualClock


class LateTimer:
    """A timer that calls later than it was asked to."""

    def __init__(self, late):
        self.now, self.late = 0.0, late
        self.asked = []

    def time(self):
        return self.now

    def call_later(self, delay, callback, *args):
        self.asked.append((self.now + delay + self.late, callback, args))

    def run(self):
        self.now, callback, args = self.asked.pop()
        callback(*args)


@pytest.mark.parametrize("late", [0.0, 0.004, 1.5])
def test_it_notes_how_much_later_it_was_called_than_it_asked_for(late):
    noted, timer = [], LateTimer(late)
    Probe(timer, PERIOD, noted.append).start()
    for _ in range(3):
        timer.run()
    assert noted == pytest.approx([late] * 3)


def test_it_probes_ten_times_a_second_until_the_timer_closes():
    noted, clock = [], ManualClock()
    timer = Timer(clock=clock)
    Probe(timer, PERIOD, noted.append).start()
    clock.advance(10 * PERIOD + 0.05)
    assert len(noted) == 10
    assert all(0 <= lag <= 0.001 for lag in noted)  # the timer's tick
    timer.close()
    clock.advance(10)
    assert len(noted) == 10
