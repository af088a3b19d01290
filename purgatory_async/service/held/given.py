"""What a step of a request gives: its answer, or what comes before it."""

from enum import Enum
from typing import Final, Literal, TypeAlias

from purgatory_async.durable.later import Later
from purgatory_async.service.http.answer import Answer


class _Held(Enum):
    HELD = "held"


HELD: Final = _Held.HELD
"""What keeps the request waiting goes on with it, by `Server.serve`."""


class Streamed(int):
    """An answer that was sent piece by piece: how many bytes its body had."""


Given: TypeAlias = Later[Answer | Streamed | Literal[_Held.HELD]]
"""An answer, `HELD`, or a coroutine that gives one of these in a task of its own."""
