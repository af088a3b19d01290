"""The options in a store's URL: understood, dropped with one warning, or refused by name before anything connects.

Clients check them late or not at all: asyncpg sends each one that it does not know to the server as a setting, and
redis-py passes it to a constructor.
"""

import logging
import re
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

__all__ = ["PostgresUrl", "postgres_url", "redis_url", "warn_once"]

Check = Callable[[str], bool]

_LOGGER: Final = logging.getLogger(__name__)


def _any(_: str) -> bool:
    return True


def _is_file(value: str) -> bool:
    return Path(value).is_file()


def _has_certificates(value: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(value)
    except OSError:  # also what TLS says
        return False
    return True


def _is_folder(value: str) -> bool:
    return Path(value).is_dir()


def _number(value: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", value) is not None


def _ports(value: str) -> bool:
    return re.fullmatch("[0-9]{1,5}(,[0-9]{1,5})*", value) is not None


class _Rule(NamedTuple):
    """What a value must be."""

    bound: str
    holds: Check


_ANYTHING: Final = _Rule("", _any)
_FILE: Final = _Rule("a file", _is_file)
_CERTIFICATES: Final = _Rule("a file of certificates (PEM)", _has_certificates)
_FOLDER: Final = _Rule("a folder", _is_folder)
_NUMBER: Final = _Rule("a whole number", _number)
_SWITCH: Final = _Rule("true or false", {"true", "false", "True", "False", "1", "0"}.__contains__)


def _one_of(*words: str) -> _Rule:
    return _Rule(f"one of {', '.join(words)}", words.__contains__)


# Options of libpq that asyncpg knows, options that are understood here, and settings of a session.
_POSTGRES: Final = {
    **dict.fromkeys(("host", "user", "password", "dbname", "database", "passfile", "service"), _ANYTHING),
    **dict.fromkeys(("sslpassword", "sslnegotiation", "krbsrvname", "gsslib"), _ANYTHING),
    **dict.fromkeys(("ssl_min_protocol_version", "ssl_max_protocol_version"), _ANYTHING),
    **dict.fromkeys(("sslcert", "sslkey", "sslcrl"), _FILE),
    "sslrootcert": _CERTIFICATES,
    "port": _Rule("a port, or some with commas", _ports),
    "sslmode": _one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "target_session_attrs": _one_of("any", "primary", "read-write"),  # a log is written
    "connect_timeout": _NUMBER,
    **dict.fromkeys(("hostaddr", "fallback_application_name"), _ANYTHING),
    **dict.fromkeys(("application_name", "options", "role", "search_path"), _ANYTHING),
    **dict.fromkeys(("idle_in_transaction_session_timeout", "idle_session_timeout"), _ANYTHING),
    **dict.fromkeys(("lock_timeout", "statement_timeout"), _ANYTHING),
}
_POSTGRES_DROPPED: Final = frozenset(
    {
        *("channel_binding", "client_encoding", "gssdelegation", "gssencmode", "keepalives"),
        *("keepalives_count", "keepalives_idle", "keepalives_interval", "load_balance_hosts"),
        *("max_protocol_version", "min_protocol_version", "require_auth", "requirepeer", "requiressl"),
        *("sslcertmode", "sslcompression", "sslkeylogfile", "sslsni", "tcp_user_timeout"),
    }
)
_REDIS: Final = {
    "db": _NUMBER,
    "protocol": _one_of("2", "3"),
    **dict.fromkeys(("username", "password", "client_name"), _ANYTHING),
    "wait": _Rule("a number of replicas", _number),
}
_REDISS: Final = {
    "ssl_ca_certs": _CERTIFICATES,
    "ssl_ca_path": _FOLDER,
    "ssl_cert_reqs": _one_of("none", "optional", "required"),
    "ssl_certfile": _FILE,
    "ssl_check_hostname": _SWITCH,
    "ssl_keyfile": _FILE,
    **dict.fromkeys(("ssl_ca_data", "ssl_ciphers", "ssl_password"), _ANYTHING),
}
# Known to redis-py, but decided here.
_REDIS_DROPPED: Final = frozenset(
    {
        *("decode_responses", "encoding", "encoding_errors", "health_check_interval", "legacy_responses"),
        *("max_connections", "retry_on_error", "retry_on_timeout", "socket_connect_timeout"),
        *("socket_keepalive", "socket_read_size", "socket_timeout"),
    }
)


@cache
def warn_once(sentence: str) -> None:
    """Log a warning, once in a process: each attempt to connect makes a new log."""
    _LOGGER.warning("%s", sentence)


class PostgresUrl(NamedTuple):
    """A URL as asyncpg takes it, and the seconds in which a connection must be made; None for the usual time."""

    dsn: str
    connect_s: float | None


def postgres_url(url: str) -> PostgresUrl:
    """Read a URL of Postgres.

    Raises:
        ValueError: An option is unknown, or its value cannot work; the message has no password.
    """
    given = _options("Postgres", url, _POSTGRES, _POSTGRES_DROPPED)
    seconds = int(given.pop("connect_timeout", "0"))
    address, name = given.pop("hostaddr", None), given.pop("fallback_application_name", None)
    if address is not None and not urlsplit(url).hostname and "host" not in given:
        given["host"] = address
    elif address is not None:
        _warn_dropped("Postgres", "hostaddr")
    if name is not None:
        given.setdefault("application_name", name)
    return PostgresUrl(_with_options(url, given), float(seconds) or None)


def redis_url(url: str) -> tuple[str, int]:
    """Read a URL of Redis; return it as redis-py takes it, and for how many replicas each append waits.

    Raises:
        ValueError: As `postgres_url`.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "rediss"
    known = {**_REDIS, **_REDISS} if secure else _REDIS
    given = _options("rediss://" if secure else "Redis", url, known, _REDIS_DROPPED)
    if parts.scheme != "unix" and re.fullmatch("/?|/[0-9]{1,9}", parts.path) is None:
        raise ValueError(
            f"the database must be a number, as in redis://HOST/0, got {unquote(parts.path[1:])!r}"
        )
    replicas = int(given.pop("wait", "0"))
    return _with_options(url, given), replicas


def _options(engine: str, url: str, known: Mapping[str, _Rule], dropped: frozenset[str]) -> dict[str, str]:
    """Return the options that count."""
    query = urlsplit(url).query
    for number, each in enumerate(filter(None, query.split("&")), 1):
        if "=" not in each:  # which may be a part of a password
            raise ValueError(
                f"options must be NAME=VALUE with & between them, got no = in option {number}; write & in a value "
                "as %26"
            )
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in tuple(given.items()):
        if name in dropped:
            del given[name]
            _warn_dropped(engine, name)
        elif name in _REDISS and name not in known:
            raise ValueError(f"option {name} must be in a rediss:// URL, got another one; rediss:// uses TLS")
        elif name not in known:
            hint = "; give a setting of the server as options=-c%20NAME=VALUE" * ("options" in known)
            raise ValueError(
                f"options of a {engine} URL must be among {', '.join(known)}, got {name!r}{hint}"
            )
        elif not known[name].holds(value):
            raise ValueError(f"option {name} must be {known[name].bound}, got {value!r}")
    return given


def _warn_dropped(engine: str, name: str) -> None:
    warn_once(f"option {name} of the store's {engine} URL has no effect here")


def _with_options(url: str, options: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    return urlunsplit((*parts[:3], urlencode(options, quote_via=quote), parts.fragment))
