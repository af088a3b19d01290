"""The error for invalid input, found before Spark starts."""

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818 - called by what happened
    """A command refuses to start; nothing was written.

    The user sees its message as one line: the file, line or option, what is wrong with it, and the next step. The
    exit code is 2.
    """
