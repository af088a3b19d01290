"""The purgatory and its reference in lockstep: every command to both, and nothing may differ."""

import sys
from contextlib import contextmanager

from tests.core.model.script import RealSide, ReferenceSide


class Lockstep:
    """A pair that must not diverge.

    Args:
        queue: Where the deadlines wait: a name from `QUEUES`.
        tick: The tick of the timer, in seconds.
        max_pending: The limit of the purgatory.
        max_deadlines: How many may be pending on its timer.
    """

    def __init__(self, queue="timing wheel of 8", tick=0.001, max_pending=None, max_deadlines=None):
        self.real = RealSide(queue, tick, max_pending, max_deadlines)
        self.reference = ReferenceSide(tick, max_pending, max_deadlines, self.real.touched)

    def perform(self, command):
        """Perform a command on both sides, and compare everything that can be seen from outside."""
        with reports_go_to(self.real):
            for side in (self.real, self.reference):
                side.log.clear()
                side.perform(command)
        differences = self.differences()
        assert not differences, f"{command!r}: " + "\n".join(differences)
        self.compare_next_deadline()

    def close(self):
        """The end: nothing may stay behind."""
        self.real.purgatory.close()
        self.real.timer.check_invariants()
        assert self.real.counts() == (0, 0, 0, 0), f"left behind: {self.real.counts()}"

    def differences(self):
        """What the purgatory did or is, and what it should have done or be."""
        real = {"log": self.real.log, **self.real.state()}
        reference = {"log": self.reference.log, **self.reference.state()}
        return [
            f"{what} is {real[what]}, should be {reference[what]}"
            for what in reference
            if real[what] != reference[what]
        ]

    def compare_next_deadline(self):
        """It may be before the earliest deadline, when entries move in the wheel, but hardly after."""
        promised, deadlines = self.real.timer.next_deadline, self.reference.purgatory.deadlines
        if not deadlines:
            assert promised is None, f"nothing is due, yet there is something to do at {promised}"
        else:
            latest = deadlines[0][0] / 1e9 + self.real.tick
            assert promised <= latest * (1 + 1e-12), f"due by {latest}, but nothing is done before {promised}"

    def check_invariants(self):
        """Check the invariants of the purgatory and its timer. O(pending)."""
        self.real.purgatory.check_invariants()
        self.real.timer.check_invariants()


@contextmanager
def reports_go_to(side):
    """A purgatory without a loop turns to `sys.unraisablehook`; for as long as this lasts it turns to a side."""
    before, sys.unraisablehook = sys.unraisablehook, side.take_report
    try:
        yield
    finally:
        sys.unraisablehook = before
