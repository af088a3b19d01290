"""The URL of a store: checked without opening it, and shown without its password."""

import re
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

MEMORY: Final = "memory"
IN_MEMORY: Final = frozenset({MEMORY, "memory:"})
"""How a store in memory is written; `StoreUrl` takes the first alone, as the commands do."""

_MASK: Final = "***"
_SQLITE: Final = re.compile(r"sqlite:///(?!.*://)[^?#]+")  # a path may contain an @, and has no password
_NAMED: Final = re.compile(r"(\b\w*(?:pass|secret|token)\w*\s*=\s*)('[^']*'|[^\s&]+)", re.IGNORECASE)
_PGPASS: Final = re.compile(r"([^:]*:[0-9*]*:[^:]*:[^:]*:).+")  # host, port, database, user and password
_NAME_OF_SECRET: Final = re.compile("pass|secret|token", re.IGNORECASE)
_USER: Final = re.compile(r"[A-Za-z0-9+.-]*://[^:@/?#]*")
_NO_PORT: Final = re.compile(r"(://[^/:?]*:)(?![0-9]*([/?]|$))[^/?]+")  # a password whose @HOST is missing
_SECRET: Final = re.compile(r"([?&][^=&]*(?:pass|secret|token)[^=&]*=)[^&]*", re.IGNORECASE)
_POSTGRES: Final = "postgresql://HOST/DATABASE", re.compile(r"postgres(ql)?://[^/?#]*(/.*|\?.*)?")
_FORMS: Final = {
    "sqlite": ("sqlite:///PATH", re.compile(r"sqlite:///[^?#]+")),
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "redis": ("redis://HOST:PORT/0", re.compile(r"redis://[^/?#]+(/.*|\?.*)?")),
    "rediss": ("rediss://HOST:PORT/0", re.compile(r"rediss://[^/?#]+(/.*|\?.*)?")),
    "unix": ("unix://PATH of a Redis server", re.compile(r"unix://[^/?#]*/[^?#]+(\?.*)?")),
}


@dataclass(frozen=True, slots=True, repr=False)
class StoreUrl:
    """Where a service keeps its log: ``memory``, or the URL of an engine.

    Attributes:
        url: As given, with its password. Never show it: `str` and `repr` of this object mask the password.

    Raises:
        ValueError: It is no URL of a known engine; the message masks the password.

    >>> StoreUrl("postgresql://app:secret@db/orders")
    postgresql://app:***@db/orders
    """

    url: str

    def __post_init__(self) -> None:
        known = _FORMS.get(self.url.partition(":")[0])
        right = known is not None and self.url.isprintable() and known[1].fullmatch(self.url)
        if self.url != MEMORY and not right:
            bound = (
                known[0]
                if known
                else ", ".join((MEMORY, *dict.fromkeys(form for form, _ in _FORMS.values())))
            )
            raise ValueError(f"must be {'' if known else 'one of '}{bound}, got {shown(self.url)}")
        try:
            urlsplit(self.url).port  # noqa: B018 - reading it checks it
        except ValueError:
            raise ValueError(f"must have a host, and a port up to 65535, got {masked(self.url)!r}") from None

    def __str__(self) -> str:
        return masked(self.url)

    __repr__ = __str__

    @property
    def in_memory(self) -> bool:
        """Whether nothing is kept outside the process."""
        return self.url == MEMORY


def masked(url: str) -> str:
    """Return a URL without its passwords, be it well formed or not. O(length).

    A password that should have been percent-encoded may contain every delimiter, so all up to the last ``@`` counts.

    >>> masked("redis://:p/a?s#s@db/0?ssl_password=x&db=1")
    'redis://:***@db/0?ssl_password=***&db=1'
    """
    if _SQLITE.fullmatch(url):
        return url
    hidden, at, shown = url.rpartition("@")
    if not at:
        shown = _NO_PORT.sub(rf"\1{_MASK}", shown)
    user = _USER.match(hidden)
    kept = user[0] if user else ""
    mask = "" if user and kept == hidden else f"{':' if user else ''}{_MASK}"
    return _SECRET.sub(rf"\1{_MASK}", f"{kept}{mask}{at}{shown}" if at else shown)


def shown(value: object) -> str:
    """Return the `repr` of a refused value, whatever its type, without the passwords in it. O(length).

    >>> shown(["redis://:secret@db", {"password": "secret"}])
    "['redis://:***@db', {'password': '***'}]"
    """
    return repr(_hidden(value))


def _hidden(value: object) -> object:
    if isinstance(value, str):
        if "://" in value or re.search(":.*@", value):
            return masked(value)
        return _PGPASS.sub(rf"\1{_MASK}", _NAMED.sub(rf"\1{_MASK}", value))
    if isinstance(value, list | tuple):
        return [_hidden(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {
            _hidden(name): _MASK if _NAME_OF_SECRET.search(str(name)) else _hidden(each)
            for name, each in items
        }
    return value
