"""A round: one question. Its name says what happens to it, so that every process knows without being told."""

from typing import Any, Final, NamedTuple

__all__ = [
    "ANNOUNCED",
    "CHOICES",
    "ENDED",
    "MOVED_S",
    "PUBLIC_URL",
    "Port",
    "name_of",
    "order_of",
    "timeout_of",
]

ANNOUNCED, ENDED = "asked", "ended"
PUBLIC_URL: Final = "http://127.0.0.1"
CHOICES: Final = ("yes", "no", "later")
# Answered; answered about when it expires; left alone; rescheduled and left alone.
KINDS: Final = ("ask", "ask", "ask", "ask", "ask", "ask", "ask", "race", "left", "move")
TIMEOUTS_S: Final = {"ask": 3600.0, "pay": 3600.0, "left": 1.5, "move": 2.0}
MOVED_S: Final = 2.5


class Port(NamedTuple):
    """A worker of another process, which has been given its port."""

    port: int


def name_of(number: int) -> str:
    """Return the id of a round's operation."""
    return f"{KINDS[number % len(KINDS)]}-{number}"


def timeout_of(name: str) -> float:
    """Return its timeout, in seconds."""
    kind, _, number = name.partition("-")
    return TIMEOUTS_S.get(kind) or int(number) % 97 / 40


def order_of(name: str) -> dict[str, Any]:
    """Return the body of its submission, always the same."""
    return {
        "timeout": timeout_of(name),
        "keep": "2h",
        "ask": {"title": f"{name}?", "choices": CHOICES, "comment": "required"},
        "announce": ANNOUNCED,
        "deliver": ENDED,
    }
