"""The sections of ``python -m bench.pipeline``, in the order they are run and printed."""

from bench.pipeline.sections import distributed, report, source, whatif, workload

__all__ = ["SECTIONS"]

SECTIONS = {
    section.name: section
    for section in (workload.SECTION, source.SECTION, report.SECTION, whatif.SECTION, distributed.SECTION)
}
