"""The answers to signals and items with an Idempotency-Key, for the retention time."""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from purgatory_async.service.state.fold.entries import PutItem, PutItems, SignalKey, SignalKeys
from purgatory_async.service.state.fold.results import Put, PutSome, Signalled
from purgatory_async.service.state.fold.shared import FOREVER, Shared

Repeatable = SignalKey | SignalKeys | PutItem | PutItems


class Replay(Struct):
    """An answer, the digest of its request, and its log time."""

    digest: str
    answer: Signalled | Put | PutSome
    at_us: int


class Replays:
    """The answers by owner and Idempotency-Key, the oldest first: each owner has a space of its own."""

    def __init__(self, shared: Shared) -> None:
        self.known: Final[OrderedDict[tuple[str | None, str], Replay]] = OrderedDict()
        self._shared: Final = shared

    def keep(self, entry: Repeatable, answer: Signalled | Put | PutSome) -> None:
        """Keep the answer to an entry, if it has a key. O(1)."""
        if isinstance(entry.idem, str):
            self.known[entry.owner, entry.idem] = Replay(entry.digest, answer, self._shared.clock.now_us)

    def forget(self, whole_us: int) -> int:
        """Forget the answers that were kept long enough; as `Operations.forget`. O(forgotten)."""
        retention = self._shared.limits.retention
        while self.known:
            idem, replay = next(iter(self.known.items()))
            if replay.at_us + retention > whole_us:
                return replay.at_us + retention
            del self.known[idem]
        return FOREVER
