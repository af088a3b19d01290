"""Workers in real processes over one SQLite file, on every loop; and the package where msgspec is missing."""

import asyncio

import pytest

from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, SqliteLog
from tests.processes import ended, python

COUNT = 100


def start(path, name):
    return python("-m", "tests.cluster.signalling", path, name, COUNT, stderr=None)


async def drive(path):
    """Let the workers begin, wait for all that they signal, and end them; returns what was applied here."""
    seen = []
    async with Purgatory() as purgatory:
        apply = lambda signalled: seen.append((signalled.key, signalled.position))  # noqa: E731
        async with Cluster(purgatory, SqliteLog(path), apply=apply) as cluster:
            await cluster.signal("go")
            ends = {f"{name}-{COUNT - 1}" for name in "ab"}
            await purgatory.wait(*ends, until=lambda: ends <= {key for key, _ in seen}, timeout=120)
            await cluster.signal("last")
    return seen


@pytest.mark.slow
@pytest.mark.asyncio
async def test_three_processes_apply_the_same_signals_in_order(tmp_path):
    path = tmp_path / "log.db"
    with start(path, "a") as one, start(path, "b") as other:
        for child in (one, other):
            assert await asyncio.to_thread(child.stdout.readline) == "ready\n"
        seen = await drive(path)
        outputs = [(await asyncio.to_thread(child.communicate))[0].splitlines() for child in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0]
    for name, output in zip("ab", outputs, strict=True):
        applied = [tuple(line.split()) for line in output if not line.startswith("done")]
        assert applied == [(key, str(position)) for key, position in seen]
        returned = [line.removeprefix("done ") for line in output if line.startswith("done")]
        assert [line.split()[0] for line in returned] == [f"{name}-{number}" for number in range(COUNT)]
        assert {tuple(line.split()) for line in returned} <= set(applied)
    keys = [key for key, _ in seen]
    assert len(keys) == len(set(keys)) == 2 * COUNT + 2


WITHOUT_MSGSPEC = """
import sys
sys.modules["msgspec"] = None
import purgatory_async.cluster
from purgatory_async.cluster import MemoryLog, SqliteLog
for name in ("Cluster", "Signalled"):
    try:
        getattr(purgatory_async.cluster, name)
    except ModuleNotFoundError as error:
        print(error)
assert not hasattr(purgatory_async.cluster, "nothing")
"""


@pytest.mark.slow
def test_without_msgspec_only_cluster_names_the_extra():
    code, output, errors = ended("-c", WITHOUT_MSGSPEC, start=python)
    assert code == 0, errors
    assert output.splitlines() == [
        f'{name} needs msgspec, which is not installed; run: pip install "purgatory-async[cluster]"'
        for name in ("Cluster", "Signalled")
    ]
