"""The conditions of operations, counted from the signals on their keys; no clock and no I/O.

A need counts one signal with `note`, and all signals of a batch at once with `take`. Both give the same result.

`Amount` is Kafka's DelayedFetch (``min.bytes`` over several partitions), `Voters` its DelayedProduce (acks from
distinct replicas).

>>> from purgatory_async.durable.documents import CountNeed, SignalView
>>> need = need_for(CountNeed(voters=2), ("commit",))
>>> [need.note(Signal(SignalView("commit", n, voter=name), 1)) for n, name in enumerate(["a", "a", "b"])]
[False, False, True]
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Literal, final

from msgspec import UNSET

from purgatory_async.durable.documents import CountNeed, WaitingFor, WireNeed
from purgatory_async.durable.fold.batch import Part
from purgatory_async.durable.fold.kept_bytes import KeptBytes, size_of_voter
from purgatory_async.durable.fold.signals import Signal
from purgatory_async.journal.schema import NO_SUM

Progress = int | list[str] | None
"""What a need has counted, in JSON: the amount left, the keys missing, or the voters."""


class Need(ABC):
    """A condition on signals; once it holds, it stays true."""

    __slots__ = ()

    @property
    @abstractmethod
    def wire(self) -> WireNeed:
        """The need in JSON."""

    @abstractmethod
    def note(self, signal: Signal) -> bool:
        """Count a signal on one of the keys; return whether the need holds. O(1)."""

    @abstractmethod
    def take(self, part: Part) -> Signal | None:
        """Count signals on the keys in their order, until the need holds; return the one with which it does.

        None if it does not. O(log signals) for an amount, O(keys) or O(distinct voters) for others.
        """

    @property
    def needed(self) -> int:
        """The sum of amounts it needs, for the journal; `NO_SUM` for other needs."""
        return NO_SUM

    @abstractmethod
    def waiting_for(self) -> WaitingFor:
        """Return what is missing."""

    @property
    @abstractmethod
    def progress(self) -> Progress:
        """What it has counted; equal for equal signals, whatever the order of a set."""

    @abstractmethod
    def resume(self, progress: Progress) -> None:
        """Continue a new need from the progress of an equal one."""


@final
class AnyKey(Need):
    """Any key signalled after submission."""

    __slots__ = ("_keys",)
    wire: Literal["any"] = "any"  # pyright: ignore[reportIncompatibleMethodOverride]
    needed = 1  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys

    def note(self, signal: Signal) -> bool:  # noqa: ARG002 - any will do
        """One signal is enough."""
        return True

    def take(self, part: Part) -> Signal:
        """The first one is enough."""
        return part.signals[0]

    def waiting_for(self) -> WaitingFor:
        """Return all keys."""
        return WaitingFor(any=self._keys)

    @property
    def progress(self) -> None:
        """Nothing: the first signal ends it."""

    def resume(self, progress: Progress) -> None:
        """Change nothing."""


@final
class EveryKey(Need):
    """Every key signalled after submission."""

    __slots__ = ("_missing",)
    wire: Literal["all"] = "all"  # pyright: ignore[reportIncompatibleMethodOverride]

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._missing = dict.fromkeys(keys)

    def note(self, signal: Signal) -> bool:
        """Remove the signal's key from the missing ones."""
        self._missing.pop(signal.view.key, None)
        return not self._missing

    def take(self, part: Part) -> Signal | None:
        """Remove the keys of the signals from the missing ones."""
        found = [part.keys[key] for key in self._missing if key in part.keys]
        if len(found) == len(self._missing):
            self._missing.clear()
            return max(found, key=lambda signal: signal.view.index)
        for signal in found:
            del self._missing[signal.view.key]
        return None

    def waiting_for(self) -> WaitingFor:
        """Return the keys without a signal."""
        return WaitingFor(all=tuple(self._missing))

    @property
    def progress(self) -> list[str]:
        """The missing keys, in the order of the operation's."""
        return list(self._missing)

    def resume(self, progress: Progress) -> None:
        """Wait for these keys only."""
        assert isinstance(progress, list), f"missing keys must be a list, got {progress!r}"
        self._missing = dict.fromkeys(progress)


