"""Each engine's errors as one word of a small set."""

import errno
import sqlite3
import ssl

import pytest

from purgatory_async.cluster.causes import CAUSES, cause_of


def of_postgres(state, text="no"):
    asyncpg = pytest.importorskip("asyncpg")
    return asyncpg.PostgresError.new({"C": state, "M": text})


def of_redis(line):
    """What redis-py raises for an error line, as its parser reads it."""
    pytest.importorskip("redis")
    from redis._parsers import BaseParser  # noqa: PLC0415 - needs an extra

    return BaseParser.parse_error(line)


def of_sqlite(code):
    error = sqlite3.OperationalError("no")
    error.sqlite_errorcode = code
    return error


def caused(outer, inner):
    outer.__context__ = inner
    return outer


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda: of_sqlite(sqlite3.SQLITE_FULL), "full"),
        (lambda: of_sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT), "locked"),
        (lambda: of_sqlite(sqlite3.SQLITE_IOERR_FSYNC), "disk"),
        (lambda: of_sqlite(sqlite3.SQLITE_NOMEM), "memory"),
        (lambda: of_sqlite(sqlite3.SQLITE_READONLY_DBMOVED), "read-only"),
        (lambda: of_sqlite(sqlite3.SQLITE_TOOBIG), "other"),
        (lambda: of_postgres("53100", "could not extend file: No space left on device"), "full"),
        (lambda: of_postgres("28P01", "password authentication failed"), "password"),
        (lambda: of_postgres("25006", "cannot execute INSERT in a read-only transaction"), "read-only"),
        (lambda: of_postgres("55P03", "canceling statement due to lock timeout"), "locked"),
        (lambda: of_postgres("53200", "out of memory"), "memory"),
        (lambda: of_postgres("53300", "too many connections for role"), "connections"),
        (lambda: of_postgres("42501", "permission denied for table"), "permission"),
        (lambda: of_postgres("57P03", "the database system is starting up"), "starting"),
        (lambda: of_postgres("57P01", "terminating connection due to administrator command"), "unreachable"),
        (lambda: of_postgres("58030", "could not read block"), "disk"),
        (lambda: of_postgres("08P01", "no more connections allowed (max_client_conn)"), "connections"),
        (lambda: of_postgres("08P01", "FATAL: password authentication failed for user"), "password"),
        (lambda: of_postgres("08P01", "query_wait_timeout"), "timeout"),
        (lambda: of_postgres("22012", "division by zero"), "other"),
        (lambda: of_redis("OOM command not allowed when used memory > 'maxmemory'."), "memory"),
        (lambda: of_redis("ERR max number of clients reached"), "connections"),
        (lambda: of_redis("READONLY You can't write against a read only replica."), "read-only"),
        (lambda: of_redis("NOAUTH Authentication required."), "password"),
        (lambda: of_redis("WRONGPASS invalid username-password pair or user is disabled."), "password"),
        (lambda: of_redis("NOPERM this user has no permissions to run the 'evalsha' command"), "permission"),
        (lambda: of_redis("LOADING Redis is loading the dataset in memory"), "starting"),
        (lambda: of_redis("MOVED 13139 127.0.0.1:7002"), "moved"),
        (lambda: of_redis("NOREPLICAS Not enough good replicas to write."), "replicas"),
        (lambda: of_redis("MISCONF Errors writing to the AOF file: No space left on device"), "full"),
        (lambda: of_redis("MISCONF Redis is configured to save RDB snapshots, but is unable to"), "disk"),
        (lambda: of_redis("BUSY Redis is busy running a script."), "locked"),
        (lambda: OSError(errno.ENOSPC, "no"), "full"),
        (lambda: OSError(errno.EROFS, "no"), "read-only"),
        (lambda: OSError(errno.EMFILE, "no"), "connections"),
        (lambda: ConnectionRefusedError(errno.ECONNREFUSED, "no"), "unreachable"),
        (TimeoutError, "timeout"),
        (lambda: ssl.SSLCertVerificationError(1, "self-signed certificate"), "tls"),
        (lambda: caused(RuntimeError("no"), OSError(errno.EACCES, "no")), "permission"),
        (lambda: RuntimeError("connection is closed"), "unreachable"),
    ],
)
def test_each_error_has_its_word(make, cause):
    assert cause_of(make()) == cause
    assert cause in CAUSES
