"""A worker that meets damage exits with 3 and names the position; it neither skips nor serves on."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from purgatory_async.durable.checkpoints.checkpointing import checkpoint
from purgatory_async.durable.urls import parsed

pytestmark = pytest.mark.slow


def change(folder, statement, *arguments):
    with closing(sqlite3.connect(folder / "log.db")) as connection, connection:
        return connection.execute(statement, arguments).rowcount


def test_a_damaged_entry_refuses_the_start(worker, file_store, tmp_path):
    first = worker(file_store).ready()
    position = first.request("POST", "/v1/keys/a/signal", {"value": 1}).json["index"]
    first.request("POST", "/v1/keys/a/signal", {"value": 2})
    first.stop()
    change(tmp_path, "UPDATE purgatory_log SET entry = x'7b' WHERE position = ?", position)
    code, logged = worker(file_store).end()
    assert code == 3
    assert f"entry {position}" in logged


def test_a_damaged_entry_ends_a_running_worker(worker, file_store, tmp_path):
    first = worker(file_store).ready()
    position = first.request("POST", "/v1/keys/a/signal", {"value": 1}).json["index"] + 1
    polling = first.hold("GET", f"/v1/keys/a?wait=40s&index={position - 1}")
    insert = "INSERT INTO purgatory_log SELECT max(position) + 1, max(at_us), x'7b' FROM purgatory_log"
    change(tmp_path, insert)
    code, logged = first.end()
    assert code == 3
    assert f"entry {position}" in logged
    assert polling.over


def test_a_damaged_checkpoint_refuses_the_start(worker, file_store, tmp_path):
    first = worker(file_store).ready()
    first.request("POST", "/v1/operations", {"keys": ["a"]})
    first.stop()
    asyncio.run(checkpoint(parsed(file_store), keep=0))
    damage = (
        "UPDATE purgatory_checkpoint SET data = CAST(x'00' || substr(data, 2) AS BLOB) WHERE length(data) > 0"
    )
    assert change(tmp_path, damage) > 0
    code, logged = worker(file_store).end()
    assert code == 3
    assert "checkpoint" in logged
