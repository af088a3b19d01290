"""What a record costs, from the event to its line, and how much of that is the JSON."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from bench.journal.events import events_of_each_kind
from bench.journal.settings import JournalSettings
from bench.measure.collector import Collector
from bench.measure.comparison import compare
from bench.measure.line import Line
from bench.measure.loops import ASYNCIO
from bench.measure.sampling import Sample
from bench.measure.section import Section
from purgatory_async.journal._encoder import Encoder, Entry
from purgatory_async.journal.lines import encode_record, read_lines
from purgatory_async.journal.schema import Record, Signal
from purgatory_async.timing import TimingWheel

__all__ = ["SECTION"]


def lines(settings: JournalSettings) -> Iterator[Line]:
    """Each kind of record, and the way in which one is made; the loop has no part in it."""
    line = partial(compare, loop=ASYNCIO, collector=Collector.DEFAULT, rounds=settings.rounds)
    for name, entries in events_of_each_kind(settings.records).items():
        written = [record for record in read_lines(encoded(entries)) if isinstance(record, Record)]
        yield line(f"{name} / its line alone", ours=encoding(entries), reference=lining(written))
    times = settings.records
    yield line(
        "a record built with its fields / through **common", ours=built(times), reference=built_through(times)
    )


def encoded(entries: Sequence[Entry]) -> bytes:
    """The lines of entries, by a fresh encoder."""
    encoder = Encoder("run", "node", origin_ns=0, wall_ns=0, tick_ns=1_000_000, queue=TimingWheel())
    buffer = bytearray()
    for entry in entries:
        encoder.encode(entry, buffer)
    return bytes(buffer)


def encoding(entries: Sequence[Entry]) -> Sample:
    """Entries to lines."""
    return _timed(lambda: encoded(entries), len(entries))


def lining(records: Sequence[Record]) -> Sample:
    """Records that are there already to lines."""

    def act() -> None:
        buffer = bytearray()
        for record in records:
            encode_record(record, buffer)

    return _timed(act, len(records))


def built(times: int) -> Sample:
    """A record made in one call, its fields written out."""

    def act() -> None:
        for number in range(times):
            Signal(
                schema_version=1,
                run_id="run",
                node="node",
                seq=number,
                wall_ns=number,
                mono_ns=number,
                key="key",
                n=1,
            )

    return _timed(act, times)


def built_through(times: int) -> Sample:
    """The same where a method makes a dict of what all records have."""

    def common(number: int) -> dict[str, object]:
        return {
            "schema_version": 1,
            "run_id": "run",
            "node": "node",
            "seq": number,
            "wall_ns": number,
            "mono_ns": number,
        }

    def act() -> None:
        for number in range(times):
            Signal(**common(number), key="key", n=1)  # type: ignore[arg-type]  # slower, and less is checked

    return _timed(act, times)


def _timed(act: Callable[[], object], times: int) -> Sample:
    async def sample() -> float:
        started = time.thread_time_ns()
        act()
        return (time.thread_time_ns() - started) / times

    return sample


SECTION = Section(
    name="encoding",
    title="From an event to a line of the journal",
    timed=(
        "Processor time per record. Ours: from the purgatory's event to the line with its checksum, in a "
        "buffer. Reference: the line of an existing record (msgspec and the checksum). The journal's thread "
        "does this, not the loop's. The last line: only making the record, written in two ways."
    ),
    lines=lines,
)
