"""The sections of ``python -m bench.scaling``, in the order they are run and printed."""

from bench.scaling.sections import keys, millions, pending, timeouts, watchers

__all__ = ["SECTIONS"]

SECTIONS = {
    section.name: section
    for section in (pending.SECTION, keys.SECTION, watchers.SECTION, timeouts.SECTION, millions.SECTION)
}
