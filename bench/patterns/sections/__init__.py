"""The sections of ``python -m bench.patterns``, in the order they are run and printed."""

from bench.patterns.sections import hand_off

__all__ = ["SECTIONS"]

SECTIONS = {section.name: section for section in (hand_off.SECTION,)}
