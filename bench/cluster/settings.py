"""How much of the service on a store is measured."""

from dataclasses import dataclass

from bench.measure.section import Conditions

__all__ = ["ClusterSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings(Conditions):
    """How much of the service on a store is measured.

    Args:
        requests: How many of each kind a client sends, one after another, in a round.
        clients: How many send at once, where throughput is measured.
        burst_s: Seconds of a round of throughput.
        log_s: Seconds of each reading of a log alone.
        wakeups: How many waits at another worker are woken in a round.
        expiring: How many operations expire in a round.
        pending: How many are pending when a worker starts.
        seconds: How long chaos reigns.
        store: The one on which it does.
    """

    requests: int
    clients: int
    burst_s: float
    log_s: float
    wakeups: int
    expiring: int
    pending: int
    seconds: int
    store: str
