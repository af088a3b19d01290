"""The questions and the DAG on the page of tables, as printed."""

import datetime as dt
import json
import re
import shlex
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import duckdb
import jinja2
import pandas as pd
import pytest
from click.testing import CliRunner

from purgatory_async.pipeline.jobs import report, windows
from tests.pipeline.journals import EPOCH, MS, Node, live, mixed
from tests.source_tree import ROOT

PAGE = (ROOT / "purgatory_async" / "pipeline" / "TABLES.md").read_text(encoding="utf-8")
QUESTIONS, _, DAILY = PAGE.partition("## Six questions")[2].partition("\n## ")
HOUR = 3_600_000 * MS
DAY = 24 * HOUR


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def tables(spark, tmp_path, monkeypatch):
    """The working directory of the questions."""
    for name in ("journal", "report", "minutes"):
        (tmp_path / name).mkdir()
    node = mixed()
    node.signal("nobody", 5)
    node.signal("nobody", 6)
    live(tmp_path / "journal", node.records)
    report.run(tmp_path / "journal", tmp_path / "report", spark)
    windows.run(tmp_path / "journal", tmp_path / "minutes", 60_000 * MS, spark)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("tables")
def test_duckdb_and_pandas_answer_the_six_questions():
    prefixes, within, hours = (duckdb.sql(query).fetchall() for query in blocks(QUESTIONS, "sql"))
    assert prefixes == [("api", 200, 10.0, 0.756), ("human", 12, 16.7, 3300.0)]
    # 160 of 200 calls, and 10 of 12 people; each tenth and each sixth is too late.
    assert within == [("api", 0.708), ("human", 3300.0)]
    midnight = dt.datetime.fromtimestamp(EPOCH / 1e9, dt.UTC).replace(tzinfo=None)
    completed = sorted(
        [place * 0.004 for place in range(201) if place % 10]
        + [place * 300.0 for place in range(1, 13) if place % 6]
    )
    assert hours == [(midnight, 212, 22, pytest.approx(completed[94]))]
    peak, vain, ended = ({} for _ in range(3))
    for names, code in zip((peak, vain, ended), blocks(QUESTIONS, "python"), strict=True):
        exec(code, names)
    assert peak["peak"]["pending"] == peak["timeline"]["pending"].max() > 0
    assert vain["in_vain"][["key", "signals"]].to_dict("records") == [{"key": "nobody", "signals": 2}]
    start = pd.Timestamp(EPOCH, tz="UTC")
    expected = {
        (start, "api"): [200, 180, 20],
        (start, "human"): [12, 10, 0],
        (start + pd.Timedelta(hours=2), "human"): [0, 0, 2],
    }
    assert ended["hours"].T.to_dict("list") == expected


def imported(monkeypatch, made):
    """What a DAG imports of Airflow, as far as ours needs it; operators are kept in ``made``."""

    def task(**settings):
        made.append(SimpleNamespace(**settings))

    for name, contents in {
        "airflow": {},
        "airflow.sdk": {"DAG": lambda *_, **__: nullcontext()},
        "airflow.providers": {},
        "airflow.providers.standard": {},
        "airflow.providers.standard.operators": {},
        "airflow.providers.standard.operators.bash": {"BashOperator": task},
        "airflow.timetables": {},
        "airflow.timetables.interval": {"CronDataIntervalTimetable": lambda *_, **__: None},
    }.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("spark")
def test_the_dag_reports_its_day(monkeypatch, tmp_path):
    node = Node()
    for hour in range(0, 72, 6):
        node.submit(str(hour), hour * HOUR)
    (tmp_path / "journal").mkdir()
    live(tmp_path / "journal", node.records)
    made = []
    imported(monkeypatch, made)
    (code,) = blocks(DAILY, "python")
    exec(code, {})
    (task,) = made
    assert (task.task_id, task.retries) == ("report", 2)
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
    environment.filters["ds"] = lambda at: f"{at:%Y-%m-%d}"  # as Airflow's
    start = dt.datetime.fromtimestamp((EPOCH + DAY + 3 * HOUR) / 1e9, dt.UTC)
    interval = {"data_interval_start": start, "data_interval_end": start + dt.timedelta(days=1)}
    command = environment.from_string(task.bash_command).render(interval).replace("/srv", str(tmp_path))
    words = shlex.split(command)
    assert words[:3] == ["purgatory", "pipeline", "report"]
    done = CliRunner().invoke(report.command, words[3:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["operations"] == 4
    assert (tmp_path / "reports" / "day=2026-09-22" / "report.html").exists()
