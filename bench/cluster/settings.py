"""How much of the service on a store is measured."""

from dataclasses import dataclass

from bench.measure.loops import UVLOOP
from bench.measure.section import Conditions, sized

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
    """

    requests: int = sized(100, 10)
    clients: int = sized(64, 8)
    burst_s: float = sized(1.5, 0.3)
    log_s: float = sized(0.5, 0.05)
    wakeups: int = sized(50, 5)
    expiring: int = sized(50, 5)
    pending: int = sized(100_000, 1_000)
    rounds: int = sized(2, 1)
    heavy_rounds: int = sized(2, 1)
    loops: tuple[str, ...] = (UVLOOP,)

    def numbers(self) -> str:
        """How much is measured, in words."""
        return (
            f"{self.requests:,} requests of a kind, {self.clients} clients for {self.burst_s:g} s, "
            f"on a log alone for {self.log_s:g} s; {self.pending:,} pending at a start"
        )

    def conventions(self) -> dict[str, str]:
        """How the figures are taken, and how to read them."""
        return {
            "samples": f"medians of {self.rounds} rounds, the stores in turns",
            "processes": "stores, workers and the clients are processes of their own, and share the cores named above",
            "figures": "wall time, seen by the clients",
        }
