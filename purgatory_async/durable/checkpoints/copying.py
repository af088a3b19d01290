"""The state of a log, written into an empty one: on another engine, another server, or under another name."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Final

from purgatory_async.cluster import Entry, Log, LogError, SqliteLog
from purgatory_async.cluster.connection import following
from purgatory_async.cluster.log import check_empty
from purgatory_async.cluster.server_log import ServerLog
from purgatory_async.durable.checkpoints.loading import fold_until, folded, pieces
from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import Tick
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.shared import SECOND
from purgatory_async.durable.heartbeat import BEAT_S, DIGEST_S
from purgatory_async.durable.urls import Store, Sync, exists, log_of, opened

GONE_AFTER_S: Final = DIGEST_S + 2 * BEAT_S
"""A worker appends something at least once in this time."""
PROGRESS: Final = 64
"""Parts of about 1 MiB, after which a line says how far a copy is."""


async def copy(source: Store, target: Store, say: Callable[[str], None], *, sync: Sync = "always") -> str:
    """Let an empty log begin with the state at the end of another one; return the state's digest.

    Positions go on, so an index keeps its meaning; the epoch is the new log's own. The target begins in one step:
    interrupted before it, it is as empty as before. The source gets a tick and stays as it is otherwise.

    Args:
        source: Where the log is; no worker may use it.
        target: Where the copy will be; the log is created if it is missing.
        say: Called with a sentence about what is waited for, and how far it is.
        sync: As for `log_of`, for the target.

    Raises:
        LogDamaged: The source is damaged.
        LogRefused: It is of a level that needs a newer program.
        LogError: A worker uses the source, it is empty, the target is not, or an engine is away.
    """
    log_of(target, sync=sync)  # before the wait below
    if await exists(target):
        async with opened(target, sync=sync) as (_, head):
            check_empty(head, target.shown)
    async with opened(source) as (log, head):
        if not head.position:
            raise LogError(f"{source.shown} must have a state to copy, got an empty log")
        with closing(await folded(log, strict=True)) as fold:
            await _settle(log, fold)
            await _require_alone(log, fold, source, say)
            async with opened(target, sync=sync) as (copied, _):
                assert isinstance(copied, SqliteLog | ServerLog), f"{copied!r} must be one of a URL"
                first = Entry(fold.position, fold.at_us, encode(Tick()))
                await copied.begin(first, _parts(log, fold, source, say))
            return digest(fold)


async def _settle(log: Log, fold: Fold) -> None:
    """Append a tick, which brings log time to the present, and what transactions in Postgres have proposed."""
    before = -1
    while fold.position != before + 1:
        before = fold.position
        await fold_until(log, fold, (await log.append([encode(Tick())])).first)


async def _require_alone(log: Log, fold: Fold, source: Store, say: Callable[[str], None]) -> None:
    """Wait until the last worker that has appended anything must have done so again; raise `LogError` if one does."""
    newest_us = max((writer.at_us for writer in fold.writers.known.values()), default=0)
    wait_s = GONE_AFTER_S - (fold.at_us - newest_us) / SECOND
    if wait_s <= 0:
        return
    say(f"a worker used {source.shown} a moment ago: waiting {wait_s:.0f} s to see that none is left")
    try:
        async with asyncio.timeout(wait_s), following(log, fold.position) as reads:
            await anext(reads)
    except TimeoutError:
        return
    raise _in_use(source)


async def _parts(log: Log, fold: Fold, source: Store, say: Callable[[str], None]) -> AsyncIterator[bytes]:
    """Return the state's parts; raise `LogError` at their end if the log has grown meanwhile."""
    number = 0
    async for part in pieces(fold):
        yield part
        number += 1
        if number % PROGRESS == 0:
            say(f"{number} MiB are copied")
    if await log.end() != fold.position:
        raise _in_use(source)


def _in_use(source: Store) -> LogError:
    return LogError(
        f"{source.shown} must have no workers while it is copied, got a new entry: stop them, then try again"
    )
