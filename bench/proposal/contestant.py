"""The harness's interface to a contestant."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

__all__ = ["Contestant", "Tally"]


class Tally:
    """Counts what becomes of requests; plain attributes, because its cost is in every contestant's figures.

    Attributes:
        submitted: How many were taken.
        ended: How many of them completed or expired.
        lateness_ns: For each that expired: from its deadline to the callback or wakeup; negative if early.
    """

    __slots__ = ("ended", "lateness_ns", "submitted")

    def __init__(self) -> None:
        self.submitted = 0
        self.ended = 0
        self.lateness_ns: list[int] = []


class Contestant(ABC):
    """Takes requests, and gets a call when each is answered.

    Attributes:
        submit: Takes the request of that number; returns what ``answer`` needs.
        answer: Answers it.
    """

    submit: Callable[[int], Any]
    answer: Callable[[Any], object]

    @property
    @abstractmethod
    def entries(self) -> int:
        """How many entries it keeps for requests, ended or not."""

    @abstractmethod
    def close(self) -> None:
        """Arm nothing any more."""
