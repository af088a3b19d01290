"""What one request may create: names that do not collide, so many that they do not stop the loop for long."""

from typing import Final

from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.topics import check_apart, unified

__all__ = ["MAX_NEW", "Allowance"]

MAX_NEW: Final = 2_000
"""Topics and partitions together; as many take some 30 ms."""


class Allowance:
    """What is left of `MAX_NEW` for a request, and the names that it has claimed."""

    def __init__(self) -> None:
        self._left = MAX_NEW
        self._claimed: dict[str, str] = {}

    def claim(self, name: str) -> None:
        """Claim a name for a new topic, which may not be created yet. O(1).

        Raises:
            ProtocolError: invalid_topic_exception, as the request has claimed a similar one.
        """
        check_apart(name, self._claimed.setdefault(unified(name), name))

    def use(self, partitions: int, code: ErrorCode) -> None:
        """Count a topic with so many partitions.

        Args:
            partitions: The partitions of the topic.
            code: The code of the refusal.

        Raises:
            ProtocolError: The request has not so much left.
        """
        if 1 + partitions > self._left:
            raise ProtocolError(
                code,
                f"a request must create at most {MAX_NEW} topics and partitions, got {partitions} partitions "
                f"with {self._left} left; send several requests",
            )
        self._left -= 1 + max(0, partitions)
