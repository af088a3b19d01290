"""The service's log: each record is one line of JSON on standard error, whatever a client sent.

Everything outside printable ASCII is escaped: control characters, line separators, bidirectional marks. Logging has no
global configuration, never raises and never blocks: it drops a record that standard error cannot take at once.
"""

import asyncio
import json
import logging
import os
import select
import sys
from contextlib import suppress
from typing import Final, Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, WrappedLogger

from purgatory_async.service.visit import PRESENT, TASKS, Visit


class Log(Protocol):
    """The methods of a log that the service uses."""

    def info(self, event: str, **values: object) -> None:
        """Record a normal event."""

    def warning(self, event: str, **values: object) -> None:
        """Record a condition that may need attention."""

    def error(self, event: str, **values: object) -> None:
        """Record a fault; ``exc_info`` may carry the exception."""


def one_line(values: object, **_: object) -> str:
    r"""Encode a record as one line of printable ASCII; values unknown to JSON as their repr.

    Example:
        >>> print(one_line({"key": "a\n\x7f\u202e"}))
        {"key": "a\n\u007f\u202e"}
    """
    # json.dumps escapes everything outside space to tilde.
    return json.dumps(values, default=repr)


def _with_request(_logger: WrappedLogger, _method: str, values: EventDict) -> EventDict:
    """Add the id of the request that is being answered."""
    visit = _present_visit()
    if visit is not None:
        values.setdefault("request_id", visit.request_id)
    return values


def _present_visit() -> Visit | None:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None  # no loop runs in this thread
    if PRESENT.visit is not None:
        return PRESENT.visit
    visit = TASKS.get()
    return visit if visit is not None and task is not None and visit.task is task else None


class _Lines:
    """Writes whole lines to a file descriptor; drops those that it cannot take at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._writable: Final = select.poll()
        self._writable.register(descriptor, select.POLLOUT)
        self._rest = b""  # of an incomplete line

    def write(self, line: str) -> None:
        """Write a line, after the rest of the one before."""
        data = line.encode()
        self._rest = self._unwritten(self._rest)
        if not self._rest:
            rest = self._unwritten(data)
            self._rest = b"" if rest == data else rest

    def _unwritten(self, data: bytes) -> bytes:
        """Write as much as possible without blocking; return the rest."""
        with suppress(OSError):
            while data and self._writable.poll(0):
                # A pipe that is writable takes this much without blocking.
                data = data[os.write(self._descriptor, data[: select.PIPE_BUF]) :]
        return data

    def flush(self) -> None:
        """Do nothing: lines are not buffered."""


def _sink(stream: TextIO | None) -> object:
    if stream is None:
        return (
            structlog.ReturnLogger()
        )  # started without standard error: its descriptor may be a socket's now
    try:
        lines = cast("TextIO", _Lines(stream.fileno()))
    except ValueError:
        lines = stream  # in memory
    return structlog.WriteLogger(lines)  # with a lock: the journal's thread logs too


def stderr_log(stream: TextIO | None = None, *, level: int = logging.INFO, **values: object) -> Log:
    """Make a log to a stream.

    Args:
        stream: None for standard error.
        level: The lowest level to log, as in the standard library's `logging`.
        values: Members of every record.
    """
    log: Log = structlog.wrap_logger(
        _sink(sys.stderr if stream is None else stream),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _with_request,
            structlog.processors.EventRenamer("message", "_event"),
            structlog.processors.JSONRenderer(serializer=one_line),
        ],
    ).bind(**values)
    return log


class ForwardingHandler(logging.Handler):
    """Forwards records of the standard library's logging, such as asyncio's, to a log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Forward a record, with its level and traceback."""
        say = self._log.info
        if record.levelno >= logging.WARNING:
            say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - the arguments do not match the format
            message = f"{record.msg!r} % {record.args!r}"
        say(message, logger=record.name, exc_info=record.exc_info)
