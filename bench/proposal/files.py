"""What was measured, as files: a Parquet file that has all, and the same as JSON for those who read without pyarrow."""

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.measure.machine import Machine
from bench.proposal.point import Point, Reading
from bench.proposal.results import Measured

__all__ = ["NAME", "load", "save"]

NAME = "readings"
_FACTS = b"bench.proposal"
_OF_POINT = [field.name for field in dataclasses.fields(Point)]
_OF_READING = [field.name for field in dataclasses.fields(Reading)]


def save(directory: Path, measured: Measured) -> None:
    """Write ``readings.parquet`` and ``readings.json``; both have machine, command and date, and a row a reading."""
    directory.mkdir(parents=True, exist_ok=True)
    facts = {
        "machine": dataclasses.asdict(measured.machine),
        "command": measured.command,
        "date": measured.date,
        "failed": measured.failed,
    }
    table = pa.Table.from_pylist(
        [
            dataclasses.asdict(point) | dataclasses.asdict(reading)
            for point, of_point in measured.readings.items()
            for reading in of_point
        ]
    )
    pq.write_table(table.replace_schema_metadata({_FACTS: json.dumps(facts)}), directory / f"{NAME}.parquet")
    document = json.dumps({**facts, NAME: table.to_pylist()}, indent=1)
    (directory / f"{NAME}.json").write_text(document + "\n", encoding="utf-8")


def load(directory: Path) -> Measured:
    """Read ``readings.parquet`` back.

    Raises:
        ValueError: There is none, or it is none of ours.
    """
    path = directory / f"{NAME}.parquet"
    if not path.exists():
        raise ValueError(f"there is no {path}; make one with: python -m bench.proposal --out {directory}")
    table = pq.read_table(path)
    facts = (table.schema.metadata or {}).get(_FACTS)
    if facts is None:
        raise ValueError(
            f"{path} does not say where it was measured; was it written by python -m bench.proposal?"
        )
    readings: dict[Point, list[Reading]] = {}
    for row in table.to_pylist():
        point = Point(**{name: row[name] for name in _OF_POINT if name in row})  # older files have fewer
        readings.setdefault(point, []).append(Reading(**{name: row[name] for name in _OF_READING}))
    known = json.loads(facts)
    return Measured(readings=readings, **{**known, "machine": Machine(**known["machine"])})
