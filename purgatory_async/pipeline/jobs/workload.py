"""``purgatory pipeline workload``: operations with random arrivals and latencies, as Parquet.

Each worker generates the blocks of its part and writes the part's file itself. Only a digest per block passes through
Spark, so rows are never converted to Java's and back, and the checksum covers the written rows.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.jobs.frame import Seconds, out_option, progress, spark_options, summary
from purgatory_async.pipeline.locations import Location, whole
from purgatory_async.pipeline.output import Stage, check_fresh, staged
from purgatory_async.pipeline.workload import (
    BLOCK,
    GENERATOR_VERSION,
    PROFILES,
    SCHEMA,
    Workload,
    block_digest,
    checksum,
)

if TYPE_CHECKING:  # Spark is optional here
    from pyspark.sql import SparkSession

MANIFEST: Final = "manifest.json"
_BLOCKS_A_PART: Final = 8  # by default; a file of about 10 MB
_MOST_PARTS: Final = 100_000


def run(
    workload: Workload,
    out: Path | Stage,
    parts: int | None = None,
    spark: "SparkSession | None" = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Write a workload, as a file for each part and a manifest, and return the summary.

    Args:
        workload: The settings.
        out: A stage, or an empty directory, which Spark's workers must see as this process does.
        parts: Number of files; neither rows nor checksum depend on it.
        spark: The session; None generates in this process.
        say: Called with each step.
    """
    stage = Stage.of(out)
    tables = stage.tables.absolute()
    parts = min(parts or -(-workload.blocks // _BLOCKS_A_PART), workload.blocks)

    def _gap_sums(part: int) -> list[dict[str, Any]]:
        blocks = _blocks(workload, part, parts)
        return [{"block": block, "gap_ns": workload.gap_sum_ns(block)} for block in blocks]

    say("adding up the gaps between arrivals")
    gaps = _spread(_gap_sums, parts, "block long, gap_ns long", spark)
    starts = [0, *accumulate(row["gap_ns"] for row in gaps)]

    def _file(part: int) -> list[dict[str, Any]]:
        return _write_file(
            workload, _blocks(workload, part, parts), starts, tables / f"part-{part:05d}.parquet"
        )

    say(f"writing {workload.requests} operations")
    digests = _spread(_file, parts, "block long, digest binary", spark)
    for leftover in stage.folder.glob(".*"):
        leftover.unlink()  # of a worker that died
    found = {
        "requests": workload.requests,
        "checksum": checksum(bytes(row["digest"]) for row in digests),
        "expected_timeout_rate": workload.expected_timeout_rate,
    }
    manifest = {
        **asdict(workload),
        **found,
        "partitions": parts,
        "block": BLOCK,
        "generator_version": GENERATOR_VERSION,
        "numpy_version": np.__version__,
        "columns": {field.name: str(field.type) for field in SCHEMA},
    }
    (stage.folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return found


def _spread(
    work: Callable[[int], list[dict[str, Any]]], parts: int, schema: str, spark: "SparkSession | None"
) -> list[Any]:
    """Do each part's work, on Spark or here, and return all rows in the order of the blocks."""
    if spark is None:
        return [row for part in range(parts) for row in work(part)]
    # Inside, as Spark itself.
    from purgatory_async.pipeline.spark_tables import on_workers  # noqa: PLC0415 - see above

    found = on_workers(spark, range(parts), lambda part: [pa.RecordBatch.from_pylist(work(part))], schema)
    return sorted(found.collect(), key=lambda row: row["block"])


def _write_file(workload: Workload, blocks: range, starts: list[int], file: Location) -> list[dict[str, Any]]:
    """Write a part's rows; Spark may run it twice, even at once, and both runs write the same file."""
    digests = []
    with (
        whole(file) as path,
        pq.ParquetWriter(path, SCHEMA, compression="zstd", use_dictionary=["timeout_ns"]) as writer,  # pyright: ignore[reportArgumentType]
    ):
        for block in blocks:
            rows = workload.rows(block, starts[block])
            writer.write_batch(rows)
            digests.append({"block": block, "digest": block_digest(rows)})
    return digests


def _blocks(workload: Workload, part: int, parts: int) -> range:
    """The blocks of a part: consecutive, and equally many in each part, plus or minus one."""
    return range(workload.blocks * part // parts, workload.blocks * (part + 1) // parts)


@click.command("workload")
@out_option
@click.option("--requests", type=int, required=True, metavar="N", help="How many operations.")
@click.option("--rate", type=float, required=True, metavar="R", help="Arrivals per second, on average.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    help="Latencies of a system at rest (median 20 ms, third quartile 60 ms) or under load (200, 400 ms).",
)
@click.option(
    "--p50", type=Seconds(), metavar="S", help="Median latency, such as 20ms, instead of the profile's."
)
@click.option(
    "--p75", type=Seconds(), metavar="S", help="Third quartile, such as 60ms, instead of the profile's."
)
@click.option(
    "--timeout", type=Seconds(), default=0.2, show_default=True, metavar="S", help="Such as 0.2 or 200ms."
)
@click.option("--keys", type=int, default=1, show_default=True, metavar="K", help="Each watches 1 to K keys.")
@click.option("--key-space", type=int, default=100_000, show_default=True, metavar="M", help="Keys in all.")
@click.option("--seed", type=int, default=1, show_default=True, metavar="I", help="Same seed, same rows.")
@click.option(
    "--partitions",
    type=click.IntRange(1, _MOST_PARTS),
    metavar="N",
    help=f"Files, at most one for every {BLOCK} operations.  [default: one for {_BLOCKS_A_PART} times as many]",
)
@click.option("--no-spark", is_flag=True, help="Make the same rows in this process.")
@spark_options
def command(
    *,
    out: Location,
    profile: str | None,
    partitions: int | None,
    no_spark: bool,
    master: str | None,
    remote: str | None,
    **shape: Any,
) -> None:
    """Make a workload: random arrivals at a rate, log-normal latencies, one timeout, and keys.

    \b
    Example:
      purgatory pipeline workload --out load --requests 1000000 --rate 10000 --profile low --timeout 0.2 \\
          --keys 3 --key-space 100000 --seed 1
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    workload = _workload(profile, **shape)
    if no_spark and (master or remote):
        raise Refused(
            f"--no-spark and {'--master' if master else '--remote'} exclude each other; leave one out"
        )
    check_fresh(out)
    with progress("workload") as say, staged(out) as stage, _session(no_spark, master, remote) as spark:
        say("starting")
        if spark is not None:
            # Inside, as Spark itself.
            from purgatory_async.pipeline.shared import check_shared  # noqa: PLC0415 - see above

            check_shared(spark, {}, {"--out": stage.tables})
        found = run(workload, stage, partitions, spark, say)
    summary(found)


def _workload(profile: str | None, *, p50: float | None, p75: float | None, **shape: Any) -> Workload:
    usual_p50, usual_p75 = (None, None) if profile is None else PROFILES[profile]
    median, quartile = usual_p50 if p50 is None else p50, usual_p75 if p75 is None else p75
    if median is None or quartile is None:
        raise Refused(f"--profile must be one of {', '.join(PROFILES)}, or --p50 and --p75 given")
    try:
        return Workload(p50=median, p75=quartile, **shape)
    except ValueError as error:
        name, _, bounds = str(error).partition(" ")
        raise Refused(f"--{name.replace('_', '-')} {bounds}") from None


def _session(
    no_spark: bool, master: str | None, remote: str | None
) -> "AbstractContextManager[SparkSession | None]":
    if no_spark:
        return nullcontext()
    # Inside: --no-spark needs no Spark.
    from purgatory_async.pipeline.session import open_session  # noqa: PLC0415 - see above

    return open_session("purgatory workload", master=master, remote=remote)
