"""Who may use a purgatory now: its loop's thread, or nothing, for a reason."""

from typing import Final, Protocol


class Runner(Protocol):
    """Identifies the thread that runs a loop: asyncio's loop itself, or a stand-in."""

    @property
    def _thread_id(self) -> int | None:
        """Ident of the thread that runs the loop now, or None."""


class Unowned:
    """Placeholder owner: refuses every verb; ``why`` is its repr, for messages."""

    __slots__ = ("_why",)

    _thread_id: int | None = None

    def __init__(self, why: str) -> None:
        self._why = why

    def __repr__(self) -> str:
        return f"<{self._why}>"


CHECKING: Final = Unowned("in the middle of a try_complete")
