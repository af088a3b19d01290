"""A journal as two tables: its records, and the lines that are not records."""

from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from purgatory_async.journal.schema import FIELDS
from purgatory_async.pipeline.schemas import DAMAGE_SCHEMA, RECORD_SCHEMA
from purgatory_async.pipeline.sources.extent import Extent, encode_pieces, survey
from purgatory_async.pipeline.sources.journal_source import PurgatoryJournal
from purgatory_async.pipeline.sources.paths import spark_path

__all__ = ["JournalTables", "read_journal"]


class JournalTables(NamedTuple):
    """A journal's tables as of its survey, however often they are computed.

    Attributes:
        records: A row for each record, with the columns of `FIELDS`, unordered.
        damage: A row for each line that is not a record: ``file``, ``offset``, ``reason``.
    """

    records: DataFrame
    damage: DataFrame


def read_journal(spark: SparkSession, journal: Path | Extent) -> JournalTables:
    """Read a journal as tables.

    Args:
        spark: Its workers must see the files as this process does.
        journal: The directory, or the result of `survey`; a job surveys before Spark starts.

    Returns:
        Both tables, of the same extent: neither has what is written afterwards.

    Raises:
        Refused: The directory or a file cannot be read, or a file cannot be part of a journal.
    """
    extent = journal if isinstance(journal, Extent) else survey(journal)
    records = [*_rotated(spark, extent), *_live(spark, extent, "records")]
    damage = [*_live(spark, extent, "damage")]
    return JournalTables(
        reduce(DataFrame.unionByName, records) if records else spark.createDataFrame([], RECORD_SCHEMA),
        damage[0] if damage else spark.createDataFrame([], DAMAGE_SCHEMA),
    )


def _live(spark: SparkSession, extent: Extent, table: str) -> Iterator[DataFrame]:
    if extent.pieces:
        spark.dataSource.register(PurgatoryJournal)
        source = spark.read.format(PurgatoryJournal.name()).option("table", table)
        yield source.option("pieces", encode_pieces(extent.pieces)).load()


def _rotated(spark: SparkSession, extent: Extent) -> Iterator[DataFrame]:
    for columns, paths in extent.parquet.items():
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns)
        reader = spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", "true")
        files = reader.parquet(*(spark_path(path) for path in paths))
        present = dict(columns)
        yield files.select(*(_field(name, kind, present.get(name)) for name, kind in FIELDS))


def _field(name: str, wanted: str, found: str | None) -> Column:
    if found is None:
        return F.lit(None).cast(wanted).alias(name)
    return F.col(name).cast(wanted).alias(name)
