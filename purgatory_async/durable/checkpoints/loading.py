"""The state of a log at its end, and as the parts of a checkpoint."""

from collections.abc import AsyncIterator

from purgatory_async.cluster import Entry, Log, LogDamaged, LogGap, LogRefused
from purgatory_async.cluster.connection import following
from purgatory_async.cluster.log import MAX_ENTRY_BYTES
from purgatory_async.durable.fold.checkpoint import parts
from purgatory_async.durable.fold.codec import EntryError, decode
from purgatory_async.durable.fold.fold import Applied, Fold, FoldError, LevelError
from purgatory_async.durable.loading import check_reach, restored

__all__ = ["apply", "fold_until", "folded", "pieces", "restored"]


async def pieces(fold: Fold) -> AsyncIterator[bytes]:
    """Return the state as a log takes it: parts of about 1 MiB, those with a larger line cut. O(n).

    The fold must not change meanwhile.
    """
    for part in parts(fold):
        for start in range(0, len(part), MAX_ENTRY_BYTES):
            yield part[start : start + MAX_ENTRY_BYTES]


def apply(fold: Fold, entry: Entry) -> Applied:
    """Apply the next entry of a log. Returns as `Fold.apply`.

    Raises:
        LogDamaged: It is no entry, or not the next; nothing has changed.
        LogRefused: It sets a level that needs a newer program.
    """
    try:
        return fold.apply(entry.position, entry.at_us, decode(entry.data))
    except LevelError as error:
        raise LogRefused(f"entry {entry.position}: {error}") from error
    except (EntryError, FoldError) as error:
        raise LogDamaged(f"entry {entry.position} is damaged: {error}", position=entry.position) from error


async def fold_until(log: Log, fold: Fold, position: int) -> None:
    """Apply the entries after the fold's position, up to another at least. O(what happens).

    Raises:
        LogGap: The log no longer has them, or has lost some that were applied.
        LogDamaged, LogRefused: As `apply`.
    """
    if fold.position >= position:
        return
    async with following(log, fold.position) as reads:
        async for entries in reads:
            for entry in entries:
                apply(fold, entry)
            if fold.position >= position:
                return


async def folded(log: Log, *, strict: bool = False) -> Fold:
    """Return the state at the end of a log. O(n log n + what happens after the checkpoint).

    Args:
        log: An open log.
        strict: As for `restored`.

    Close it in the end, also one from `restored`.

    Raises:
        LogDamaged: The log or its checkpoint is damaged, or the log does not reach back to it.
        LogRefused: As `restored`.
        LogUnavailable: The engine is away.
    """
    while True:
        fold = (await restored(log, strict=strict)).fold
        try:
            await _fold_to_the_end(log, fold)
        except LogGap as gap:
            fold.close()
            await _require_reaching_back(log, gap)
        except BaseException:
            fold.close()
            raise
        else:
            return fold


async def _fold_to_the_end(log: Log, fold: Fold) -> None:
    begin, end = fold.position, await log.end()
    if begin > end:
        raise LogDamaged(f"the log must reach its checkpoint at {begin}, ends at {end}", position=begin)
    await fold_until(log, fold, end)


async def _require_reaching_back(log: Log, gap: LogGap) -> None:
    """Raise `LogDamaged` unless the log begins at its newest checkpoint or before, so that it can be loaded again."""
    checkpoint = await log.load()
    check_reach(0 if checkpoint is None else checkpoint.position, gap.oldest)
