"""The sections of ``python -m bench.core``, in the order they are run and printed."""

from bench.core.sections import (
    awaited_operation,
    builds,
    cost,
    garbage,
    herd,
    integers,
    kafka_port,
    keyed_wait,
    loop_timers,
    mass_cancel,
    million_pending,
    task_price,
    wheel,
)

__all__ = ["SECTIONS"]

SECTIONS = {
    section.name: section
    for section in (
        wheel.SECTION,
        kafka_port.SECTION,
        loop_timers.SECTION,
        integers.SECTION,
        keyed_wait.SECTION,
        awaited_operation.SECTION,
        task_price.SECTION,
        million_pending.SECTION,
        mass_cancel.SECTION,
        herd.SECTION,
        garbage.SECTION,
        cost.SECTION,
        builds.SECTION,
        builds.INSTRUCTIONS,
    )
}
