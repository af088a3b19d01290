"""The sections of ``python -m bench.kafka``, in the order they are run and printed."""

from bench.kafka.sections import cluster, features, groups, held, speed, start

__all__ = ["SECTIONS"]

SECTIONS = {
    section.name: section
    for section in (
        features.SECTION,
        start.SECTION,
        speed.SECTION,
        held.SECTION,
        groups.SECTION,
        cluster.SECTION,
    )
}
