"""The sections of ``python -m bench.patterns``, in the order they are run and printed."""

from bench.patterns.sections import hand_off, hand_off_cost, watermark

__all__ = ["SECTIONS"]

SECTIONS = {section.name: section for section in (watermark.SECTION, hand_off.SECTION, hand_off_cost.SECTION)}
