"""Reading a journal: live and rotated segments, beside what Spark and Arrow have for the same files."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as pj
from pyspark.sql import DataFrame

from bench.measure.section import Section
from bench.pipeline.rate import HEADING, Rate, measured, scratch
from bench.pipeline.settings import PipelineSettings
from purgatory_async.journal.columns import arrow_schema
from purgatory_async.journal.lines import encode_record
from purgatory_async.journal.rotation import seal
from purgatory_async.journal.schema import Outcome, Submit
from purgatory_async.journal.segments import Segment
from purgatory_async.pipeline.output import spark_path
from purgatory_async.pipeline.session import open_session
from purgatory_async.pipeline.source.extent import read_table, survey
from purgatory_async.pipeline.source.tables import PurgatoryJournal, read_journal
from purgatory_async.pipeline.spark_tables import RECORD_SCHEMA

__all__ = ["SECTION"]

_SEGMENT: Final = 100_000  # records
_GAP_NS: Final = 100_000
_TIMEOUT_NS: Final = 200_000_000


def lines(settings: PipelineSettings) -> Iterator[Rate]:
    """A fifth as many records as there are operations elsewhere: JSON lines are large."""
    records = max(settings.operations // 5, 2)
    with scratch() as directory:
        live, rotated = directory / "live", directory / "rotated"
        for place in (live, rotated):
            place.mkdir()
            _write(place, records)
        for segment in sorted(rotated.iterdir()):
            seal(Segment.named(rotated, *_named(segment)))
        yield from _in_one_process(settings, live, records)
        with open_session("benchmark", master=settings.master) as spark:
            spark.dataSource.register(PurgatoryJournal)
            ways = {
                "live, Spark's JSON": spark.read.schema(RECORD_SCHEMA).json(spark_path(live)),
                "live, read_journal": read_journal(spark, live).records,
                "live, its damage": read_journal(spark, live).damage,
                "rotated, Spark's Parquet": spark.read.parquet(spark_path(rotated)),
                "rotated, read_journal": read_journal(spark, rotated).records,
                "rotated, purgatory_journal": spark.read.format("purgatory_journal").load(str(rotated)),
            }
            for name, table in ways.items():
                _consume(table)  # starts workers, compiles
                yield measured(name, records, settings.heavy_rounds, partial(_consume, table))


def _in_one_process(settings: PipelineSettings, live: Path, records: int) -> Iterator[Rate]:
    pieces = survey(live).pieces
    yield measured(
        "live, one process, our decoder",
        records,
        settings.heavy_rounds,
        lambda: [batch.num_rows for piece in pieces for batch in read_table(piece)],
    )
    schema = pa.schema([*arrow_schema(), ("crc", pa.string())])
    yield measured(
        "live, one process, pyarrow.json",
        records,
        settings.heavy_rounds,
        lambda: [
            pj.read_json(
                path,
                pj.ReadOptions(use_threads=False),
                pj.ParseOptions(explicit_schema=schema),
            ).num_rows
            for path in live.iterdir()
        ],
    )


def _consume(table: DataFrame) -> None:
    """Have Spark make every column of every row, and keep none."""
    table.write.format("noop").mode("overwrite").save()


def _write(directory: Path, records: int) -> None:
    """Segments of submissions and outcomes, as a busy node writes them."""
    for number, begin in enumerate(range(0, records, _SEGMENT), start=1):
        buffer = bytearray()
        for seq in range(begin + 1, min(begin + _SEGMENT, records) + 1):
            encode_record(_record(seq), buffer)
        Segment.named(directory, "2026-01-01T00-00-00-1a2b", "host-1", number).path.write_bytes(buffer)


def _record(seq: int) -> Submit | Outcome:
    operation = (seq + 1) // 2
    common: dict[str, Any] = {
        "schema_version": 1,
        "run_id": "2026-01-01T00-00-00-1a2b",
        "node": "host-1",
        "seq": seq,
        "wall_ns": 1_767_225_600_000_000_000 + seq * _GAP_NS,
        "mono_ns": seq * _GAP_NS,
        "op_id": str(operation),
        "keys": [f"key-{operation % 1000}", f"key-{operation % 777}"],
    }
    if seq % 2:
        return Submit(**common, needed=1, timeout_ns=_TIMEOUT_NS)
    return Outcome(**common, outcome="completed", latency_ns=_GAP_NS, checks=2, inserts=1)


def _named(path: Path) -> tuple[str, str, int]:
    segment = Segment.of(path)
    assert segment is not None, path
    return segment.run_id, segment.node, segment.number


SECTION = Section(
    name="source",
    title="A journal as a table",
    timed=(
        "Wall time to read all columns of all records of a journal. Spark is running and has read the files "
        "before, so neither its start nor the disk counts."
    ),
    lines=lines,
    heading=HEADING,
)
