"""The state of a log's newest checkpoint, and its epoch."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from purgatory_async import Timer
from purgatory_async.cluster import Checkpoint, Log, LogDamaged, LogRefused, LogUnavailable
from purgatory_async.cluster.connection import Backoff
from purgatory_async.cluster.retention import MARK
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import SetLevel
from purgatory_async.durable.fold.fold import LEVEL, Fold, FoldError, LevelError
from purgatory_async.durable.fold.restoring import Restoring, empty_after

MakeFold = Callable[[int], Fold]

_LOGGER: Final = logging.getLogger(__name__)
_FOOT: Final = b'{"k":"foot"'  # how the last line of a checkpoint's part begins


class Restored(NamedTuple):
    """A state, and the epoch of its position; None for the empty state at 0, which every epoch begins with."""

    fold: Fold
    epoch: str | None


async def restored(log: Log, make: MakeFold = Fold, *, strict: bool = False) -> Restored:
    """Return the state of a log's newest checkpoint; the empty one if there is none. O(n log n).

    If it is damaged, a warning says so, and the one before is taken if the log reaches back to it. Other tasks run
    meanwhile. A checkpoint of a `Cluster` holds no state: the fold begins empty after it.

    Args:
        log: An open log.
        make: Makes an empty fold, given its log time in microseconds.
        strict: Do not take the one before.

    Raises:
        LogDamaged: The checkpoint is not what was saved.
        LogRefused: It is of a level that needs a newer program.
        LogUnavailable: The engine is away, or a newer checkpoint has replaced it: load again.
    """
    checkpoint = await log.load()
    if checkpoint is None:
        return Restored(make(0), None)
    try:
        return Restored(await _state(checkpoint, make), checkpoint.epoch)
    except LogDamaged as damage:
        before = None if strict else await log.load(below=checkpoint.position)
        if before is None:
            raise
        _LOGGER.warning("%s; going on from the checkpoint before, %d", damage, before.position)
        return Restored(await _state(before, make), before.epoch)


async def _state(checkpoint: Checkpoint, make: MakeFold) -> Fold:
    position, restoring, part = checkpoint.position, Restoring(make), b""
    try:
        async for piece in checkpoint.parts:
            if piece == MARK:
                return empty_after(position, make)
            part += piece
            if part.endswith(b"\n") and part.startswith(_FOOT, part.rfind(b"\n", 0, -1) + 1):
                restoring.add(part)
                part = b""
                await asyncio.sleep(0)
        while (fold := restoring.finish()) is None:  # noqa: ASYNC110 - it waits for nothing, others may run
            await asyncio.sleep(0)
    except LevelError as error:
        raise LogRefused(f"checkpoint {position}: {error}") from error
    except FoldError as error:
        raise LogDamaged(f"checkpoint {position} is damaged: {error}", position=position) from error
    if fold.position != position:
        fold.close()
        raise LogDamaged(
            f"checkpoint {position} must be of its position, got {fold.position}", position=position
        )
    return fold


def check_reach(position: int, oldest: int) -> None:
    """Raise `LogDamaged` unless a log whose oldest entry is at ``oldest`` goes on from a checkpoint at a position."""
    if position + 1 < oldest:
        raise LogDamaged(
            f"the log must reach back to its checkpoint at {position}, begins at {oldest}",
            position=position + 1,
        )


async def loaded(log: Log, make: MakeFold) -> Restored:
    """Do as `restored`, for a worker: a level above its own raises `LevelError`, as an entry of that level does."""
    try:
        return await restored(log, make)
    except LogRefused as error:
        if isinstance(error.__cause__, LevelError):
            raise error.__cause__ from None
        raise


async def begin(log: Log, timer: Timer) -> None:
    """Let a new log begin at the highest level that this program knows, once the engine is there.

    Several workers may do so at once. One that does not know the level exits, so a log that has entries stays as it is.

    Args:
        log: An open log without entries.
        timer: As for `when_there`.
    """
    backoff = Backoff()
    while True:
        try:
            await log.append([encode(SetLevel(level=LEVEL))])
        except LogUnavailable:
            await timer.sleep(backoff.next_delay())
        else:
            return


async def when_there(
    log: Log, make: MakeFold, end: Callable[[], Awaitable[int]], timer: Timer
) -> tuple[Restored, int]:
    """Return what `loaded` does, and the log's end before that, once the engine is there.

    Args:
        log: As for `restored`.
        make: As for `restored`.
        end: Returns the log's end.
        timer: For the time between two attempts.
    """
    backoff = Backoff()
    while True:
        try:
            position = await end()
            return await loaded(log, make), position
        except LogUnavailable:
            await timer.sleep(backoff.next_delay())
