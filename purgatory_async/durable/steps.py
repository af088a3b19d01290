"""Takes the steps of a fold one after the other, and lets the loop turn in the breaks of long ones.

Between its breaks a step is half done, so nothing may read the fold or change it: what comes meanwhile waits.
Operations that it ended have ended for good, because every step is finished.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

PASS_NS: Final = 4_000_000
"""How long steps run in one pass of the loop, up to a few breaks more."""

BREAKS: Final = 8
"""How many breaks pass before the time is read, which takes up to 10 us."""

T = TypeVar("T")
Work = Iterator[object]
"""A step and what follows from it; between its breaks it yields anything."""


class Steps:
    """The steps under way.

    Args:
        time_ns: The present, in nanoseconds.
        failed: Called with the error of a step that went on in a later pass; the other steps are dropped.
    """

    def __init__(self, time_ns: Callable[[], int], failed: Callable[[Exception], object]) -> None:
        self._time_ns: Final = time_ns
        self._failed: Final = failed
        self._works: Final[deque[Work]] = deque()
        self._idle: Final = asyncio.Event()
        self._idle.set()
        self._began_ns: int | None = None  # when the first step of this pass was taken

    def __repr__(self) -> str:
        return f"<Steps under_way={len(self._works)}>"

    @property
    def busy(self) -> bool:
        """Whether a step is under way, or waits for its turn."""
        return bool(self._works)

    def take(self, step: Iterator[T | None], end: Callable[[T], object]) -> None:
        """Take a step: at once if none is under way and this pass has time; what is left after that time runs later.

        Args:
            step: Yields None for each break, and its result in the end.
            end: Called with the result.
        """
        if self._spent():
            self._add(_rest(step, end), at_once=False)
            return
        for given in step:
            if given is None:
                self._add(_rest(step, end))
                return
            end(given)

    def add(self, work: Work) -> None:
        """Do work for the time of a pass, and the rest in later ones; none may be under way."""
        assert not self._works, f"{self!r} must be idle"
        self._add(work)

    async def idle(self) -> None:
        """Return once no step is under way. O(1) if none is."""
        while self._works:
            await self._idle.wait()

    def finish(self) -> None:
        """Do all that is left now, however long that takes."""
        while self._works:
            for _ in self._works[0]:
                pass
            self._works.popleft()
        self._idle.set()

    def drop(self) -> None:
        """Drop all that is left: its state is given up. Idempotent."""
        self._works.clear()
        self._idle.set()

    def _spent(self) -> bool:
        """Whether a further step must wait: one is under way, or this pass has had its time. O(1)."""
        if self._works:
            return True
        now_ns = self._time_ns()
        if self._began_ns is None:
            self._began_ns = now_ns
            asyncio.get_running_loop().call_soon(self._turn)
        return now_ns - self._began_ns >= PASS_NS

    def _add(self, work: Work, *, at_once: bool = True) -> None:
        self._works.append(work)
        if len(self._works) == 1:
            self._idle.clear()
            if at_once:
                self._go_on()
            else:
                asyncio.get_running_loop().call_soon(self._go_on)

    def _turn(self) -> None:
        self._began_ns = None

    def _go_on(self) -> None:
        """Do work for the time of a pass."""
        until_ns = self._time_ns() + PASS_NS
        try:
            while self._works:
                for nth, _ in enumerate(self._works[0], 1):
                    if nth % BREAKS == 0 and self._time_ns() >= until_ns:
                        asyncio.get_running_loop().call_soon(self._go_on)
                        return
                self._works.popleft()
        except Exception as error:  # noqa: BLE001 - what the step is of cannot go on
            self.drop()
            self._failed(error)
        self._idle.set()


def _rest(step: Iterator[T | None], end: Callable[[T], object]) -> Iterator[None]:
    for given in step:
        if given is None:
            yield
        else:
            end(given)
    yield  # others may wait for their turns
