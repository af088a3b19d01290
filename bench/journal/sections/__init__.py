"""The sections of ``python -m bench.journal``, in the order they are run and printed."""

from bench.journal.sections import commit, cost, encoding, stall

__all__ = ["SECTIONS"]

SECTIONS = {
    section.name: section for section in (encoding.SECTION, cost.SECTION, commit.SECTION, stall.SECTION)
}
