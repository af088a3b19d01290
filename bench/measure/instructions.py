"""Instructions, counted by valgrind's callgrind: they do not depend on what else the machine does."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["count_instructions", "has_valgrind", "per_operation", "total_of"]

_VALGRIND: Final = "valgrind"


def has_valgrind() -> bool:
    """Return whether instructions can be counted here."""
    return shutil.which(_VALGRIND) is not None


def count_instructions(command: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})) -> int:
    """Run a command under callgrind, without random hashes; return how many instructions it executed.

    Args:
        command: What to run.
        settings: Further environment variables.

    Raises:
        CalledProcessError: It failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "callgrind.out"
        subprocess.run(
            [_VALGRIND, "--tool=callgrind", f"--callgrind-out-file={written}", *command],
            env={**os.environ, "PYTHONHASHSEED": "0", **settings},
            check=True,
            capture_output=True,
        )
        return total_of(written.read_text(encoding="utf-8"))


def per_operation(short: int, long: int, operations: int) -> float:
    """Return instructions of an operation, from a run of so many and a run of twice as many."""
    return (long - short) / operations


def total_of(written: str) -> int:
    """Return the total that callgrind wrote at the end of its file.

    Raises:
        ValueError: The file has no total.
    """
    for line in reversed(written.splitlines()):
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise ValueError(f"callgrind's file must end with its totals, got {written[-80:]!r}")
