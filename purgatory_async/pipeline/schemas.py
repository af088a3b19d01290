"""Spark schemas of the pipeline's inputs, derived from their Arrow schemas."""

from typing import Final

from pyspark.sql.pandas.types import from_arrow_schema as spark_schema

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.pipeline.source.extent import DAMAGE_COLUMNS

__all__ = ["DAMAGE_SCHEMA", "RECORD_SCHEMA", "spark_schema"]

RECORD_SCHEMA: Final = spark_schema(arrow_schema())
"""A journal's records: the columns of `FIELDS`, null where a kind has no such field."""

DAMAGE_SCHEMA: Final = spark_schema(DAMAGE_COLUMNS)
"""Lines that are not records: the file's name, the offset of the line's first byte, and the reason."""
