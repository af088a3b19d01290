"""Close what a test has opened, and let only slow tests start processes."""

from types import SimpleNamespace

import pytest

from purgatory_async.journal import segments
from tests.journal.desk import Desk


@pytest.fixture(autouse=True)
def _desks_are_left_empty():
    yield
    while Desk.opened:
        desk = Desk.opened.pop()
        desk.journal.close()
        desk.purgatory.close()


@pytest.fixture(autouse=True)
def _segments_stay_lines(request, monkeypatch):
    if request.node.get_closest_marker("slow") is None:
        nothing_installed = SimpleNamespace(find_spec=lambda name: None)
        monkeypatch.setattr(segments, "importlib", SimpleNamespace(util=nothing_installed))
