"""Operations that write down what happens to them, and a place where errors without a caller are kept."""

import asyncio
from collections.abc import Callable

from purgatory_async import DelayedOperation


class Switch:
    """A condition that is turned on by hand."""

    def __init__(self) -> None:
        self.on = False

    def __call__(self) -> bool:
        return self.on


class Recorded(DelayedOperation[object]):
    """Writes its checks and hooks to a log, each with its name.

    Args:
        log: Where to.
        name: Its name.
        timeout: As for any operation.
        holds: Its condition; never true if not given.
        then: Called at the end of `on_complete`.
    """

    def __init__(
        self,
        log: list[str],
        name: str = "op",
        *,
        timeout: float | None = None,
        holds: Callable[[], bool] | None = None,
        then: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(timeout)
        self.log = log
        self.name = name
        self.holds = holds
        self.then = then

    def try_complete(self) -> bool:
        self.log.append(f"{self.name} checked")
        return self.holds is not None and self.holds() and self.force_complete()

    def on_complete(self) -> None:
        self.log.append(f"{self.name} completed")
        if self.then is not None:
            self.then()

    def on_expiration(self) -> None:
        self.log.append(f"{self.name} expired")


def errors_of_loop() -> list[dict[str, object]]:
    """Contexts passed to the running loop's exception handler from now on."""
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    return reported


def errors_without_loop(monkeypatch) -> list[object]:
    """Arguments of `sys.unraisablehook` from now on, in this test."""
    reported: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    return reported
