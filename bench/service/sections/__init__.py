"""The sections of ``python -m bench.service``, in the order they are run and printed."""

from bench.service.sections import (
    aborted,
    budgets,
    folded,
    held,
    instructions,
    peers,
    restarts,
    slow_clients,
    steps,
    stopped,
)

__all__ = ["SECTIONS"]

SECTIONS = {
    section.name: section
    for section in (
        folded.SECTION,
        steps.SECTION,
        held.SECTION,
        peers.SECTION,
        instructions.SECTION,
        aborted.SECTION,
        stopped.SECTION,
        restarts.SECTION,
        slow_clients.SECTION,
        budgets.SECTION,
    )
}
