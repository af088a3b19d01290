"""The two inputs: growing directories of Parquet files, checked before Spark starts and read as streams."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.output import spark_path
from purgatory_async.pipeline.source.parquet import is_text, is_texts

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

# Integers are read as long, whatever their width in the file: pyarrow writes long by default.
OPERATION_COLUMNS: Final = {
    "op_id": "string",
    "keys": "array<string>",
    "needed": "long",
    "submit_ns": "long",
    "timeout_ns": "long",
}
SIGNAL_COLUMNS: Final = {"key": "string", "at_ns": "long", "n": "long"}

# How each is written, and what is taken for it.
_TYPES: Final = {
    "string": (pa.string(), is_text),
    "array<string>": (pa.list_(pa.string()), is_texts),
    "long": (pa.int64(), pa.types.is_signed_integer),
}
NO_OPERATIONS: Final = pa.schema(
    {name: _TYPES[kind][0] for name, kind in OPERATION_COLUMNS.items()}
).empty_table()


def check_input(flag: str, directory: Path, columns: Mapping[str, str]) -> None:
    """Check the footer of every file in the directory of an option, but those that Spark skips: ``.*`` and ``_*``.

    Raises:
        Refused: A file is not Parquet, lacks a column, or has one of another type or with nulls.
    """
    for path in sorted(directory.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        try:
            with pq.ParquetFile(path) as file:
                kinds = {field.name: field.type for field in file.schema_arrow}
                nulls = _nulls(file.metadata)
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise Refused(
                f"{flag} {path} cannot be read as Parquet: {reason}; take it out of the directory"
            ) from None
        for name, kind in columns.items():
            if name not in kinds:
                raise Refused(
                    f"{flag} {path} has no column {name!r}; it needs {_words(columns)}, got {[*kinds]}"
                )
            if not _TYPES[kind][1](kinds[name]):
                raise Refused(f"{flag} {path}: column {name!r} must be {kind}, got {kinds[name]}")
            if nulls[name]:
                raise Refused(
                    f"{flag} {path}: column {name!r} has {nulls[name]} nulls; every row needs a value"
                )


def _words(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _nulls(footer: pq.FileMetaData) -> Counter[str]:
    """The number of nulls in each flat column, as far as the file has statistics."""
    found: Counter[str] = Counter()
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            chunk = footer.row_group(group).column(number)
            if chunk.statistics is not None and chunk.statistics.has_null_count:
                found[chunk.path_in_schema] += chunk.statistics.null_count
    return found


def read_operations(spark: SparkSession, directory: Path, files_per_batch: int | None) -> DataFrame:
    """A stream of ``op_id, keys, needed, submit_ns, deadline_ns``, each key of an operation once, and nothing null.

    It reads Parquet files with `OPERATION_COLUMNS`, at most ``files_per_batch`` at once; None for all.
    """
    rows = _stream(spark, directory, OPERATION_COLUMNS, files_per_batch)
    fit = (F.col("needed") >= -INT_MAX - 1) & (F.col("needed") <= INT_MAX)
    checked = _checked(rows, "submit_ns", OPERATION_COLUMNS, fit & ~F.exists("keys", F.isnull))
    # A deadline beyond the largest instant becomes that instant.
    never = F.when(F.col("timeout_ns") > 0, F.lit(LONG_MAX)).otherwise(F.lit(-LONG_MAX - 1))
    deadline = F.coalesce(F.try_add(F.col("submit_ns"), F.col("timeout_ns")), never)
    return checked.withColumn("deadline_ns", deadline).select(
        "op_id", F.array_distinct("keys").alias("keys"), "needed", "submit_ns", "deadline_ns"
    )


def read_signals(spark: SparkSession, directory: Path, files_per_batch: int | None) -> DataFrame:
    """A stream of ``key, at_ns, n``, none of these null and no ``n`` negative; see `read_operations`."""
    rows = _stream(spark, directory, SIGNAL_COLUMNS, files_per_batch)
    fit = (F.col("n") >= 0) & (F.col("n") <= INT_MAX)
    return _checked(rows, "at_ns", SIGNAL_COLUMNS, fit).select("key", "at_ns", "n")


def _stream(
    spark: SparkSession, directory: Path, columns: Mapping[str, str], files_per_batch: int | None
) -> DataFrame:
    reader = spark.readStream.schema(_words(columns).replace("long", "bigint"))
    # Otherwise Spark silently skips a file much older than the newest.
    reader = reader.option("maxFileAge", "36500d")
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    return reader.parquet(spark_path(directory))


def _checked(rows: DataFrame, guard: str, columns: Mapping[str, str], fit: Column) -> DataFrame:
    """The rows, checked in a column that every reader needs: an invalid one stops the query, or it would be lost."""
    for name in columns:
        fit = F.col(name).isNotNull() & fit
    row = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    remedy = F.lit("; write the file anew under its name and start again")
    complaint = F.concat("_metadata.file_path", F.lit(" has a row that cannot be right: "), row, remedy)
    return rows.withColumn(guard, F.when(fit, F.col(guard)).otherwise(F.raise_error(complaint)))
