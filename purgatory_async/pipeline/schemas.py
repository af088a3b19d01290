"""Spark's schemas of what the pipeline reads, made from the journal's own description of its fields."""

from typing import Final

from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StringType, StructField, StructType

from purgatory_async.journal.schema import FIELDS

__all__ = ["DAMAGE_SCHEMA", "RECORD_SCHEMA"]

_TYPES: Final[dict[str, DataType]] = {
    "int": IntegerType(),
    "long": LongType(),
    "string": StringType(),
    "array<string>": ArrayType(StringType()),
}

RECORD_SCHEMA: Final = StructType([StructField(name, _TYPES[kind]) for name, kind in FIELDS])
"""A journal's records: the columns of `FIELDS`, null where a kind has no such field."""

DAMAGE_SCHEMA: Final = StructType(
    [
        StructField("file", StringType()),
        StructField("offset", LongType()),
        StructField("reason", StringType()),
    ]
)
"""Lines that are no records: the file's name, the offset of the line's first byte, and what is wrong with it."""
