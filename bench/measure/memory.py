"""What a process takes of the machine's memory."""

from pathlib import Path

__all__ = ["available_bytes", "resident_bytes"]


def resident_bytes() -> int:
    """Bytes that this process has resident."""
    return _field("/proc/self/status", "VmRSS:")


def available_bytes() -> int:
    """Bytes that the system can give away without swapping."""
    return _field("/proc/meminfo", "MemAvailable:")


def _field(path: str, name: str) -> int:
    lines = Path(path).read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024
