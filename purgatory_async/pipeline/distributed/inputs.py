"""The two inputs: growing directories of Parquet files, checked before Spark starts and read as streams."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from purgatory_async.pipeline.output import spark_path
from purgatory_async.pipeline.refusal import Refused

__all__ = [
    "NO_OPERATIONS",
    "OPERATION_COLUMNS",
    "SIGNAL_COLUMNS",
    "check_input",
    "read_operations",
    "read_signals",
]

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

NO_OPERATIONS: Final = pa.schema(
    [
        ("op_id", pa.string()),
        ("keys", pa.list_(pa.string())),
        *((name, pa.int64()) for name in ("needed", "submit_ns", "timeout_ns")),
    ]
).empty_table()


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


_FITS: Final[Mapping[str, Callable[[pa.DataType], bool]]] = {
    "string": _is_string,
    "array<string>": lambda kind: (
        (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_string(kind.value_type)
    ),
    "long": pa.types.is_signed_integer,
}


def check_input(flag: str, directory: Path, columns: Mapping[str, str]) -> None:
    """Check the footer of every file in a directory.

    Args:
        flag: The option that names the directory.
        directory: Its path; names that start with ``.`` or ``_`` are skipped, as Spark does.
        columns: The required columns and their types.

    Raises:
        Refused: A file is not Parquet, lacks a column, or has one of another type or with nulls.
    """
    for path in sorted(directory.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        try:
            with pq.ParquetFile(path) as file:
                kinds = {field.name: field.type for field in file.schema_arrow}
                nulls = _columns_with_nulls(file.metadata)
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
            if not _FITS[kind](kinds[name]):
                raise Refused(f"{flag} {path}: column {name!r} must be {kind}, got {kinds[name]}")
            if name in nulls:
                raise Refused(
                    f"{flag} {path}: column {name!r} has {nulls[name]} nulls; every row needs a value"
                )


def _words(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _columns_with_nulls(footer: pq.FileMetaData) -> dict[str, int]:
    """The flat columns with nulls, as far as the file has statistics."""
    found: dict[str, int] = {}
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            chunk = footer.row_group(group).column(number)
            statistics = chunk.statistics
            if statistics is not None and statistics.has_null_count and statistics.null_count:
                found[chunk.path_in_schema] = found.get(chunk.path_in_schema, 0) + statistics.null_count
    return found


def read_operations(spark: SparkSession, directory: Path, files_per_batch: int | None) -> DataFrame:
    """A stream of ``op_id, keys, needed, submit_ns, deadline_ns``, each key of an operation once.

    Args:
        spark: The session.
        directory: Of Parquet files with `OPERATION_COLUMNS`.
        files_per_batch: Most files of a batch; None for all.
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
    """A stream of ``key, at_ns, n``; see `read_operations`."""
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
    """The rows; an invalid one stops the query, since skipping it would lose it.

    Args:
        rows: As read.
        guard: A column that every reader of the result needs; it carries the check.
        columns: Columns that must not be null.
        fit: A further condition on each row.
    """
    for name in columns:
        fit = F.col(name).isNotNull() & fit
    row = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    complaint = F.concat(
        F.col("_metadata.file_path"),
        F.lit(" has a row that cannot be right: "),
        row,
        F.lit("; write the file anew under its name and start again"),
    )
    return rows.withColumn(guard, F.when(fit, F.col(guard)).otherwise(F.raise_error(complaint)))
