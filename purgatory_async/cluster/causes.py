"""Why an engine does not serve: one word of a small set, whatever the engine and its client call it."""

import errno
import sqlite3
import ssl
from typing import Final

__all__ = ["CAUSES", "cause_of"]

CAUSES: Final = {
    "full": "its disk is full",
    "disk": "its disk fails",
    "memory": "it has no memory left",
    "connections": "it has no connection left",
    "locked": "another program holds a lock",
    "read-only": "it takes no writes",
    "replicas": "too few replicas have what was written",
    "password": "it does not accept user and password",
    "permission": "it does not permit this",
    "moved": "the keys are at another node",
    "tls": "there is no trusted TLS connection",
    "starting": "it is starting",
    "timeout": "it does not answer in time",
    "unreachable": "there is no connection",
    "other": "it reports an error",
}
"""Each word, and what it means."""

# SQLSTATEs, or how they begin.
_SQLSTATES: Final = {
    "25006": "read-only",
    "28": "password",
    "40P01": "locked",
    "42501": "permission",
    "53100": "full",
    "53200": "memory",
    "53300": "connections",
    "55P03": "locked",
    "57014": "timeout",
    "57P03": "starting",
    "58": "disk",
}
_OF_CONNECTIONS: Final = {"08", "57"}  # which poolers use for everything: the text says more
_SQLITE: Final = {
    sqlite3.SQLITE_AUTH: "permission",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_CANTOPEN: "disk",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_IOERR: "disk",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_NOMEM: "memory",
    sqlite3.SQLITE_PERM: "permission",
    sqlite3.SQLITE_PROTOCOL: "locked",
    sqlite3.SQLITE_READONLY: "read-only",
}
_ERRNOS: Final = {
    errno.EACCES: "permission",
    errno.EDQUOT: "full",
    errno.EIO: "disk",
    errno.EMFILE: "connections",
    errno.ENFILE: "connections",
    errno.ENOMEM: "memory",
    errno.ENOSPC: "full",
    errno.EPERM: "permission",
    errno.EROFS: "read-only",
    errno.ETIMEDOUT: "timeout",
}
# By the names of classes, because the clients need not be installed.
_CLASSES: Final = {
    "AskError": "moved",
    "AuthenticationError": "password",
    "BusyLoadingError": "starting",
    "MaxConnectionsError": "connections",
    "MovedError": "moved",
    "NoPermissionError": "permission",
    "OutOfMemoryError": "memory",
    "ReadOnlyError": "read-only",
    "TargetServerAttributeNotMatched": "read-only",
}
# Errors without a class or code of their own, or wrapped by a script or a pooler.
_TEXTS: Final = {
    "no space left": "full",
    "misconf": "disk",
    "oom command": "memory",
    "readonly": "read-only",
    "noreplicas": "replicas",
    "noauth": "password",
    "wrongpass": "password",
    "password authentication failed": "password",
    "noperm": "permission",
    "max number of clients": "connections",
    "no more connections": "connections",
    "too many clients": "connections",
    "busy redis is busy": "locked",
    "loading redis": "starting",
    "timeout": "timeout",
    "[ssl": "tls",
    "ssl upgrade": "tls",
}


def cause_of(error: BaseException) -> str:
    """Return the word for an error of an engine, of its client, or of the system: a key of `CAUSES`."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE.get(code & 0xFF, "other")
    return _of_class(error) or _of_state(error) or _of_text(error) or _of_system(error)


def _of_class(error: BaseException) -> str | None:
    names = (kind.__name__ for kind in type(error).__mro__)
    return next((_CLASSES[name] for name in names if name in _CLASSES), None)


def _of_state(error: BaseException) -> str | None:
    state = getattr(error, "sqlstate", None)
    if state is None:
        return None
    unknown = None if state[:2] in _OF_CONNECTIONS else "other"
    return _SQLSTATES.get(state) or _SQLSTATES.get(state[:2]) or unknown


def _of_text(error: BaseException) -> str | None:
    text = str(error).lower()
    return next((cause for part, cause in _TEXTS.items() if part in text), None)


def _of_system(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return "tls"
    if isinstance(error, OSError) and error.errno is not None:
        return _ERRNOS.get(error.errno, "unreachable")
    if type(error).__name__ == "TimeoutError":  # also a client's own
        return "timeout"
    inner = error.__cause__ or error.__context__
    return "unreachable" if inner is None else _of_system(inner)
