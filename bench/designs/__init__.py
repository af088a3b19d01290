"""The purgatories that came before, each a small faithful implementation, and the library, behind one face."""

from bench.designs.by_hand import ByHandPurgatory
from bench.designs.delay_queue import DelayQueuePurgatory
from bench.designs.hashed import HashedPurgatory
from bench.designs.interface import Design, Operation, Traits
from bench.designs.ours import OurPurgatory
from bench.designs.purging_wheel import PurgingWheelPurgatory
from bench.designs.weak_watchers import WeakWatchersPurgatory

__all__ = ["DESIGNS", "Design", "Operation", "Traits"]

DESIGNS: dict[str, type[Design]] = {
    design.name: design
    for design in (
        OurPurgatory,
        PurgingWheelPurgatory,
        WeakWatchersPurgatory,
        DelayQueuePurgatory,
        HashedPurgatory,
        ByHandPurgatory,
    )
}
"""By name, the newest first."""
