"""A copy that is killed before any of its steps leaves an empty store, or the whole one."""

import asyncio
import os
import signal
import sqlite3

import pytest

from purgatory_async.cluster.end_mark import EndMarkFile
from purgatory_async.durable.checkpoints import copying
from purgatory_async.durable.checkpoints.copying import copy
from purgatory_async.durable.urls import parsed
from tests.cluster.servers import by_engine
from tests.durable.checkpoints.conftest import url_on
from tests.durable.checkpoints.copies import digest_of, everything, fill, is_empty, silent
from tests.forks import exit_code, fork, needs_fork


class Deadly:
    """Kills this process before one of the things that it does to a store.

    Args:
        step: Which, from 1.
    """

    def __init__(self, step):
        self.left = step

    def take(self, *_):
        """Do one of them."""
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def arm(self, store):
        """Count each statement, call or write of the mark for a store; no other store may be on its engine."""
        if store.engine == "sqlite":
            connect, write = sqlite3.connect, EndMarkFile.write

            def traced(path, **options):
                connection = connect(path, **options)
                if "/to.db" in path:
                    connection.set_trace_callback(self.take)
                return connection

            def counted(mark, *position, **options):
                self.take()
                write(mark, *position, **options)

            sqlite3.connect, EndMarkFile.write = traced, counted
        elif store.engine == "postgresql":
            from purgatory_async.cluster.postgres import _PostgresEngine  # noqa: PLC0415 - needs an extra

            self._count_calls(_PostgresEngine, "_row")
        else:
            from purgatory_async.cluster.redis import _RedisEngine  # noqa: PLC0415 - needs an extra

            self._count_calls(_RedisEngine, "_do")

    def _count_calls(self, owner, name):
        call = getattr(owner, name)

        def counted(*arguments):
            self.take()
            return call(*arguments)

        setattr(owner, name, counted)


def copied_until_killed(source, target, step):
    """Copy in a child that dies before a step; return its exit code."""
    child = fork()
    if not child:
        try:
            Deadly(step).arm(target)
            asyncio.run(copy(source, target, silent))
            os._exit(0)
        finally:
            os._exit(1)
    return exit_code(child)


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("engine", by_engine(["sqlite", "postgres", "redis"]))
def test_a_kill_at_any_step_leaves_all_or_nothing(engine, tmp_path, monkeypatch):
    found = {"nothing": 0, "all": 0}
    monkeypatch.setattr(copying, "GONE_AFTER_S", 0)
    source = parsed(f"sqlite:///{tmp_path}/from.db")
    asyncio.run(fill(source, *everything()))
    step = 0
    killed = -signal.SIGKILL
    while killed:
        step += 1
        folder = tmp_path / str(step)
        folder.mkdir()
        target = parsed(url_on(engine, folder).replace("log.db", "to.db"))
        killed = copied_until_killed(source, target, step)
        assert killed in {0, -signal.SIGKILL}
        left = "nothing" if asyncio.run(is_empty(target)) else "all"
        found[left] += 1
        if left == "nothing":
            asyncio.run(copy(source, target, silent))
        assert asyncio.run(digest_of(target)) == asyncio.run(digest_of(source))
    assert found["nothing"] > 5
    assert found["all"]
