"""How much of the service is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions

__all__ = ["ServiceSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings(Conditions):
    """How much of the service is measured.

    Args:
        polls: How many are held in one process.
        rate: How many of them are released in a second.
        leaving: How many are held when their clients leave, or when the service stops.
        slow: How many clients take their time.
        deadline_s: How long the service gives them for a head, and for a body.
        abandoned: How many polls each peer holds before their clients leave.
        herd: How many polls one message answers at each peer.
        load_s: Seconds of each load of messages on a peer.
        guests: How many clients come again and again while a peer is restarted.
        visitors: How many clients come again and again while the service is restarted.
        restarts: How often it is, each way.
        values: How many values of a megabyte are sent.
        pending: How many operations wait when the state is restored, and how many entries are folded.
    """

    polls: int
    rate: int
    leaving: int
    slow: int
    deadline_s: int
    abandoned: int
    herd: int
    load_s: float
    guests: int
    visitors: int
    restarts: int
    values: int
    pending: int
