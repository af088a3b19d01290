"""The service's log: one record is one line of JSON on standard error, whatever a client put into it.

Control characters, line separators and bidirectional marks are escaped, because everything outside printable
ASCII is. There is no global configuration: a log is made and handed on.

Logging never raises and never waits: a record that standard error cannot take at once is dropped.
"""

import json
import logging
import os
import select
import sys
from contextlib import suppress
from typing import Final, Protocol, TextIO, cast

import structlog


class Log(Protocol):
    """What the service asks of a log."""

    def info(self, event: str, **values: object) -> None:
        """Record something that happened as it should."""

    def warning(self, event: str, **values: object) -> None:
        """Record something that somebody may want to look into."""

    def error(self, event: str, **values: object) -> None:
        """Record a fault; ``exc_info`` may carry the exception."""


def one_line(values: object, **_: object) -> str:
    r"""Write a record as one line of printable ASCII.

    Args:
        values: The record; what JSON does not know is shown by its repr.

    Returns:
        A JSON object.

    Example:
        >>> print(one_line({"key": "a\n\x7f\u202e"}))
        {"key": "a\n\u007f\u202e"}
    """
    # json.dumps leaves nothing unescaped but what is between space and tilde.
    return json.dumps(values, default=repr)


class _Lines:
    """Write whole lines to a file descriptor; drop those that it cannot take at once.

    Args:
        descriptor: Of a file, a pipe or a terminal.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._writable: Final = select.poll()
        self._writable.register(descriptor, select.POLLOUT)
        self._rest = b""  # of a line that was begun

    def write(self, line: str) -> None:
        """Write a line, behind the rest of the one before."""
        data = line.encode()
        self._rest = self._unwritten(self._rest)
        if not self._rest:
            rest = self._unwritten(data)
            self._rest = b"" if rest == data else rest

    def _unwritten(self, data: bytes) -> bytes:
        """Write what can be written without waiting; return the rest."""
        with suppress(OSError):
            while data and self._writable.poll(0):
                # A pipe that is writable takes this much without blocking.
                data = data[os.write(self._descriptor, data[: select.PIPE_BUF]) :]
        return data

    def flush(self) -> None:
        """Do nothing: no line waits here."""


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


def stderr_log(stream: TextIO | None = None, *, level: int = logging.INFO) -> Log:
    """Make a log.

    Args:
        stream: Where to; None for standard error.
        level: What is less severe is left out; the numbers are those of the standard library's `logging`.

    Returns:
        The log.
    """
    log: Log = structlog.wrap_logger(
        _sink(sys.stderr if stream is None else stream),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(serializer=one_line),
        ],
    )
    return log


class ForwardingHandler(logging.Handler):
    """Hands records of the standard library's logging on, such as those of the HTTP server.

    Args:
        log: Where to.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record on, with its level and traceback."""
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - arguments that do not fit their text
            message = f"{record.msg!r} % {record.args!r}"
        say(message, logger=record.name, exc_info=record.exc_info)
