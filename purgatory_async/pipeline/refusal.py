"""Input that cannot be right, found before Spark starts."""

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818 - called by what happened
    """A command does not begin; nothing was written.

    Its text is the one line that the user sees: what is wrong with which file, line or option, and the next step.
    The exit code is 2.
    """
