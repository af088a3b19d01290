"""The soak tests as their commands run them, for a moment: nothing of ours is lost, and faults are found."""

import re
import subprocess
import sys

import pytest

from tests.cluster.servers import by_engine, need_postgres, need_redis
from tests.source_tree import ROOT

pytestmark = pytest.mark.slow


def printed(*arguments, code=0):
    finished = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert finished.returncode == code, finished.stdout + finished.stderr
    return finished.stdout


def test_chaos_loses_nothing_and_compares_what_workers_show():
    row = printed("tests.soak.chaos", "--seconds", "3").splitlines()[2]
    name, *figures = [cell.strip() for cell in row.strip("|").split("|")]
    assert name == "sqlite, 3"
    assert all(re.fullmatch(r"[\d,]+", figure) for figure in figures)
    assert figures[9:13] == ["0"] * 4  # lost, doubled, early, different


def test_promises_are_kept_when_everything_is_killed():
    row = printed("tests.soak.promises", "--rounds", "40").splitlines()[2]
    name, *figures = [cell.strip() for cell in row.strip("|").split("|")]
    assert name == "sqlite, 40"
    assert figures[5:10] == ["0"] * 5  # lost, doubled, asked twice, early, different


def rolled(*arguments, code=0):
    """The counts of a rolling restart: what was done, and what was lost, doubled, asked twice, early and different."""
    row = printed("tests.soak.rolling", "--seconds", "4", *arguments, code=code).splitlines()[2]
    _, _, restarted, ended, jobs, *figures = [cell.strip() for cell in row.strip("|").split("|")]
    assert all(re.fullmatch(r"[1-9].*", each) for each in (restarted, ended, jobs))
    return figures[:5]


@pytest.mark.parametrize("engine", by_engine(["sqlite", "postgres", "redis"]))
def test_a_rolling_restart_loses_nothing(engine):
    need = {"postgres": need_postgres, "redis": need_redis}.get(engine)
    if need is not None:
        need()
    assert rolled("--store", engine) == ["0"] * 5


@pytest.mark.parametrize(("fault", "counted"), [("forget", "lost"), ("twice", "doubled")])
def test_a_planted_fault_of_a_worker_is_counted(fault, counted):
    counts = dict(
        zip(
            ("lost", "doubled", "asked twice", "early", "different"),
            rolled("--fault", fault, code=1),
            strict=True,
        )
    )
    assert counts.pop(counted) != "0"
    assert set(counts.values()) == {"0"}


@pytest.mark.parametrize("store", by_engine(["sqlite", "postgres"]))
def test_the_shop_loses_nothing_while_its_workers_restart(store):
    pytest.importorskip("fastapi")
    if store == "postgres":
        need_postgres()
        pytest.importorskip("psycopg")
    row = printed("tests.soak.shop", "--seconds", "6", "--store", store).splitlines()[2]
    name, *figures = [cell.strip() for cell in row.strip("|").split("|")]
    assert name == f"{store}, 6"
    assert figures[6:9] == ["0"] * 3  # lost, doubled, different


def test_a_race_keeps_what_a_hand_off_promises():
    rows = [re.split(r"  +", row) for row in printed("tests.soak.race", "--rounds", "800").splitlines()[1:]]
    assert {row[-1] for row in rows} == {"met", "shown"}
    lost = {row[0] for row in rows if row[-1] == "shown" and row[-4] != "-"}
    assert lost == {"asyncio.Queue.get() in asyncio.wait", "a future in a dict under asyncio.timeout"}
