"""Tools for testing code that waits: virtual time, cancellation at every point, leak checks.

ManualClock      time that moves only on `advance`
VirtualTimeLoop  an event loop that jumps to the next timer
settle           run the loop until no task is ready
stream_pair      a connection in memory: a reader and a writer at each end
cancel_sweep     cancel a coroutine at every point where it is suspended
assert_clean     check that a purgatory is empty

The pytest plugin provides the fixtures `manual_clock` and `purgatory`.
"""

from purgatory_async.testing._clock import ManualClock
from purgatory_async.testing._loop import VirtualTimeLoop
from purgatory_async.testing._settle import assert_clean, settle
from purgatory_async.testing._streams import StreamPair, stream_pair
from purgatory_async.testing._sweep import cancel_sweep

__all__ = [
    "ManualClock",
    "StreamPair",
    "VirtualTimeLoop",
    "assert_clean",
    "cancel_sweep",
    "settle",
    "stream_pair",
]
