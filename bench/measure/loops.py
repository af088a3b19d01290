"""The event loops by the names used on the command line."""

import asyncio
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import TypeVar

__all__ = ["ASYNCIO", "LOOPS", "UVLOOP", "run_on"]

_T = TypeVar("_T")

ASYNCIO = "asyncio"
UVLOOP = "uvloop"
LOOPS = (ASYNCIO, *([UVLOOP] if find_spec("uvloop") is not None else []))


def run_on(loop: str, main: Coroutine[object, object, _T]) -> _T:
    """Run a coroutine to its end on a fresh loop of that name."""
    with asyncio.Runner(loop_factory=_factory_of(loop)) as runner:
        return runner.run(main)


def _factory_of(loop: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if loop == UVLOOP:
        import uvloop  # noqa: PLC0415 - the benchmark also runs where it is not installed

        return uvloop.new_event_loop
    return asyncio.SelectorEventLoop
