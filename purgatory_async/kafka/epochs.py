"""Where each leader epoch of a log begins: Kafka's leader epoch cache.

Two logs of one partition are the same up to the end of an epoch that both have, or up to the end of the shorter one.
"""

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Final

__all__ = ["NO_EPOCH", "Epochs"]

NO_EPOCH: Final = -1

_epoch = itemgetter(0)
_offset = itemgetter(1)


class Epochs:
    """The epochs of one log, in order; one is added at each start of a leader."""

    __slots__ = ("_starts",)

    def __init__(self) -> None:
        self._starts: list[tuple[int, int]] = []  # epoch and its first offset

    @property
    def last(self) -> int:
        """The epoch of the last batch; `NO_EPOCH` of an empty log."""
        return self._starts[-1][0] if self._starts else NO_EPOCH

    def appended(self, epoch: int, offset: int) -> None:
        """Note that a batch of an epoch was appended at an offset. O(1)."""
        if epoch > self.last:
            self._starts.append((epoch, offset))

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int] | None:
        """Find the greatest epoch up to ``epoch``, and the offset after its last record. O(log epochs).

        Args:
            epoch: To look for.
            log_end: The end of the log.

        Returns:
            The epoch found and its end; None if all are greater.
        """
        after = bisect_right(self._starts, epoch, key=_epoch)
        if not after:
            return None
        end = self._starts[after][1] if after < len(self._starts) else log_end
        return self._starts[after - 1][0], end

    def truncate(self, offset: int) -> None:
        """Forget the epochs that begin at ``offset`` or later. O(log epochs)."""
        del self._starts[bisect_left(self._starts, offset, key=_offset) :]
