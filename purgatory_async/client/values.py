"""Values that the clients and the commands share: the mark of what is not given, and new ids."""

import secrets
from typing import Any, Final

__all__ = ["UNSET", "new_id"]

UNSET: Final[Any] = object()
"""Not given, which is not None: a signal may carry null."""


def new_id() -> str:
    """Make a unique id for an operation: random, and no option to a command that it is given to."""
    while (drawn := secrets.token_urlsafe(16)).startswith("-"):
        pass
    return drawn
