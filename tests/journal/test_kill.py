"""Killed at any moment under load: every acknowledged record is there, and no record is invented."""

import random
import time

import pytest

from purgatory_async.journal import read_journal
from purgatory_async.journal.lines import Damage
from purgatory_async.journal.schema import Outcome, Signal, Submit
from purgatory_async.journal.segments import list_segments
from tests.journal.journaled import JournaledPurgatory, everything, missing, until
from tests.processes import python

pytestmark = pytest.mark.slow

KILLS = 10


def acknowledged_until_killed(directory, seed, segment_bytes, delay_s):
    """Start it, kill it this long after its first output, and return all of its output."""
    program = ("-m", "tests.journal.killed", directory, seed, segment_bytes)
    with python(*program, stderr=None, start_new_session=True) as child:
        first = child.stdout.readline()
        time.sleep(delay_s)
        child.kill()
        said = first + child.stdout.read()
    return [line.split() for line in said.splitlines(keepends=True) if line.endswith("\n")]


def check_run(records, said):
    """Assert that every acknowledged record is on disk, and that the records fit one run of the program."""
    assert missing(records) == []
    assert [record.seq for record in records] == [*range(1, len(records) + 1)]
    submits = {record.op_id: record for record in records if isinstance(record, Submit)}
    outcomes = {record.op_id: record for record in records if isinstance(record, Outcome)}
    signals = {record.key for record in records if isinstance(record, Signal)}
    assert {number for what, number in said if what == "s"} <= submits.keys()
    assert {number for what, number in said if what == "e"} <= outcomes.keys()
    assert outcomes.keys() <= submits.keys()
    for op_id, submit in submits.items():
        assert submit.keys == [f"order:{op_id}"]
        assert submit.timeout_ns in (None, 1_000_000, 600_000_000_000)
    for op_id, outcome in outcomes.items():
        short = submits[op_id].timeout_ns == 1_000_000
        assert outcome.outcome == ("expired" if short else "completed")
    assert signals <= {f"order:{op_id}" for op_id in submits}


def settle(directory):
    """Start once more, until every segment that was left is sealed."""
    with JournaledPurgatory(directory) as journaled:
        own = journaled.journal.run_id
        while live := [each for each in list_segments(directory) if each.live and each.run_id != own]:
            until(lambda live=live: not all(each.path.exists() for each in live))


# Ten kills after one another in each directory: in half of them while segments fill up, too.
@pytest.mark.parametrize("number", range(10))
def test_ten_kills_lose_no_acknowledged_record(tmp_path, number):
    draw = random.Random(number)
    segment_bytes = 65_536 if number % 2 else 64 * 1024 * 1024
    runs = set()
    for cycle in range(KILLS):
        said = acknowledged_until_killed(tmp_path, cycle, segment_bytes, draw.uniform(0, 0.25))
        (run_id,) = {segment.run_id for segment in list_segments(tmp_path)} - runs
        runs.add(run_id)
        found = [each for each in everything(tmp_path) if isinstance(each, Damage) or each.run_id == run_id]
        assert not any(isinstance(each, Damage) for each in found), cycle
        check_run(found, said)
        assert said
    before = list(read_journal(tmp_path))
    settle(tmp_path)
    assert list(read_journal(tmp_path)) == before
