"""Tools for testing what waits: virtual time, cancellation everywhere, and nothing left behind.

ManualClock      time that moves when you say so
VirtualTimeLoop  an event loop that jumps to the next timer
settle           let everything that can run, run
cancel_sweep     cancel a coroutine at every point where it can be
assert_clean     see that a purgatory is empty

The pytest plugin gives fixtures `manual_clock` and `purgatory`.
"""

from purgatory_async.testing._clean import assert_clean
from purgatory_async.testing._clock import ManualClock
from purgatory_async.testing._loop import VirtualTimeLoop
from purgatory_async.testing._settle import settle
from purgatory_async.testing._sweep import cancel_sweep

__all__ = ["ManualClock", "VirtualTimeLoop", "assert_clean", "cancel_sweep", "settle"]
