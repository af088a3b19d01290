"""Clients of other languages as tests run them: each a process that is killed if it outlives its test."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bench.kafka.programs import PROGRAMS, command, environment, missing

__all__ = ["CLIENTS_OF_OTHER_LANGUAGES", "installed", "said", "started"]

PATIENCE_S = 60
CLIENTS_OF_OTHER_LANGUAGES = pytest.mark.parametrize("client", PROGRAMS)


def installed(client: str) -> str:
    """Return the client, or skip the test with what it lacks."""
    if (lacking := missing(client)) is not None:
        pytest.skip(lacking)
    return client


@contextlib.asynccontextmanager
async def started(*line: str, given: int | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process and kill it at the end, if it still runs."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*line, stdin=given, stdout=pipe, env=environment())
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(client: str, *arguments: str, given: bytes = b"") -> list[dict[str, Any]]:
    """Run a program to its end. Returns what it printed."""
    line = await asyncio.to_thread(command, installed(client))  # it may have to be compiled
    async with started(*line, *arguments, given=asyncio.subprocess.PIPE) as process:
        printed, _ = await asyncio.wait_for(process.communicate(given), PATIENCE_S)
    assert process.returncode == 0, f"{client} {arguments[0]} ended with {process.returncode}"
    return [json.loads(line) for line in printed.splitlines()]
