"""The verbs of keys and signals, carried out in this process."""

from collections.abc import AsyncIterator, Iterable, Mapping
from math import inf
from typing import Any

from purgatory_async import PurgatoryClosed
from purgatory_async.client._bodies import longest_wait, signalled
from purgatory_async.client._documents import followed, key_state
from purgatory_async.client._event_lines import EventLines
from purgatory_async.client._model import Event, KeyState
from purgatory_async.client._signals import SignalReader
from purgatory_async.cluster import LogUnavailable
from purgatory_async.durable.documents.decoding import decoded_integer
from purgatory_async.durable.documents.names import checked_key
from purgatory_async.durable.documents.problems import Kind, Problem
from purgatory_async.durable.later import at_last
from purgatory_async.durable.library.asking import Asking, plain, refusal, verb, written
from purgatory_async.durable.verbs.signals import (
    MAX_FOLLOWED,
    MAX_INDEX,
    follow,
    newer,
    newest,
    signal_in,
    signals_in,
    since_in,
    wanted_in,
)
from purgatory_async.durations import Duration


class Signals(Asking):
    """The verbs of signals; see `Backend`."""

    @verb
    async def signal(self, key: str, value: object, amount: int | None, voter: str | None) -> int:
        """Signal a key."""
        body = written(signalled(value, amount, voter))
        entry = signal_in(body, checked_key(key), self._caller)
        return (await at_last(self._keeper.signal(entry, self._caller)))[1]

    @verb
    async def signal_batch(self, signals: Iterable[Mapping[str, Any]]) -> int:
        """Signal keys in one step."""
        entry = signals_in(written({"signals": [dict(signal) for signal in signals]}), self._caller)
        return (await at_last(self._keeper.signal(entry, self._caller)))[1]

    @verb
    async def read(self, key: str) -> KeyState:
        """Read a key's newest signal."""
        checked_key(key)
        await self._caught_up()
        return key_state(plain(newest(self._keeper.fold, key)))

    @verb
    async def watch(self, key: str, index: int, timeout: Duration | None) -> KeyState | None:
        """Wait until a key has a signal above an index, or the timeout expires."""
        checked_key(key)
        above, timer = decoded_integer("index", str(index), 0, MAX_INDEX), self._keeper.timer
        until = timer.time() + longest_wait(timeout)
        await self._waits.patiently(until)
        while (view := newer(fold := self._keeper.fold, key, above)) is None:
            left = until - timer.time()
            if left <= 0:
                return None
            await self._until_signal(key, None if left == inf else left)
            # A state that was loaded again shows too little until it has caught up.
            if self._keeper.fold is not fold or newer(fold, key, above) is None:
                await self._waits.patiently(until)
        return key_state(plain(view))

    async def _until_signal(self, key: str, wait: float | None) -> None:
        """Return once a key may have a signal, after some seconds, or if the state was loaded again."""
        try:
            await self._waits.keys.until(self._caller, key, wait)
        except Problem as problem:
            if problem.kind is not Kind.GAP:  # to a newest signal all before it are the same
                raise

    @verb
    async def more_signals(self, reader: SignalReader) -> None:
        """Wait until a signal came after the reader's place, or may be missing; no outage is too long for that."""
        by, state, followers = self._caller, self._keeper.state, self._waits.followers
        wanted, since = wanted_in(reader.keys, reader.prefixes, by), since_in(reader.since)
        while True:
            await self._waits.patiently(inf)
            try:
                view = await follow(state, followers, wanted, since, most=MAX_FOLLOWED, wait=inf, by=by)
            except LogUnavailable:  # it was loaded again, and has gone since
                continue
            except Problem as problem:
                if problem.kind is not Kind.GAP:  # signals are dropped faster than they are found
                    raise
                continue
            return reader.came(*followed(plain(view)))

    def events(self, after: str | None) -> AsyncIterator[Event]:
        """Read events as they happen, without end."""
        return self._events(EventLines(after))

    async def _events(self, lines: EventLines) -> AsyncIterator[Event]:
        feed = self._waits.feed
        read = feed.newest if lines.last is None else feed.number_of(lines.last)
        while True:
            chunk, read = feed.read(read)
            for event in lines.feed(chunk.decode()):
                yield event
            try:
                await feed.reach(read + 1)
            except PurgatoryClosed as error:
                closed = refusal(error, self._waits)
                raise closed from None
