"""Operations and signals as the Parquet files that a producer would write, and outcomes as they are read back."""

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from tests.pipeline.distributed.purgatory_oracle import Operation, Outcome, Signal

OPERATIONS = pa.schema(
    [
        ("op_id", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("needed", pa.int32()),
        ("submit_ns", pa.int64()),
        ("timeout_ns", pa.int64()),
    ]
)
SIGNALS = pa.schema([("key", pa.string()), ("at_ns", pa.int64()), ("n", pa.int32())])


class Inputs:
    """Two directories that grow by whole files."""

    def __init__(self, directory: Path) -> None:
        self.operations = directory / "operations"
        self.signals = directory / "signals"
        self.operations.mkdir(parents=True)
        self.signals.mkdir()

    def submit(self, *operations: Operation) -> None:
        _add(self.operations, OPERATIONS, operations)

    def signal(self, *signals: Signal) -> None:
        _add(self.signals, SIGNALS, signals)


def _add(directory: Path, schema: pa.Schema, rows: tuple) -> None:
    path = directory / f"{len(list(directory.iterdir())):06}.parquet"
    columns = [
        [list(x) if isinstance(x := getattr(row, name), tuple) else x for row in rows]
        for name in schema.names
    ]
    pq.write_table(pa.table(columns, schema=schema), path.with_name(f".{path.name}"))
    path.with_name(f".{path.name}").rename(path)


def committed_files(directory: Path) -> list[Path]:
    """The files in Spark's own list: a repeated batch may have left others beside it."""
    logs = [path for path in (directory / "_spark_metadata").iterdir() if not path.name.startswith(".")]
    # A compacted log repeats those before it, which may be there still.
    entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
    return [Path(unquote(urlsplit(path).path)) for path in {entry["path"] for entry in entries}]


def read_outcomes(out: Path) -> list[Outcome]:
    """All outcomes, sorted; one that was written twice is there twice."""
    rows = [row for path in committed_files(out / "outcomes") for row in pq.read_table(path).to_pylist()]
    return sorted(Outcome(**row) for row in rows)
