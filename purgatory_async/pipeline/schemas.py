"""Spark schemas of the pipeline's inputs, derived from their Arrow schemas."""

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

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.pipeline.source.extent import DAMAGE_COLUMNS

__all__ = ["DAMAGE_SCHEMA", "RECORD_SCHEMA", "spark_schema"]

_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.list_(pa.string()): ArrayType(StringType()),
}


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to Spark's."""
    return StructType([StructField(field.name, _TYPES[field.type]) for field in schema])


RECORD_SCHEMA: Final = spark_schema(arrow_schema())
"""A journal's records: the columns of `FIELDS`, null where a kind has no such field."""

DAMAGE_SCHEMA: Final = spark_schema(DAMAGE_COLUMNS)
"""Lines that are not records: the file's name, the offset of the line's first byte, and the reason."""
