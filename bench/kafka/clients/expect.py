"""What checks send, and how they judge what comes back."""

from typing import Final

__all__ = ["CODECS", "DELETED", "PATIENCE_S", "PREPARE_S", "VALUES", "expect"]

PATIENCE_S: Final = 20.0
PREPARE_S: Final = 2.0  # for a topic to be created, where it may be made when it is asked for
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
DELETED: Final = 100  # records that a check deletes
VALUES: Final = [f"value {number} {'x' * 50}".encode() for number in range(200)]


def expect(name: str, got: object, wanted: object) -> None:
    """Compare.

    Raises:
        AssertionError: They differ.
    """
    if got != wanted:
        raise AssertionError(f"{name} must be {str(wanted)[:80]}, got {str(got)[:80]}")
