"""Signals one after another, as they are asked for; a loss is reported."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Self

from purgatory_async.client._bodies import listed
from purgatory_async.client._model import Signal, SignalGap


class SignalReader:
    """The place that is reached, and the signals that came but were not taken yet.

    Args:
        keys: The keys to follow.
        prefixes: The prefixes of keys to follow.
        since: Where to begin.

    Raises:
        TypeError: The prefixes are a string, or a key is none.
    """

    def __init__(self, keys: Iterable[str], prefixes: Iterable[str], since: str | int) -> None:
        self.prefixes: Final = tuple(listed("prefixes", prefixes))
        self.keys: Final = tuple(keys)
        for key in self.keys:
            if not isinstance(key, str):
                raise TypeError(f"a key must be text, got {key!r}")
        self.since = str(since)
        self._came: Final[deque[Signal]] = deque()
        self._reached = self.since  # once all that came is taken
        self._gap = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} since={self.since}>"

    def came(self, signals: Iterable[Signal], reached: str, gap: bool) -> None:
        """Let signals come after ``since``, up to a place; ``gap`` says that one may be missing before them."""
        self._came.extend(signals)
        self._reached = reached
        self._gap = gap

    def looked(self, reached: str) -> None:
        """Go on behind a place up to which no signal came."""
        self.since = self._reached = reached

    def _taken(self) -> Signal | None:
        """Return the next signal, and make its place the one that is reached; None to ask for more.

        Raises:
            SignalGap: One may be missing before it; raised once.
        """
        if self._gap:
            self._gap = False
            raise SignalGap(self.since)
        signal = self._came.popleft() if self._came else None
        self.since = signal.place if signal is not None and self._came else self._reached
        return signal


class Signals(SignalReader):
    """The iterator of `Client.signals`; after an error it goes on where it was.

    Attributes:
        since: The place behind the last signal, or behind what was looked at without finding one: save it to go on
            there later.
    """

    def __init__(
        self,
        more: Callable[[SignalReader], object],
        keys: Iterable[str],
        prefixes: Iterable[str],
        since: str | int,
    ) -> None:
        super().__init__(keys, prefixes, since)
        self._more = more

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Signal:
        while (signal := self._taken()) is None:
            try:
                self._more(self)
            except StopIteration as stop:  # of a transport: it would end the caller's loop in silence
                raise RuntimeError(
                    f"a transport must not raise {stop!r}, which would end the signals"
                ) from stop
        return signal


class AsyncSignals(SignalReader):
    """The iterator of `AsyncVerbs.signals`; see `Signals`."""

    def __init__(
        self,
        more: Callable[[SignalReader], Awaitable[object]],
        keys: Iterable[str],
        prefixes: Iterable[str],
        since: str | int,
    ) -> None:
        super().__init__(keys, prefixes, since)
        self._more = more

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Signal:
        while (signal := self._taken()) is None:
            try:
                await self._more(self)
            except StopAsyncIteration as stop:  # as for `StopIteration`
                raise RuntimeError(
                    f"a transport must not raise {stop!r}, which would end the signals"
                ) from stop
        return signal
