"""Close what a test has opened, and let only slow tests start processes."""

from types import SimpleNamespace

import pytest

from purgatory_async.journal import _alarms, segments
from tests.journal.journaled import JournaledPurgatory


@pytest.fixture(autouse=True)
def _desks_are_left_empty():
    yield
    while JournaledPurgatory.opened:
        journaled = JournaledPurgatory.opened.pop()
        journaled.journal.close()
        journaled.purgatory.close()


@pytest.fixture(autouse=True)
def _segments_stay_lines(request, monkeypatch):
    if request.node.get_closest_marker("slow") is None:
        nothing_installed = SimpleNamespace(find_spec=lambda name: None)
        monkeypatch.setattr(segments, "importlib", SimpleNamespace(util=nothing_installed))


@pytest.fixture(autouse=True)
def _disks_have_room(request, monkeypatch):
    """The machine's own disk may be nearly full, and its journals would say so."""
    if request.node.get_closest_marker("slow") is None:
        room = SimpleNamespace(f_frsize=1, f_blocks=1 << 40, f_bavail=1 << 40)
        monkeypatch.setattr(_alarms, "os", SimpleNamespace(statvfs=lambda _: room))
