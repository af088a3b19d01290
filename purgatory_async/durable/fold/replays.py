"""The answers to changes with an Idempotency-Key, for the retention time.

A submission is in its operation, and a take in `takes`.
"""

from typing import Final

from msgspec import Struct

from purgatory_async.durable.fold.entries import (
    AnyAnswer,
    PutItem,
    PutItems,
    RescheduleOperation,
    SignalKey,
    SignalKeys,
    WantItem,
)
from purgatory_async.durable.fold.kept_bytes import text_bytes
from purgatory_async.durable.fold.remembered import Remembered
from purgatory_async.durable.fold.results import Answered, Put, PutSome, Rescheduled, Signalled
from purgatory_async.durable.fold.shared import Shared

Repeatable = SignalKey | SignalKeys | PutItem | PutItems | WantItem | AnyAnswer | RescheduleOperation
Replayed = Signalled | Put | PutSome | Answered | Rescheduled
_ITEM_BYTES: Final = 24
"""What an item's number in an answer counts, and whether it was delivered."""


class Replay(Struct):
    """An answer, and the digest of its request."""

    digest: str
    answer: Replayed


class Replays(Remembered[tuple[str | None, str], Replay]):
    """The answers by owner and Idempotency-Key: each owner has a space of its own."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, _text)

    def keep(self, entry: Repeatable, answer: Replayed) -> None:
        """Keep the answer to an entry, if it has a key. O(1)."""
        if isinstance(entry.idem, str):
            self.add((entry.owner, entry.idem), self._shared.clock.now_us, Replay(entry.digest, answer))


def _text(name: tuple[str | None, str], replay: Replay) -> int:
    answer = replay.answer
    items = len(answer.items) if isinstance(answer, PutSome) else 0
    return text_bytes(name[1]) + len(replay.digest) + items * _ITEM_BYTES
