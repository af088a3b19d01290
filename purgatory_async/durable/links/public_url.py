"""The URL under which people reach the service, as a browser names it."""

import re
from dataclasses import dataclass
from typing import Final

from purgatory_async.durable.links.hosts import Origin, parse_origin
from purgatory_async.durable.store_url import shown

GRAMMAR: Final = "http[s]://HOST[:PORT][/PATH]"
MAX_BASE_PATH: Final = 255
_URL: Final = re.compile(r"(https?://[^/?#]+)(/[^?#]*)?", re.IGNORECASE)
_BASE_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+)*/?")


@dataclass(frozen=True, slots=True)
class PublicUrl:
    """Where browsers find the service.

    Attributes:
        text: In one spelling, without a last slash, so that a path can follow.
        origin: The origin of its pages.
    """

    text: str
    origin: Origin

    def __str__(self) -> str:
        return self.text


def public_url(value: object) -> PublicUrl | None:
    """Read the URL.

    Raises:
        ValueError: It is none.

    Example:
        >>> str(public_url("https://Holds.Example.org:443/team/"))
        'https://holds.example.org/team'
    """
    if value is None or isinstance(value, PublicUrl):
        return value
    match = _URL.fullmatch(value) if isinstance(value, str) else None
    origin = None if match is None else parse_origin(match[1].encode("ascii", "replace"))
    if match is None or origin is None:
        raise ValueError(f"must be {GRAMMAR} without a user, a query or a fragment, got {shown(value)}")
    path = base_path(match[2] or "")
    scheme = match[1].partition(":")[0].lower()
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    port = "" if origin.port == origin.usual_port else f":{origin.port}"
    return PublicUrl(f"{scheme}://{host}{port}{path}", origin)


def base_path(value: object) -> str:
    """Read the path below which a proxy serves the service; no last slash.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, str) and len(value) <= MAX_BASE_PATH and _BASE_PATH.fullmatch(value):
        return value.rstrip("/")
    raise ValueError(
        f"must be a path like /purgatory, of at most {MAX_BASE_PATH} characters A-Z a-z 0-9 . _ ~ - and without"
        f" . or .. as a part, got {value!r}"
    )
