"""The service's log: one record is one line of JSON on standard error, whatever a client put into it.

Control characters, line separators and bidirectional marks are escaped, because everything outside printable
ASCII is. There is no global configuration: a log is made and handed on.
"""

import json
import logging
import sys
from collections.abc import Mapping
from typing import Protocol, TextIO

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


def stderr_log(stream: TextIO | None = None, *, level: int = logging.INFO) -> Log:
    """Make a log.

    Args:
        stream: Where to; None for standard error.
        level: What is less severe is left out; the numbers are those of the standard library's `logging`.

    Returns:
        The log.
    """
    log: Log = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr if stream is None else stream),
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
        values: Mapping[str, object] = {"logger": record.name, "exc_info": record.exc_info}
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        say(record.getMessage(), **values)
