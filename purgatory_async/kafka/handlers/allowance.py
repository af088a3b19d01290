"""What one request may create: so much that it does not stop the loop for long."""

from typing import Final

from purgatory_async.kafka.errors import ErrorCode, ProtocolError

__all__ = ["MAX_NEW", "Allowance"]

MAX_NEW: Final = 2_000
"""Topics and partitions together; as many take some 30 ms."""


class Allowance:
    """What is left of `MAX_NEW` for a request."""

    def __init__(self) -> None:
        self._left = MAX_NEW

    def use(self, partitions: int, code: ErrorCode) -> None:
        """Count a topic with so many partitions.

        Args:
            partitions: Of the topic.
            code: Of the refusal.

        Raises:
            ProtocolError: That is more than the request has left.
        """
        if 1 + partitions > self._left:
            raise ProtocolError(
                code,
                f"a request must create at most {MAX_NEW} topics and partitions, got {partitions} partitions "
                f"with {self._left} left; send several requests",
            )
        self._left -= 1 + max(0, partitions)
