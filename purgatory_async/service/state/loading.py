"""The fold of a log's newest checkpoint."""

from collections.abc import Callable

from purgatory_async.cluster import Log, LogDamaged
from purgatory_async.cluster.retention import MARK
from purgatory_async.service.state.fold.fold import Fold, FoldError
from purgatory_async.service.state.fold.restoring import restored

__all__ = ["loaded"]


async def loaded(log: Log, make: Callable[[int], Fold] = Fold) -> Fold:
    """Return the state of the newest checkpoint; an empty one if there is none. O(n log n), without a pause.

    A `Cluster` without a service trims its signals and leaves a mark, after which the state is empty.

    Args:
        log: An open log.
        make: Makes an empty fold, given its log time in microseconds.

    Raises:
        LogDamaged: The checkpoint is damaged, or of a level above this program's.
        LogUnavailable: The engine is away, or the checkpoint was replaced meanwhile: load again.
    """
    checkpoint = await log.load()
    if checkpoint is None:
        return make(0)
    parts = [part async for part in checkpoint.parts]
    if parts == [MARK]:
        fold = make(0)
        fold.begin_after(checkpoint.position)
        return fold
    try:
        return restored(parts, make)
    except FoldError as error:
        raise LogDamaged(
            f"checkpoint {checkpoint.position}: {error}", position=checkpoint.position
        ) from error
