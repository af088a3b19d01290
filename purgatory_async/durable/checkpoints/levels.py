"""The level of a log: the version of its entries, which every worker must know before it is raised."""

from contextlib import closing

from purgatory_async.cluster import Log
from purgatory_async.durable.checkpoints.loading import fold_until, folded
from purgatory_async.durable.fold import fold as folding
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import SetLevel

__all__ = ["raise_level"]


async def raise_level(log: Log, level: int) -> int:
    """Raise the level of an open log, and return the level before. Does nothing if it has that level.

    Replace all workers first: one that does not know the level exits. Safe to repeat after an error.

    Raises:
        ValueError: The level is below the log's, or above what this program knows.
        LogError: As `folded`, or the entry may be in the log or not.
    """
    if level > folding.LEVEL:
        raise ValueError(
            f"level must be at most {folding.LEVEL} for this program, got {level}; upgrade it first"
        )
    with closing(await folded(log)) as fold:
        before = fold.level
        if level < before:
            raise ValueError(
                f"level must be at least the log's, {before}, got {level}: its entries stay as they are"
            )
        if level > before:
            appended = await log.append([encode(SetLevel(level=level))])
            await fold_until(log, fold, appended.first)
    return before
