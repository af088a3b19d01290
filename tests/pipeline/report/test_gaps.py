"""What is missing at the edges of a journal, where no two records enclose it."""

from purgatory_async.pipeline.report.gaps import Edges, find_edges
from purgatory_async.pipeline.source.extent import survey
from tests.pipeline.journals import MS, Node, append, live, rotated

DAMAGE = b"{}\n"


def segments(directory, first=1):
    """Two segments, the second one live; returns the file."""
    node = Node()
    for place in range(6):
        node.signal("a", place * MS)
    rotated(directory, node.records[:3], number=first)
    return live(directory, node.records[3:], number=first + 1)


def test_damage_after_the_last_record_counts_but_a_torn_line_not(tmp_path):
    path = segments(tmp_path)
    size = path.stat().st_size
    append(path, DAMAGE + DAMAGE + b'{"kind":"sig')
    damage = {path.name: [size, size + len(DAMAGE)]}
    assert find_edges(survey(tmp_path), damage) == {("run", "n1"): Edges(from_start=True, damaged_after=2)}


def test_damage_before_a_record_is_no_edge(tmp_path):
    path = segments(tmp_path)
    assert find_edges(survey(tmp_path), {path.name: [0]})["run", "n1"].damaged_after == 0


def test_missing_first_segments_are_no_gap(tmp_path):
    segments(tmp_path, first=4)
    assert find_edges(survey(tmp_path), {}) == {("run", "n1"): Edges(from_start=False, damaged_after=0)}
