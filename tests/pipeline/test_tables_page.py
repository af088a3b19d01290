"""The page of tables, against the schemas of what the commands write."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory_async.journal.columns import arrow_schema
from purgatory_async.journal.schema import FIELDS, kinds
from purgatory_async.pipeline.jobs import distributed, report, stream, whatif, windows, workload
from purgatory_async.pipeline.workload import Workload
from tests.pipeline.distributed.purgatory_oracle import Operation
from tests.pipeline.journals import append, live, mixed, rotated
from tests.pipeline.parquet_inputs import Inputs, committed_files
from tests.source_tree import ROOT

PAGE = (ROOT / "purgatory_async" / "pipeline" / "TABLES.md").read_text(encoding="utf-8")
COLUMN = re.compile(r"^\| `(\w+)` \| ([\w<>]+) \|(?: ([\w, ]+) \|)?", re.MULTILINE)
SECOND = 10**9


def documented():
    """The columns of each table on the page, with their types."""
    sections = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
    tables = {section.partition("\n")[0]: COLUMN.findall(section) for section in sections}
    return {name: [row[:2] for row in rows] for name, rows in tables.items() if rows}


def columns_of(files):
    """The columns of some files, which must agree."""
    found = {tuple((field.name, shown(field.type)) for field in pq.read_schema(file)) for file in files}
    (columns,) = found
    return list(columns)


def shown(kind):
    return f"list<{shown(kind.value_type)}>" if pa.types.is_list(kind) else str(kind)


def written(out, prefix):
    """The columns of every table below a directory of results."""
    tables = {path.parent for path in out.rglob("*.parquet")}
    return {f"{prefix}/{table.name}": columns_of(table.glob("*.parquet")) for table in tables}


@pytest.fixture
def journal(tmp_path):
    """A journal with damage, so that no table is empty for want of rows."""
    directory = tmp_path / "journal"
    directory.mkdir()
    records = mixed(calls=20, people=6).records
    rotated(directory, records[:10])
    append(live(directory, records[10:], 2), b"{}\n")
    return directory


def test_the_page_has_the_columns_of_every_table(spark, journal, tmp_path):
    outs = {name: tmp_path / name for name in ("report", "whatif", "windows", "stream", "workload")}
    for out in outs.values():
        out.mkdir()
    report.run(journal, outs["report"], spark)
    whatif.run(journal, whatif.Wanted((0.5, 1.0), (0.001,), (256,), by_prefix=True), outs["whatif"], spark)
    windows.run(journal, outs["windows"], SECOND, spark)
    plan = stream.Plan(
        journal=journal,
        out=outs["stream"],
        checkpoint=tmp_path / "state",
        window_ns=SECOND,
        available_now=True,
    )
    plan.checkpoint.mkdir()
    stream.run(plan, spark)
    load = Workload(requests=9, rate=1.0, p50=0.1, p75=0.2, timeout=1.0, keys=2, key_space=9, seed=1)
    workload.run(load, outs["workload"])
    made = {"journal": [(field.name, shown(field.type)) for field in arrow_schema()]}
    for name in ("report", "whatif", "windows"):
        made |= written(outs[name], name)
    made["workload"] = columns_of(outs["workload"].glob("*.parquet"))
    page = documented()
    assert {name: columns for name, columns in page.items() if name != "distributed/outcomes"} == made
    assert written(outs["stream"], "windows") == {
        name: page[name] for name in made if name.startswith("windows/")
    }


def test_the_page_has_the_columns_of_the_distributed_purgatory(spark, tmp_path):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    inputs = Inputs(tmp_path)
    inputs.submit(Operation("op", ("a",), 1, SECOND, SECOND), Operation("later", (), 1, 9 * SECOND, SECOND))
    plan = distributed.Plan(
        operations=inputs.operations,
        signals=inputs.signals,
        out=tmp_path / "out",
        checkpoint=tmp_path / "checkpoint",
        time="event",
        available_now=True,
        shards=2,
    )
    try:
        distributed.run(plan, spark)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert columns_of(committed_files(tmp_path / "out" / "outcomes")) == documented()["distributed/outcomes"]


def test_the_page_says_which_records_have_a_column():
    rows = COLUMN.findall(PAGE.partition("### journal")[2].partition("\n## ")[0])
    own = {kind.__struct_config__.tag: {*kind.__struct_fields__, "kind"} for kind in kinds()}
    assert [name for name, _, _ in rows] == [name for name, _ in FIELDS]
    for name, _, records in rows:
        have = [kind for kind, fields in own.items() if name in fields]
        assert records == ("all" if len(have) == len(own) else ", ".join(have)), name
