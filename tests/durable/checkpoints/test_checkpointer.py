"""When a serving worker has a checkpoint saved, and what it does when that fails."""

import asyncio
import os

import pytest

from purgatory_async.durable.checkpoints import checkpointer as module
from purgatory_async.durable.checkpoints.checkpointer import RETRY_S, Checkpointer
from purgatory_async.durable.checkpoints.checkpointing import save
from purgatory_async.durable.urls import opened
from purgatory_async.metrics import Metrics
from tests.cluster.reading import saved
from tests.durable.checkpoints.children import Children
from tests.durable.checkpoints.conftest import append, some_entries

pytestmark = pytest.mark.asyncio


@pytest.fixture
def children(sqlite_store, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 30)
    return Children(sqlite_store, monkeypatch)


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - of another process, too
            await asyncio.sleep(0.001)


async def test_it_starts_a_process_after_so_many_entries(sqlite_store, children):
    async with (
        opened(sqlite_store) as (log, _),
        Checkpointer(sqlite_store, log, print) as checkpointer,
    ):
        await append(log, *some_entries())
        checkpointer.note(29, 10)
        await asyncio.sleep(0)
        assert children.started == []
        checkpointer.note(30, 10)
        await until(lambda: checkpointer.position)
        assert (children.started, checkpointer.position, checkpointer.seconds > 0) == ([30], 30, True)
        metrics = Metrics()
        checkpointer.show(metrics)
        values = {metric.name: metric.samples[0].value for metric in metrics.collect() if metric.samples}
        assert values["purgatory_checkpoint_position"] == 30
        assert values["purgatory_checkpoint_seconds"] == checkpointer.seconds


async def test_it_starts_a_process_after_so_many_bytes(sqlite_store, children):
    async with (
        opened(sqlite_store) as (log, _),
        Checkpointer(sqlite_store, log, print) as checkpointer,
    ):
        await append(log, *some_entries(2))
        checkpointer.note(1, module.BYTES - 1)
        checkpointer.note(2, 1)
        await until(lambda: checkpointer.position)
        assert checkpointer.position == 3


async def test_a_checkpoint_of_another_worker_counts(sqlite_store, children):
    async with (
        opened(sqlite_store) as (log, _),
        Checkpointer(sqlite_store, log, print) as checkpointer,
    ):
        await append(log, *some_entries())
        async with opened(sqlite_store) as (other, _):
            await save(other)
        checkpointer.note(30, 10)
        await until(lambda: checkpointer.position)
        assert (checkpointer.position, checkpointer.seconds, children.started) == (30, 0.0, [])


async def test_what_was_saved_before_the_start_counts(sqlite_store, children):
    async with opened(sqlite_store) as (log, _):
        await append(log, *some_entries())
        await save(log)
        async with Checkpointer(sqlite_store, log, print) as checkpointer:
            assert checkpointer.position == 30
            checkpointer.note(59, 10)
            await asyncio.sleep(0)
            assert children.started == []


async def test_a_failure_is_logged_and_tried_again_later(sqlite_store, children, monkeypatch):
    said, waits = [], []
    go_on = asyncio.Event()

    async def sleep(seconds):
        waits.append(seconds)
        await go_on.wait()

    monkeypatch.setattr(module, "sleep", sleep)
    children.failing = True
    async with opened(sqlite_store) as (log, _):
        await append(log, *some_entries())
        async with Checkpointer(sqlite_store, log, said.append) as checkpointer:
            checkpointer.note(30, 10)
            await until(lambda: waits)
            assert (waits, checkpointer.position) == ([RETRY_S], 0)
            assert said == ["the disk is full (exit code 1)"]
            children.failing = False
            go_on.set()
            await until(lambda: checkpointer.position)
            assert children.started == [30, 30]


async def test_the_process_ends_with_the_worker(sqlite_store, children):
    children.hanging = True
    async with opened(sqlite_store) as (log, _):
        async with Checkpointer(sqlite_store, log, print) as checkpointer:
            checkpointer.note(30, 10)
            await until(lambda: children.started)
            await asyncio.sleep(0)
        assert children.killed == 1
        assert await saved(log) is None


@pytest.mark.slow
async def test_a_real_process_saves_for_a_worker(store, log, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 30)
    said = []
    async with Checkpointer(store, log, said.append) as checkpointer:
        await append(log, *some_entries())
        checkpointer.note(30, 10)
        await until(lambda: checkpointer.position or said)
        assert not said
        assert (checkpointer.position, (await saved(log))[0]) == (30, 30)
        assert store.url not in " ".join(checkpointer._arguments)  # other users can read them


async def test_the_process_is_started_without_a_fork(sqlite_store, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 30)
    forks = []
    os.register_at_fork(before=lambda: forks.append(True))
    async with opened(sqlite_store) as (log, _):
        await append(log, *some_entries())
        async with Checkpointer(sqlite_store, log, print) as checkpointer:
            checkpointer.note(30, 10)
            await until(lambda: checkpointer.position)
    assert forks == []
