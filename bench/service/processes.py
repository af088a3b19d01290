"""What the system says about a server's processes: their processor time and their memory."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Memory", "children", "cpu_s", "family", "memory_of"]

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12  # the times among the fields after the name in /proc/PID/stat


@dataclass(frozen=True, slots=True)
class Memory:
    """Of some processes together.

    Attributes:
        resident_bytes: Their resident sets; pages that they share count once for each.
        proportional_bytes: The same with shared pages divided among those that share them.
    """

    resident_bytes: int
    proportional_bytes: int


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run, the oldest first."""
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())]


def family(pid: int) -> list[int]:
    """Return a process and its children."""
    return [pid, *children(pid)]


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and its children so far, in seconds, in whole ticks."""
    return sum(map(_ticks, family(pid))) / _TICKS_PER_S


def memory_of(pid: int) -> Memory:
    """Return the memory of a process and its children."""
    sizes = [_rollup(each) for each in family(pid)]
    return Memory(*(1024 * sum(size[name] for size in sizes) for name in ("Rss", "Pss")))


def _ticks(pid: int) -> int:
    # The name, in brackets, may have spaces.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[_USER]) + int(fields[_SYSTEM])


def _rollup(pid: int) -> dict[str, int]:
    """Return the sums over a process's mappings, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
