"""Spark schemas of the pipeline's inputs, derived from the journal's `FIELDS`."""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from purgatory_async.journal.schema import FIELDS

__all__ = ["DAMAGE_SCHEMA", "RECORD_SCHEMA", "spark_schema"]

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
"""Lines that are not records: the file's name, the offset of the line's first byte, and the reason."""

_ARROW: Final[dict[pa.DataType, DataType]] = {
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.list_(pa.string()): ArrayType(StringType()),
}


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert a kernel's Arrow schema to Spark's."""
    return StructType([StructField(field.name, _ARROW[field.type]) for field in schema])