@final
class Amount(Need):
    """The amounts of the signals, over all keys, reach a sum."""

    __slots__ = ("_amount", "_left", "wire")

    def __init__(self, amount: int) -> None:
        self.wire: CountNeed = CountNeed(amount=amount)  # pyright: ignore[reportIncompatibleMethodOverride]
        self._amount = self._left = amount

    @property
    def needed(self) -> int:
        """The amount."""
        return self._amount

    def note(self, signal: Signal) -> bool:
        """Add the signal's amount."""
        self._left -= signal.amount
        return self._left <= 0

    def take(self, part: Part) -> Signal | None:
        """Add the amounts of the signals."""
        sums = part.sums
        if sums[-1] < self._left:
            self._left -= sums[-1]
            return None
        end = bisect_left(sums, self._left)
        self._left -= sums[end]
        return part.signals[end]

    def waiting_for(self) -> WaitingFor:
        """Return the amount left."""
        return WaitingFor(amount=self._left)

    @property
    def progress(self) -> int:
        """The amount left."""
        return self._left

    def resume(self, progress: Progress) -> None:
        """Wait for this amount only."""
        assert isinstance(progress, int), f"the amount left must be an integer, got {progress!r}"
        self._left = progress


@final
class Voters(Need):
    """A number of distinct voters signalled; a signal without a voter does not count.

    Args:
        voters: How many.
        kept: Where the bytes of the voters' names are counted; None for nowhere.
        owner: Whose they are.
    """

    __slots__ = ("_kept", "_owner", "_voters", "_wanted", "wire")

    def __init__(self, voters: int, kept: KeptBytes | None = None, owner: str | None = None) -> None:
        self.wire: CountNeed = CountNeed(voters=voters)  # pyright: ignore[reportIncompatibleMethodOverride]
        self._wanted = voters
        self._voters: set[str] = set()
        self._kept = kept
        self._owner = owner

    def note(self, signal: Signal) -> bool:
        """Count the signal's voter, once."""
        voter = signal.view.voter
        if voter is not UNSET and voter not in self._voters:
            self._add((voter,))
        return len(self._voters) >= self._wanted

    def take(self, part: Part) -> Signal | None:
        """Count the voters of the signals."""
        voters, missing = self._voters, self._wanted - len(self._voters)
        new = dict(islice((each for each in part.voters.items() if each[0] not in voters), missing))
        self._add(new)
        return new.popitem()[1] if len(new) == missing else None

    def growth(self, sizes: Mapping[str, int]) -> int:
        """Return how many bytes some voters would add at most, given what each counts. O(voters)."""
        return sum(size for voter, size in sizes.items() if voter not in self._voters)

    def clear(self) -> None:
        """Forget the voters of an operation that has ended. O(voters)."""
        self._weigh(self._voters, -1)
        self._voters = set()

    def _add(self, new: Collection[str]) -> None:
        self._voters.update(new)
        self._weigh(new, 1)

    def _weigh(self, voters: Collection[str], sign: int) -> None:
        if self._kept is not None and voters:
            self._kept.pin(sign * sum(map(size_of_voter, voters)), self._owner)

    def waiting_for(self) -> WaitingFor:
        """Return the number of voters left."""
        return WaitingFor(voters=self._wanted - len(self._voters))

    @property
    def progress(self) -> list[str]:
        """The voters so far, sorted."""
        return sorted(self._voters)

    def resume(self, progress: Progress) -> None:
        """Count these voters."""
        assert isinstance(progress, list), f"voters must be a list, got {progress!r}"
        self._add(progress)


def need_for(
    wire: WireNeed, keys: tuple[str, ...], kept: KeptBytes | None = None, owner: str | None = None
) -> Need:
    """Make a new need for distinct keys from its JSON form; ``kept`` and ``owner`` as of `Voters`."""
    if wire == "any":
        return AnyKey(keys)
    if wire == "all":
        return EveryKey(keys)
    if isinstance(wire.amount, int):
        return Amount(wire.amount)
    assert isinstance(wire.voters, int), f"a need has neither amount nor voters: {wire!r}"
    return Voters(wire.voters, kept, owner)
