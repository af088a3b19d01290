"""The table of operations, written by the workers that pair them, one file per bucket."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.pipeline.kernels.pairing import OPERATIONS, Pairing
from purgatory_async.pipeline.kernels.tallies import Tally

__all__ = ["OutcomeParts"]

# The other columns have almost no repeated values.
_REPEATED: Final = ["run_id", "node", "outcome", "keys.list.element"]


@dataclass(frozen=True, slots=True)
class OutcomeParts:
    """Writes operations, and returns only their tally.

    If Spark repeats a bucket, the new file has the same rows and replaces the old one.

    Attributes:
        directory: An existing directory, which the workers must see as this process does.
        tally: Counts the operations.
    """

    directory: Path
    tally: Tally

    def lay_out(self) -> None:
        """Create the directory with a file without rows, so that it can be read even without operations."""
        self.directory.mkdir()
        pq.write_table(OPERATIONS.empty_table(), self.directory / "no-rows.parquet")

    def write(self, pairing: Pairing) -> pa.Table:
        """Write a bucket's operations, and return their tally."""
        operations = pairing.operations()
        if len(operations):
            unfinished = self.directory / f".{pairing.bucket}-{secrets.token_hex(4)}"
            pq.write_table(operations, unfinished, use_dictionary=_REPEATED)  # pyright: ignore[reportArgumentType]
            unfinished.rename(self.directory / f"part-{pairing.bucket:05d}.parquet")
        return self.tally.of(operations)
