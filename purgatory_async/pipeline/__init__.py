"""Spark jobs over journals and workloads; no module outside this package imports Spark."""

from purgatory_async.errors import RefusedError

__all__ = ["Refused"]


class Refused(RefusedError):  # noqa: N818 - called by what happened
    """A command refuses to start or to go on, for invalid input; what is found before Spark starts leaves no trace.

    The user sees its message as one line: the file, line or option, what is wrong with it, and the next step. The
    exit code is 2.
    """
