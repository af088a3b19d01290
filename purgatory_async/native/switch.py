"""What the build and the import share: the switch in the environment, and the mark of the extension's sources.

It uses only what the interpreter has imported anyway: pathlib would take half of the package's import time.
"""

import os
from binascii import crc32


def asked_for() -> str | None:
    """Return what ``PURGATORY_ASYNC_PURE`` asks for: "pure", "compiled", or None for whatever there is.

    Raises:
        ValueError: The variable is not 0, 1 or empty.
    """
    value = os.environ.get("PURGATORY_ASYNC_PURE", "")
    if value not in {"", "0", "1"}:
        raise ValueError(f"PURGATORY_ASYNC_PURE must be 0 or 1, got {value!r}")
    return {"0": "compiled", "1": "pure"}.get(value)


def sources_mark() -> str | None:
    """Return the text that an extension built from these sources contains; None where no sources lie here."""
    folder = os.path.dirname(__file__)  # noqa: PTH120 - see above
    names = sorted(name for name in os.listdir(folder) if name.endswith((".pyx", ".pxi")))  # noqa: PTH208
    digest = 0
    for name in names:
        with open(f"{folder}/{name}", "rb") as source:  # noqa: PTH123
            digest = crc32(source.read(), crc32(name.encode(), digest))
    return f"built from sources {digest}" if names else None
