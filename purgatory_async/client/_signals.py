"""Signals one after another, over any number of requests; a loss is reported."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

from purgatory_async.client._model import Signal, SignalGap
from purgatory_async.client._talk import Request, Response, Talk, path, understood
from purgatory_async.client._verbs import Verbs, listed, wait_for

_NO_CONTENT: Final = 204


class _Reader:
    """The place that is reached, and the signals that came but were not taken yet.

    Args:
        verbs: Ask the service.
        keys: The keys to follow.
        prefixes: The prefixes of keys to follow.
        since: Where to begin.

    Raises:
        TypeError: The prefixes are a string, or a key is none.
    """

    def __init__(self, verbs: Verbs, keys: Iterable[str], prefixes: Iterable[str], since: str | int) -> None:
        prefixes, keys = listed("prefixes", prefixes), tuple(keys)
        for key in keys:
            if not isinstance(key, str):
                raise TypeError(f"a key must be text, got {key!r}")
        self.since = str(since)
        self._verbs: Final = verbs
        self._names: Final = (*(("key", key) for key in keys), *(("prefix", prefix) for prefix in prefixes))
        self._came: Final[deque[Signal]] = deque()
        self._reached = self.since  # once all that came is taken
        self._gap = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} since={self.since}>"

    def _more(self) -> Talk[None]:
        """Poll until a signal came after ``since``, or may be missing."""
        answer = yield from self._verbs.poll(self._ask, self._empty, None)
        signals, self._reached, self._gap = understood(answer, _page)
        self._came.extend(signals)

    def _ask(self, held: float) -> Request:
        query = (*self._names, ("since", self.since), *wait_for(held))
        return Request("GET", path("wait"), query=query, held=held, twice_is_once=True)

    def _empty(self, answer: Response) -> bool:
        """Whether nothing came; then the next request begins where this one has looked."""
        if answer.status != _NO_CONTENT:
            return False
        self.since = self._reached = understood(answer, lambda _: _next(answer.headers))
        return True

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


class Signals(_Reader):
    """The iterator of `Client.signals`; after an error it goes on where it was.

    Attributes:
        since: The place behind the last signal, or behind what was looked at without finding one: save it to go on
            there later.
    """

    def __init__(self, run: Callable[[Talk[None]], object], *reader: Any) -> None:
        super().__init__(*reader)
        self._run = run

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Signal:
        while (signal := self._taken()) is None:
            try:
                self._run(self._more())
            except StopIteration as stop:  # of a transport: it would end the caller's loop in silence
                raise RuntimeError(
                    f"a transport must not raise {stop!r}, which would end the signals"
                ) from stop
        return signal


class AsyncSignals(_Reader):
    """The iterator of `AsyncClient.signals`; see `Signals`."""

    def __init__(self, run: Callable[[Talk[None]], Awaitable[object]], *reader: Any) -> None:
        super().__init__(*reader)
        self._run = run

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Signal:
        while (signal := self._taken()) is None:
            try:
                await self._run(self._more())
            except StopAsyncIteration as stop:  # as for `StopIteration`
                raise RuntimeError(
                    f"a transport must not raise {stop!r}, which would end the signals"
                ) from stop
        return signal


def _next(headers: Mapping[str, str]) -> str:
    """Return the next ``since``, which an empty answer has in its headers."""
    return headers.get("x-purgatory-next") or "{x-purgatory-epoch}-{x-purgatory-index}".format_map(headers)


def _page(document: Mapping[str, Any]) -> tuple[Sequence[Signal], str, bool]:
    """Return the signals of an answer, the next ``since``, and whether a signal may be missing."""
    history = document["next"].rpartition("-")[0]
    signals = [
        Signal(
            each["key"],
            each["index"],
            f"{history}-{each['index']}",
            each.get("value"),
            each.get("amount", 1),
            each.get("voter"),
        )
        for each in document["signals"]
    ]
    return signals, document["next"], document["gap"]
