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
        subscribers: How many polls are held beside nchan.
        wrk_s: Seconds of each of wrk's samples.
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
    subscribers: int
    wrk_s: int
    visitors: int
    restarts: int
    values: int
    pending: int
