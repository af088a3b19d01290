"""What the broker refuses: an error of the protocol, with a sentence for its reader."""

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode", "MalformedRequestError", "ProtocolError"]


class ProtocolError(Exception):
    """A request, or its part for one partition, that the protocol has an error for.

    Args:
        code: The protocol's error.
        message: What is wrong, with the value and the bound; sent where the response has a field for it.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class MalformedRequestError(Exception):
    """Bytes that are no request which the broker serves; it closes their connection."""
