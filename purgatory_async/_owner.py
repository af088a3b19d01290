"""Whose loop it is: what a purgatory or timer compares the calling thread with, see `_runner`."""

from typing import Final, Protocol

__all__ = ["CHECKING", "Nobody", "Runner"]


class Runner(Protocol):
    """Who runs a loop: the loop itself, as asyncio writes it, or a stand-in."""

    @property
    def _thread_id(self) -> int | None:
        """The thread that runs the loop at the moment."""


class Nobody:
    """A stand-in for the loop of a purgatory that may not be used just so: no thread is its, every verb looks closer.

    Args:
        why: What is the matter.
    """

    __slots__ = ("_why",)

    _thread_id: int | None = None

    def __init__(self, why: str) -> None:
        self._why = why

    def __repr__(self) -> str:
        return f"<{self._why}>"


CHECKING: Final = Nobody("in the middle of a try_complete")
