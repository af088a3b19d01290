"""Coordination patterns on a purgatory; each is one file that uses only the public API.

Quorum       complete on enough distinct votes, fail once that is impossible, or return those so far
Watermark    wait until a growing number reaches a value
Barrier      gather members and release them as one generation
Correlator   match replies to requests by id
HandOff      give each item to exactly one taker, lose none
Broadcast    give every item to every subscriber, also to those that come back
KeyedLock    hold a key, and forget it afterwards; KeyedSemaphore: so many hold it
SingleFlight share one call among all that want its result
Retrier      retry failed calls, the latest one per key
Heartbeat    ping an idle link, give up a dead one
Periodic     run a function every period, never twice at once
"""

from purgatory_async.patterns.barrier import Barrier, Generation
from purgatory_async.patterns.broadcast import Broadcast, Lagged, Published, SubscriberLagged
from purgatory_async.patterns.correlator import Correlator, Reply
from purgatory_async.patterns.hand_off import HandOff
from purgatory_async.patterns.heartbeat import Heartbeat
from purgatory_async.patterns.keyed_lock import KeyedLock, KeyedSemaphore
from purgatory_async.patterns.periodic import Periodic
from purgatory_async.patterns.quorum import Quorum, QuorumImpossible
from purgatory_async.patterns.retrier import Retrier
from purgatory_async.patterns.single_flight import SingleFlight
from purgatory_async.patterns.watermark import Watermark

__all__ = [
    "Barrier",
    "Broadcast",
    "Correlator",
    "Generation",
    "HandOff",
    "Heartbeat",
    "KeyedLock",
    "KeyedSemaphore",
    "Lagged",
    "Periodic",
    "Published",
    "Quorum",
    "QuorumImpossible",
    "Reply",
    "Retrier",
    "SingleFlight",
    "SubscriberLagged",
    "Watermark",
]
