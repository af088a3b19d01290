"""Timing wheels without a clock: integers in, entries out. Usable alone.

>>> wheel = TimingWheel()
>>> wheel.schedule(TimerEntry(5, "five"))
True
>>> [entry.payload for entry in wheel.advance(4)], [entry.payload for entry in wheel.advance(5)]
([], ['five'])
"""

from purgatory_async.timing._entry import TimerEntry
from purgatory_async.timing._hashed import HashedWheel
from purgatory_async.timing._queue import TimerQueue
from purgatory_async.timing._wheel import TimingWheel, WheelLevel

__all__ = ["HashedWheel", "TimerEntry", "TimerQueue", "TimingWheel", "WheelLevel"]
