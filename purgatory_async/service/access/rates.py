"""The rate of requests of each owner, in one process or in all workers of a supervisor."""

import fcntl
import math
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from struct import Struct
from typing import IO, Final, Protocol

from purgatory_async.durable.documents import problems
from purgatory_async.durable.grants import Grant

_SECOND_NS: Final = 1_000_000_000
_SLOT: Final = Struct("=8sq")  # the digest of an owner, and its time
_SLOTS: Final = 1024  # more owners than a tokens file can have, so that some are free for new ones
_TRIES: Final = 100  # for the lock: a worker holds it for microseconds, unless it was stopped


class Times(Protocol):
    """When the whole burst of each owner is free again, in nanoseconds."""

    def change(self, owner: str, now_ns: int, decide: Callable[[int], int]) -> None:
        """Replace an owner's time, at least the present, by what ``decide`` returns for it; keep it if that raises."""


class _OwnTimes:
    """The times of this process."""

    def __init__(self) -> None:
        self._free_at_ns: Final[dict[str, int]] = {}

    def change(self, owner: str, now_ns: int, decide: Callable[[int], int]) -> None:
        """Replace a time. O(1)."""
        self._free_at_ns[owner] = decide(max(self._free_at_ns.get(owner, 0), now_ns))


class SharedTimes:
    """The times of all processes that have a file of `shared_file`; they are on one clock.

    A slot whose time has passed is free for another owner, so nothing is ever cleared.

    Args:
        descriptor: The descriptor of the file; stays open.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._slots: Final = mmap.mmap(descriptor, _SLOT.size * _SLOTS)

    def change(self, owner: str, now_ns: int, decide: Callable[[int], int]) -> None:
        """Replace a time, while no other process does. O(1) unless many owners are busy at once."""
        name = blake2b(owner.encode(), digest_size=8).digest()
        with self._locked():
            place, free_at_ns = self._find(name, now_ns)
            _SLOT.pack_into(self._slots, place * _SLOT.size, name, decide(max(free_at_ns, now_ns)))

    def _find(self, name: bytes, now_ns: int) -> tuple[int, int]:
        """Return an owner's slot and time; the first free slot if it has none."""
        first, free = int.from_bytes(name, "big") % _SLOTS, None
        for step in range(_SLOTS):
            place = (first + step) % _SLOTS
            known, at_ns = _SLOT.unpack_from(self._slots, place * _SLOT.size)
            if known == name:
                return place, at_ns
            if free is None and at_ns <= now_ns:
                free = place
            if not at_ns:
                break  # never used, so the owner has no slot behind it
        return first if free is None else free, 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        locked = any(self._lock() for _ in range(_TRIES))
        try:
            yield  # go on without it: one request too many is better than waiting for a stopped worker
        finally:
            if locked:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _lock(self) -> bool:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def shared_file() -> IO[bytes]:
    """Make a file without a name for `SharedTimes` of several processes; it is gone once all have closed it."""
    if sys.platform == "linux":
        file: IO[bytes] = os.fdopen(os.memfd_create("purgatory-rates"), "w+b", buffering=0)
    else:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it is the caller's
    file.truncate(_SLOT.size * _SLOTS)
    return file


class Rates:
    """Counts the requests of each owner that has a rate (the generic cell rate algorithm, ATM Forum TM 4.0).

    One number is kept for each owner: when its whole burst is free again. So new rates count from the next request.

    Args:
        now_ns: A monotonic clock, in nanoseconds.
        times: Where the numbers are kept; None for this process.
    """

    def __init__(self, now_ns: Callable[[], int], times: Times | None = None) -> None:
        self._now_ns: Final = now_ns
        self._times: Final[Times] = _OwnTimes() if times is None else times

    def __repr__(self) -> str:
        return f"<Rates {type(self._times).__name__}>"

    def count(self, grant: Grant) -> None:
        """Count a request. O(1).

        Raises:
            Problem: ``limited``; the request is not counted.
        """
        rate, owner = grant.limits.rate, grant.owner
        if rate is None or owner is None:
            return
        now_ns = self._now_ns()

        def _one_more(free_at_ns: int) -> int:
            full_at_ns = now_ns + rate.burst * rate.every_ns
            if free_at_ns > full_at_ns + _SECOND_NS:  # after a slower rate, which may have been of a day
                free_at_ns = full_at_ns - rate.every_ns
            free_at_ns += rate.every_ns
            late_ns = free_at_ns - full_at_ns
            if late_ns > 0:
                seconds = max(1, math.ceil(late_ns / _SECOND_NS))
                rule = f"rate={rate}, {rate.burst} of them at once"
                raise problems.limited("rate", rate.burst, rate.burst, rule=rule, retry_after=seconds)
            return free_at_ns

        self._times.change(owner, now_ns, _one_more)
