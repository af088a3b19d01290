"""Forked children, and what they say."""

import os
import warnings
from collections.abc import Callable

import pytest

__all__ = ["exit_code", "fork", "in_child", "needs_fork"]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this platform")


def fork() -> int:
    """Fork: the child's id, 0 in the child. The tests' runner may have threads, of which newer interpreters warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def exit_code(child: int) -> int:
    """Wait for a child's end."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(act: Callable[[], object]) -> str:
    """What ``act()`` returned or raised in a forked child."""
    reading, writing = os.pipe()
    child = fork()
    if not child:
        try:
            said = str(act())
        except BaseException as exception:  # noqa: BLE001 - whatever it was, the parent judges
            said = f"{type(exception).__name__}: {exception}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    exit_code(child)
    return said
