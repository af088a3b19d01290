"""The URL under which people reach the service, as a browser names it."""

import re
from dataclasses import dataclass
from typing import Final

from purgatory_async.durable.store_url import shown
from purgatory_async.service.settings.addresses import base_path
from purgatory_async.service.settings.hosts import Origin, parse_origin

GRAMMAR: Final = "http[s]://HOST[:PORT][/PATH]"
_URL: Final = re.compile(r"(https?://[^/?#]+)(/[^?#]*)?", re.IGNORECASE)


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
