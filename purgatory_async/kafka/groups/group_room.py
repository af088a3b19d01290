"""The memory that all groups of a broker share: what clients send of members, assignments and committed offsets."""

from typing import Final

from purgatory_async.kafka.errors import ErrorCode, ProtocolError

__all__ = ["MEMBER_BYTES", "OFFSET_BYTES", "GroupRoom"]

MEMBER_BYTES: Final = (
    1024  # of a member or a group, beside the texts that it brings; measured with tracemalloc
)
OFFSET_BYTES: Final = 256  # likewise of a committed offset


class GroupRoom:
    """Counts bytes up to a bound.

    Args:
        max_bytes: Of all groups.
    """

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes: Final = max_bytes
        self.used_bytes = 0

    def take(self, size_bytes: int, error: ErrorCode = ErrorCode.group_max_size_reached) -> None:
        """Take memory, or give it back if negative. O(1).

        Raises:
            ProtocolError: With ``error``; nothing is taken.
        """
        if size_bytes > 0 and self.used_bytes + size_bytes > self.max_bytes:
            raise ProtocolError(
                error,
                f"groups must hold at most {self.max_bytes} bytes, got {size_bytes} more than {self.used_bytes}; "
                "let consumers leave, or raise max_group_bytes",
            )
        self.used_bytes += size_bytes
