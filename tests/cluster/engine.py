"""What a test may do to the engine of a log."""

from collections.abc import Callable

from purgatory_async.cluster import Log


class Engine:
    """One store, empty at first; for an engine without connections, `cut` has nothing to do."""

    def __init__(self, make_log: Callable[[], Log]) -> None:
        self.log = make_log
        """Make another log on the store, not yet open."""

    async def cut(self) -> None:
        """Break every connection to the store; a call under way may then raise `LogUnavailable`."""

    async def stored_parts(self) -> int:
        """Count the parts of all checkpoints that are stored, the invisible ones too."""
        raise NotImplementedError
