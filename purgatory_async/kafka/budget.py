"""Memory with a bound, shared by the logs of a broker, or by its groups."""

from typing import Final

from purgatory_async.kafka.errors import ErrorCode, ProtocolError

__all__ = ["Budget"]


class Budget:
    """Counts bytes up to a bound.

    Args:
        max_bytes: The bound.
        what: What has the bytes, for the message.
        advice: How to free memory, for the message.
        full: The error of a refusal.
    """

    __slots__ = ("_advice", "_full", "_what", "max_bytes", "used_bytes")

    def __init__(
        self,
        max_bytes: int,
        what: str = "records",
        advice: str = "delete records or topics, or raise max_bytes",
        full: ErrorCode = ErrorCode.kafka_storage_error,  # as if a disk were full
    ) -> None:
        self.max_bytes: Final = max_bytes
        self.used_bytes = 0
        self._what: Final = what
        self._advice: Final = advice
        self._full: Final = full

    def take(self, size_bytes: int, error: ErrorCode | None = None) -> None:
        """Take memory, or give it back if negative. O(1).

        Raises:
            ProtocolError: With ``error`` if it is given; nothing is taken.
        """
        if size_bytes > 0 and self.used_bytes + size_bytes > self.max_bytes:
            raise ProtocolError(
                error or self._full,
                f"{self._what} must have at most {self.max_bytes} bytes, got {size_bytes} more than "
                f"{self.used_bytes}; {self._advice}",
            )
        self.used_bytes += size_bytes
