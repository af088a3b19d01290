"""Spark jobs over journals and workloads; no module outside this package imports Spark."""

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818 - called by what happened
    """A command refuses to start, for invalid input found before Spark starts; nothing was written.

    The user sees its message as one line: the file, line or option, what is wrong with it, and the next step. The
    exit code is 2.
    """
