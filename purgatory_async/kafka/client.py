"""Who sent a request."""

from dataclasses import dataclass

__all__ = ["Client"]


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request.

    Attributes:
        id: As it names itself in the request's header; may be empty.
        host: The address it connects from.
    """

    id: str
    host: str
