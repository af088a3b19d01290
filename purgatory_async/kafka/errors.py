"""What the broker refuses: an error of the protocol, with a sentence for its reader."""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from purgatory_async.errors import RefusedError
from purgatory_async.kafka.absent import Absence

__all__ = ["AbsentError", "ErrorCode", "MalformedRequestError", "ProtocolError", "RecordsRejectedError"]


class ProtocolError(RefusedError):
    """A request, or its part for one partition, that the protocol has an error for.

    Args:
        code: The protocol's error.
        message: What is wrong, with the value and the bound; sent where the response has a field for it.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class RecordsRejectedError(ProtocolError):
    """A batch with records that its topic does not take.

    Args:
        code: The protocol's error.
        message: What is wrong.
        numbers: Which records, by their place in the batch.
    """

    def __init__(self, code: ErrorCode, message: str, numbers: Sequence[int]) -> None:
        super().__init__(code, message)
        self.numbers = numbers


class AbsentError(ProtocolError):
    """A request for what the broker lacks by design.

    Args:
        code: The protocol's error.
        absence: What it lacks.
        message: What shows that it was asked for.
    """

    def __init__(self, code: ErrorCode, absence: Absence, message: str) -> None:
        super().__init__(code, f"{message}: {absence}")
        self.absence = absence


class MalformedRequestError(RefusedError):
    """Bytes that are no request which the broker serves; it closes their connection.

    Args:
        message: What is wrong, with the value and the bound.
        absence: What they ask for, if the broker lacks it by design.
    """

    def __init__(self, message: str, absence: Absence | None = None) -> None:
        super().__init__(message)
        self.absence = absence
