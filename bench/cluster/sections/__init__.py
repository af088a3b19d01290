"""The sections of ``python -m bench.cluster``, by name."""

from typing import Final

from bench.cluster.sections import chaos, http, logs
from bench.cluster.settings import ClusterSettings
from bench.measure.section import Section

__all__ = ["SECTIONS"]

SECTIONS: Final[dict[str, Section[ClusterSettings]]] = {
    section.name: section for section in (logs.SECTION, http.SECTION, chaos.SECTION)
}
