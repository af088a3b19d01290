"""Reads the settings that say where the service is: addresses, host names, the Unix socket, the base path."""

import os
import re
from pathlib import Path
from typing import Final

from purgatory_async.durable.links.hosts import canonical_host

MAX_UDS_BYTES: Final = 107  # of the path of a Unix socket on Linux


def host_name(value: object) -> str:
    """Read the address to listen on.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, str) and value.strip() == value != "":
        return value
    raise ValueError(f"must be a host name or an IP address, got {value!r}")


def unix_socket(value: object) -> Path | None:
    """Read the path of a Unix socket.

    Raises:
        ValueError: It is none.
    """
    if value is None:
        return None
    if isinstance(value, str | Path) and str(value) and "\0" not in str(value):
        if len(os.fsencode(value)) <= MAX_UDS_BYTES:
            return Path(value)
        raise ValueError(f"must be a path of at most {MAX_UDS_BYTES} bytes, got {value!r}")
    raise ValueError(f"must be the path of a Unix socket, got {value!r}")


def file_mode(value: object) -> str:
    """Read octal digits, or the number that TOML makes of 0o600.

    Raises:
        ValueError: They are none.
    """
    text = value if isinstance(value, str) else f"{value:04o}" if type(value) is int else ""
    if re.fullmatch("0?[0-7]{3}", text):
        return text.zfill(4)
    raise ValueError(f"must be three octal digits like 0600, got {value!r}")


def host_names(value: object) -> tuple[str, ...]:
    """Read host names, joined by commas or in a list.

    Raises:
        ValueError: It is none.
    """
    given = value
    if isinstance(value, str):
        given = [part.strip() for part in value.split(",")] if value else []
    if isinstance(given, list | tuple):
        hosts = [canonical_host(host) if isinstance(host, str) else None for host in given]  # pyright: ignore[reportUnknownVariableType]
        known = tuple(host for host in hosts if host is not None)
        if len(known) == len(hosts):
            return known
    raise ValueError(f"must be host names or addresses without a port, got {value!r}")
