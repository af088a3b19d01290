"""The table of operations, written by the workers that put them together, each bucket as a file of its own."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.pipeline.kernels.pairing import OPERATIONS, Pairing
from purgatory_async.pipeline.kernels.tallies import Tally

__all__ = ["OutcomeParts"]

# The rest is as good as different in each row.
_REPEATED: Final = ["run_id", "node", "outcome", "keys.list.element"]


@dataclass(frozen=True, slots=True)
class OutcomeParts:
    """Writes operations, and tells only what there are of them.

    Spark may do a bucket again: the file has the same rows then, and replaces the one that may be there.

    Attributes:
        directory: Where to; it is there, and the workers must see it as this process does.
        tally: What to tell.
    """

    directory: Path
    tally: Tally

    def lay_out(self) -> None:
        """Make the directory, and a file without rows, so that it can be read whatever comes."""
        self.directory.mkdir()
        pq.write_table(OPERATIONS.empty_table(), self.directory / "no-rows.parquet")

    def write(self, pairing: Pairing) -> pa.Table:
        """Write a bucket's operations.

        Returns:
            What the tally tells of them.
        """
        operations = pairing.operations()
        if len(operations):
            unfinished = self.directory / f".{pairing.bucket}-{secrets.token_hex(4)}"
            pq.write_table(operations, unfinished, use_dictionary=_REPEATED)
            unfinished.rename(self.directory / f"part-{pairing.bucket:05d}.parquet")
        return self.tally.of(operations)
