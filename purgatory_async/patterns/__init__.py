"""What people build on a purgatory: each in a file of its own, and on the public names only.

Quorum      enough distinct voters, or those who have voted when the time is up
Watermark   wait until a number that only grows has reached a value
Barrier     members gather; all that came go on as one generation
Correlator  request ids and their replies
HandOff     each item to exactly one taker, none lost
Retrier     what failed is tried again, the latest intent for each key
Heartbeat   ping a quiet link, give up a dead one
Periodic    work that comes back every period and never piles up
"""

from purgatory_async.patterns.barrier import Barrier, Generation
from purgatory_async.patterns.correlator import Correlator, Reply
from purgatory_async.patterns.hand_off import HandOff
from purgatory_async.patterns.heartbeat import Heartbeat
from purgatory_async.patterns.periodic import Periodic
from purgatory_async.patterns.quorum import Quorum
from purgatory_async.patterns.retrier import Retrier
from purgatory_async.patterns.watermark import Watermark

__all__ = [
    "Barrier",
    "Correlator",
    "Generation",
    "HandOff",
    "Heartbeat",
    "Periodic",
    "Quorum",
    "Reply",
    "Retrier",
    "Watermark",
]
