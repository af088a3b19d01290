"""What the workers of a rolling restart do: the rounds of `promises`, orders that a signal ends, and jobs."""

from typing import Any, Final

from tests.soak.promises.rounds import ANNOUNCED, CHOICES, ENDED, KINDS, timeout_of

__all__ = ["ANNOUNCED", "CHOICES", "ENDED", "JOBS", "WORKERS", "asked_by", "name_of", "order_of", "paid_by"]

WORKERS: Final = 4
JOBS: Final = "jobs"
_KINDS: Final = (*KINDS, "pay", "pay", "pay")


def name_of(number: int) -> str:
    """Return the id of a round's operation."""
    return f"{_KINDS[number % len(_KINDS)]}-{number}"


def asked_by(number: int) -> tuple[int, int]:
    """Return the places of the two workers that ask a round."""
    return number % WORKERS, (number + 1) % WORKERS


def paid_by(name: str) -> str:
    """Return the key whose signal ends an order."""
    return f"paid-{name.partition('-')[2]}"


def order_of(name: str) -> dict[str, Any]:
    """Return the arguments of its submission, always the same."""
    order = {"timeout": timeout_of(name), "keep": "2h", "announce": ANNOUNCED, "deliver": ENDED}
    if name.startswith("pay"):
        return {**order, "keys": [paid_by(name)]}
    return {**order, "ask": {"title": f"{name}?", "choices": list(CHOICES), "comment": "required"}}
