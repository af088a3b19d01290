"""A log as a journal: each record once, also after a kill."""

import random
from contextlib import asynccontextmanager

import msgspec
import pytest
from msgspec import Raw

from purgatory_async.cluster import LogDamaged, MemoryLog, MemoryStore
from purgatory_async.durable.checkpoints import export as module
from purgatory_async.durable.checkpoints import exported as exported_state
from purgatory_async.durable.checkpoints.checkpointing import save
from purgatory_async.durable.checkpoints.export import Export, export
from purgatory_async.durable.documents import CountNeed
from purgatory_async.durable.fold.entries import (
    CompleteOperation,
    EndOperation,
    FailOperation,
    RescheduleOperation,
    SetLevel,
    SignalKey,
    SubmitOperation,
    Tick,
)
from purgatory_async.journal import JournalError, read_journal, segments
from purgatory_async.journal.schema import Outcome, Reschedule, Signal, Stats, Submit
from purgatory_async.journal.segments import list_segments
from purgatory_async.testing import ManualClock
from tests.cluster.reading import read
from tests.durable.checkpoints.conftest import append
from tests.pages import fenced_blocks
from tests.source_tree import ROOT

pytestmark = pytest.mark.asyncio


class Exported:
    """A log on a clock of its own, and its exports to one directory."""

    def __init__(self, directory):
        self.clock = ManualClock()
        self.directory = directory
        self.said = []
        self.renew()

    def renew(self):
        self.store = MemoryStore(clock=self.clock)
        self.store.origin_us -= self.store.origin_us % 1000  # whole milliseconds, as in the service's tests

    @asynccontextmanager
    async def log(self):
        log = MemoryLog(self.store)
        head = await log.open()
        yield log, head
        await log.aclose()

    async def append(self, *entries):
        async with self.log() as (log, _):
            return await append(log, *entries)

    async def export(self, directory=None):
        """Export up to the end; returns the records of the directory."""
        directory = directory or self.directory
        async with self.log() as (log, head):
            await export(log, head, directory, node="orders", follow=False, say=self.said.append)
        return list(read_journal(directory))


@pytest.fixture
def exported(tmp_path, monkeypatch):
    # A process for each segment would take a second; segments stay lines, as where pyarrow is missing.
    monkeypatch.setattr(segments.Sealer, "add", lambda sealer, segment: None)
    return Exported(tmp_path / "journal")


def comparable(records):
    """What does not depend on where and when a journal was written."""
    first = records[0].mono_ns
    names = {record.op_id: number for number, record in enumerate(records) if isinstance(record, Submit)}
    found = []
    for record in records:
        members = msgspec.structs.asdict(record)
        for name in ("run_id", "node", "wall_ns", "timer_buckets"):
            members.pop(name, None)
        if "op_id" in members:
            members["op_id"] = names[members["op_id"]]
        found.append((type(record).__name__, members | {"mono_ns": record.mono_ns - first}))
    return found


SCRIPT = [
    ("submit", "a", {"keys": ("k", "l"), "need": {"amount": 3}}),
    ("submit", "b", {"keys": ("k",), "timeout": 2}),
    ("submit", "c", {"keys": ("k", "m"), "need": "all"}),
    ("submit", "d", {"keys": ("late",), "timeout": 0.25}),
    ("advance", 0.1),
    ("signal", "k", 2),
    ("signal", "nobody", 5),
    ("reschedule", "d", 3),
    ("advance", 0.9),
    ("submit", "e", {"keys": ("x",)}),
    ("end", "e", "cancelled"),
    ("submit", "f", {"keys": ("y",), "need": {"voters": 2}}),
    ("end", "f", "completed"),
    ("submit", "g", {"keys": ("z",)}),
    ("fail", "g", "ann"),
    ("advance", 1.5),
    ("signal", "m", 1),
    ("signal", "l", 1),
    ("advance", 3600),
    ("signal", "k", 1),
]


async def by_the_log(exported):
    await exported.append(SetLevel(level=2))
    for verb, *given in SCRIPT:
        if verb == "submit":
            order = dict(given[1])
            timeout = order.pop("timeout", None)
            need = order.pop("need", "any")
            need = CountNeed(**need) if isinstance(need, dict) else need
            timeout_us = None if timeout is None else round(timeout * 1e6)
            await exported.append(SubmitOperation(id=given[0], timeout_us=timeout_us, need=need, **order))
        elif verb == "signal":
            await exported.append(SignalKey(key=given[0], amount=given[1]))
        elif verb == "end":
            completes = given[1] == "completed"
            await exported.append(
                CompleteOperation(id=given[0]) if completes else EndOperation(id=given[0], how=given[1])
            )
        elif verb == "fail":
            await exported.append(FailOperation(id=given[0], error=Raw(b"1"), by=given[1]))
        elif verb == "reschedule":
            entry = RescheduleOperation(id=given[0], timeout_us=round(given[1] * 1e6), maker=None)
            await exported.append(entry)
        else:
            exported.clock.advance(given[0])
            await exported.append(Tick())


