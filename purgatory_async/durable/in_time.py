"""Waits for a future, for a limited time."""

import asyncio
from typing import Any, TypeVar

from purgatory_async import Timer
from purgatory_async.cluster import LogUnavailable

T = TypeVar("T")


async def in_time(future: "asyncio.Future[T]", timer: Timer, seconds: float, late: str) -> T:
    """Return the result of a future; cancel it in the end.

    Raises:
        LogUnavailable: It was not done within ``seconds``; the message is ``late`` with them.
    """
    expiry = timer.call_later(seconds, _expire, future, late.format(seconds))
    try:
        return await future
    finally:
        expiry.cancel()
        future.cancel()


def _expire(future: "asyncio.Future[Any]", late: str) -> None:
    if not future.done():
        future.set_exception(LogUnavailable(late, cause="timeout"))
