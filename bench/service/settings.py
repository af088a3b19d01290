"""How much of the service is measured."""

from dataclasses import dataclass

from bench.measure.loops import UVLOOP
from bench.measure.section import Conditions, sized

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

    polls: int = sized(15_000, 300)
    rate: int = sized(1_000, 300)
    leaving: int = sized(10_000, 300)
    slow: int = sized(2_000, 60)
    deadline_s: int = sized(10, 2)
    abandoned: int = sized(10_000, 200)
    herd: int = sized(1_000, 50)
    load_s: float = sized(3, 0.3)
    guests: int = sized(200, 20)
    visitors: int = sized(1_000, 100)
    restarts: int = sized(10, 2)
    values: int = sized(400, 30)
    pending: int = sized(100_000, 1_000)
    rounds: int = sized(7, 1)
    heavy_rounds: int = sized(5, 1)
    loops: tuple[str, ...] = (UVLOOP,)

    def numbers(self) -> str:
        """How much is measured, in words."""
        return (
            f"{self.polls:,} polls held, {self.rate:,} of them ended in a second; {self.leaving:,} held when "
            f"clients leave or the service stops; {self.slow:,} slow clients; "
            f"{self.abandoned:,} polls held by each peer, herds of {self.herd:,}; "
            f"{self.visitors:,} clients across {self.restarts} restarts; {self.values:,} values of a megabyte; "
            f"{self.pending:,} operations folded"
        )

    def conventions(self) -> dict[str, str]:
        """How the figures are taken, and how to read them."""
        return {
            "samples": (
                f"each scene once, on a fresh service; the peers in turns, {self.rounds} loads after a warm-up round "
                f"and {self.heavy_rounds} herds, their medians and quartiles of ratios"
            ),
            "processes": "the service is one process, its clients another, and they share the cores named above",
            "figures": "wall time, seen by the clients; their own collector is off, the service has its own settings",
        }
