"""The grammar of sizes everywhere: ``[0-9]{1,15}(B|KiB|MiB|GiB)?``; bare digits are bytes.

>>> parse_size("64MiB"), parse_size("7"), parse_size("2KiB")
(67108864, 7, 2048)
>>> size_text(67108864), size_text(1000)
('64MiB', '1000B')
"""

import re
from typing import Final

GRAMMAR: Final = "[0-9]{1,15}(B|KiB|MiB|GiB)?"
_SIZE: Final = re.compile(r"([0-9]{1,15})(B|KiB|MiB|GiB)?")
_BYTES: Final = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}


def parse_size(text: str) -> int:
    """Read a size in bytes; a `ValueError` names a malformed one and the grammar."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"a size must follow {GRAMMAR}, got {text[:40]!r}")
    return int(match[1]) * _BYTES[match[2] or "B"]


def size_text(size: int) -> str:
    """Write a size in the grammar, in the largest unit that it is a multiple of."""
    unit, of_unit = next((unit, each) for unit, each in _BYTES.items() if size % each == 0)
    return f"{size // of_unit}{unit}"