async def test_times_are_log_time_to_the_microsecond(exported):
    await exported.append(SubmitOperation(id="a", keys=("k",), timeout_us=1_500_250))
    exported.clock.advance(3600)
    await exported.append(SignalKey(key="k", amount=2**40))
    submit, _, outcome, _, signal, _ = await exported.export()
    assert isinstance(submit, Submit)
    assert isinstance(outcome, Outcome)
    assert isinstance(signal, Signal)
    assert (submit.op_id, submit.timeout_ns) == ("1", 1_500_250_000)
    assert submit.wall_ns == exported.store.entries[0].at_us * 1000
    assert outcome.outcome == "expired"
    assert 0 <= outcome.lateness_ns < 1_000_000  # to the next millisecond, however late the next entry came
    assert outcome.latency_ns == 1_500_250_000 + outcome.lateness_ns
    assert (signal.mono_ns - submit.mono_ns, signal.n) == (3_600_000_000_000, 2**31 - 1)


async def test_a_moved_deadline_is_on_log_time(exported):
    await exported.append(SetLevel(level=2), SubmitOperation(id="a", keys=("k",), timeout_us=1_500_250))
    exported.clock.advance(1.25)
    await exported.append(RescheduleOperation(id="a", timeout_us=5_000_750, maker=None))
    # The second export knows the submission by its saved state only.
    first = await exported.export()
    exported.clock.advance(3600)
    await exported.append(Tick())
    found = await exported.export()
    submit, moved, outcome = (record for record in found if not isinstance(record, Stats))
    assert [type(each) for each in first if not isinstance(each, Stats)] == [Submit, Reschedule]
    assert (submit.timeout_ns, moved.op_id, moved.timeout_ns) == (1_500_250_000, submit.op_id, 5_000_750_000)
    assert moved.mono_ns - submit.mono_ns == 1_250_000_000
    assert outcome.outcome == "expired"
    assert 0 <= outcome.lateness_ns < 1_000_000
    assert outcome.latency_ns == 6_250_750_000 + outcome.lateness_ns


async def test_an_export_again_goes_on_where_the_last_ended(exported):
    await by_the_log(exported)
    whole = comparable(await exported.export())
    again = exported.directory.with_name("again")
    twice = Exported(again)
    for number, entry in enumerate(exported.store.entries):
        twice.clock.advance((entry.at_us - exported.store.entries[number - 1].at_us) / 1e6 if number else 0)
        await twice.append(entry.data)
        found = await twice.export()
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    assert len({record.run_id for record in found}) == 1
    assert [forgetful(each) for each in comparable(found)] == [forgetful(each) for each in whole]


def forgetful(record):
    """A record without what an export that was interrupted does not know: checks and moves of the past."""
    kind, members = record
    return kind, {name: value for name, value in members.items() if name not in {"checks", "inserts"}}


async def much(exported, draw):
    """A few hundred random entries, over an hour."""
    for number in range(300):
        exported.clock.advance(draw.choice([0, 0.001, 0.3, 20]))
        key = f"k{draw.randrange(20)}"
        timeout = draw.choice([None, 0, 250_000, 30_000_000])
        await exported.append(
            draw.choice(
                [
                    SubmitOperation(id=f"o{number}", keys=(key,), timeout_us=timeout),
                    SignalKey(key=key),
                    Tick(),
                ]
            )
        )


