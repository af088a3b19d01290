"""What tests of `SingleFlight` share: a function to call that ends when the test says so, and callers of it."""

import asyncio
from typing import Any

from purgatory_async.patterns import SingleFlight
from tests.patterns.waiters import Waiter, waiting

__all__ = ["Service", "callers"]


class Service:
    """Something slow to call.

    Args:
        clean_up: For how many passes of the loop a call goes on when it is cancelled.
    """

    def __init__(self, clean_up: int = 0) -> None:
        self.answers: list[asyncio.Future[Any]] = []  # one for each call
        self.running = self.most_at_once = self.cancelled = 0
        self._clean_up = clean_up

    @property
    def calls(self) -> int:
        """How many calls have begun."""
        return len(self.answers)

    async def fetch(self) -> Any:
        """Wait for an answer."""
        answer = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            return await answer
        except asyncio.CancelledError:
            self.cancelled += 1
            for _ in range(self._clean_up):
                await asyncio.sleep(0)
            raise
        finally:
            self.running -= 1

    def answer(self, result: object) -> None:
        """End the latest call, with a result or an exception."""
        if isinstance(result, BaseException):
            self.answers[-1].set_exception(result)
        else:
            self.answers[-1].set_result(result)


async def callers(
    flight: SingleFlight, make: Any, number: int, *, key: object = "k", timeout: float | None = None
) -> list[Waiter]:
    """So many callers, all of them waiting."""
    return await waiting(*[flight.run(key, make, timeout=timeout) for _ in range(number)])
