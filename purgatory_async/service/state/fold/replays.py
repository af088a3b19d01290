"""The answers to signals and items with an Idempotency-Key, for the retention time."""

from collections import OrderedDict
from typing import Final

from msgspec import Struct, UnsetType

from purgatory_async.service.state.fold.results import Put, PutSome, Signalled
from purgatory_async.service.state.fold.shared import FOREVER, Shared


class Replay(Struct):
    """An answer, the digest of its request, and its log time."""

    digest: str
    answer: Signalled | Put | PutSome
    at_us: int


class Replays:
    """The answers by their Idempotency-Key, the oldest first."""

    def __init__(self, shared: Shared) -> None:
        self.known: Final[OrderedDict[str, Replay]] = OrderedDict()
        self._shared: Final = shared

    def keep(self, idem: str | UnsetType, digest: str, answer: Signalled | Put | PutSome) -> None:
        """Keep an answer, if its entry has a key. O(1)."""
        if isinstance(idem, str):
            now_us = self._shared.clock.now_us
            self.known[idem] = Replay(digest, answer, now_us)

    def forget(self, whole_us: int) -> int:
        """Forget the answers that were kept long enough; as `Operations.forget`. O(forgotten)."""
        retention = self._shared.limits.retention
        while self.known:
            idem, replay = next(iter(self.known.items()))
            if replay.at_us + retention > whole_us:
                return replay.at_us + retention
            del self.known[idem]
        return FOREVER