@pytest.mark.parametrize("seed", range(8))
async def test_a_killed_export_has_each_record_once(exported, tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    await much(exported, draw)
    whole = comparable(await exported.export(tmp_path / "whole"))
    monkeypatch.setattr(module, "SAVE_ENTRIES", 40)
    monkeypatch.setattr(module, "SEGMENT_BYTES", 6_000)
    for _ in range(4):
        async with exported.log() as (log, head):
            entries = await read(log, 300)
            with Export(exported.directory, "orders", exported.said.append) as journal:
                await journal.begin(log, head.epoch)
                end = min(300, journal.position + draw.randrange(120))
                while journal.position < end:
                    journal.take(entries[journal.position : journal.position + draw.randrange(1, 30)])
        # It was killed in the middle of a line; what was written before the state is on the disk.
        *_, last = [None, *read_journal(exported.directory)]
        if last is not None and last.seq > exported_state.Exported.read(exported.directory).run.seq:
            path = list_segments(exported.directory)[-1].path
            path.write_bytes(path.read_bytes()[: -draw.randrange(1, 60)])
    found = await exported.export()
    assert len(list_segments(exported.directory)) > 3
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    assert [forgetful(each) for each in comparable(found)] == [forgetful(each) for each in whole]
    assert exported.said == []


async def test_a_first_export_begins_at_the_checkpoint(exported):
    await exported.append(SubmitOperation(id="a", keys=("k",)), SubmitOperation(id="b", keys=("l",)))
    async with exported.log() as (log, _):
        await save(log, keep=0)
    exported.clock.advance(2)
    await exported.append(SignalKey(key="k"), SubmitOperation(id="c", keys=("l",)))
    outcome, _, signal, submit = await exported.export()
    assert isinstance(signal, Signal)
    assert isinstance(submit, Submit)
    assert (outcome.op_id, outcome.latency_ns, outcome.checks) == ("1", 2_000_000_000, None)


async def test_entries_that_are_gone_are_reported(exported):
    await exported.append(SignalKey(key="k"), SignalKey(key="k"))
    await exported.export()
    await exported.append(*[SignalKey(key="k")] * 10)
    async with exported.log() as (log, _):
        await save(log, keep=5)
    await exported.append(SignalKey(key="k"))
    found = await exported.export()
    assert sorted(record.seq for record in found if isinstance(record, Signal)) == [1, 1, 3]
    assert len({record.run_id for record in found}) == 2
    [sentence] = exported.said
    assert "in a new run at position 12: the log no longer has the entries after position 2" in sentence


@pytest.mark.parametrize("grown", [0, 1, 20])
async def test_a_restored_backup_begins_another_run(exported, grown):
    await exported.append(*[SignalKey(key="k")] * 5)
    backup = list(exported.store.entries)
    exported.clock.advance(1)
    await exported.append(*[SignalKey(key="k", amount=2)] * 10)
    await exported.export()
    exported.store.entries = backup
    exported.clock.advance(1)
    if grown:
        await exported.append(*[SignalKey(key="k", amount=3)] * grown)
    found = await exported.export()
    assert [record.n for record in found if isinstance(record, Signal)].count(3) == grown
    assert len({record.run_id for record in found}) == 2
    [sentence] = exported.said
    assert "or has lost entries" in sentence


async def test_another_log_begins_another_run(exported):
    await exported.append(SignalKey(key="k"))
    await exported.export()
    exported.renew()
    await exported.append(SignalKey(key="k"))
    found = await exported.export()
    assert len({record.run_id for record in found}) == 2
    assert "has lost entries after position 1" in exported.said[0]


async def test_a_run_has_the_epoch_of_its_checkpoint(exported):
    await exported.append(SignalKey(key="k"))
    async with exported.log() as (log, head):
        await save(log)
        with Export(exported.directory, "orders", exported.said.append) as journal:
            await journal.begin(log, "one that was lost meanwhile")
    assert exported_state.Exported.read(exported.directory).epoch == head.epoch


async def test_a_damaged_entry_stops_the_export_before_it(exported):
    await exported.append(SignalKey(key="k"))
    await exported.export()
    await exported.append(SignalKey(key="k"), b"damage", SignalKey(key="k"))
    for _ in range(2):
        with pytest.raises(LogDamaged, match="entry 3 is damaged"):
            await exported.export()
    assert len([record for record in read_journal(exported.directory) if isinstance(record, Signal)]) == 2


@pytest.mark.parametrize("spoil", [lambda data: data[:-9], lambda data: b"{" + data, lambda data: b""])
async def test_a_damaged_state_is_refused_with_the_way_out(exported, spoil):
    await exported.append(SubmitOperation(id="a", keys=("k",)))
    await exported.export()
    state = exported.directory / ".export"
    state.write_bytes(spoil(state.read_bytes()))
    with pytest.raises(JournalError, match=r"\.export is damaged: .*; export to another directory"):
        await exported.export()


async def test_one_process_writes_to_a_directory(exported):
    with (
        Export(exported.directory, "a", print),
        pytest.raises(JournalError, match="another process"),
        Export(exported.directory, "b", print),
    ):
        pass


async def test_the_page_turns_an_export_into_inputs_of_spark(exported, tmp_path):
    inputs = pytest.importorskip("purgatory_async.pipeline.distributed.inputs", exc_type=ImportError)
    page = (ROOT / "purgatory_async/service/README.md").read_text(encoding="utf-8")
    [code] = [block.text for block in fenced_blocks(page) if "def convert(" in block.text]
    names = {}
    exec(code, names)
    await by_the_log(exported)
    await exported.export()
    names["convert"](str(exported.directory), str(tmp_path / "operations"), str(tmp_path / "signals"))
    inputs.check_input("--operations", tmp_path / "operations", inputs.OPERATION_COLUMNS)
    inputs.check_input("--signals", tmp_path / "signals", inputs.SIGNAL_COLUMNS)
    operations = names["pq"].read_table(tmp_path / "operations" / "1.parquet").to_pylist()
    assert [(row["needed"], row["timeout_ns"]) for row in operations] == [
        (3, 2**63 - 1),
        (1, 2_000_000_000),
        (1, 250_000_000),
        (1, 2**63 - 1),
        (1, 2**63 - 1),
    ]
    assert (
        sum(row["n"] for row in names["pq"].read_table(tmp_path / "signals" / "1.parquet").to_pylist()) == 10
    )
