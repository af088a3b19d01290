"""The sections of ``python -m bench.kafka``, in the order they are run and printed."""

from bench.kafka.sections import features, speed

__all__ = ["SECTIONS"]

SECTIONS = {section.name: section for section in (features.SECTION, speed.SECTION)}
