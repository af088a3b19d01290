"""``/v1/keys`` and ``/v1/signals``: read a key or wait for its next signal; signal a key, or some in one step."""

from functools import partial

from purgatory_async.durable.documents.messages import Signalled, SignalledBatch
from purgatory_async.durable.fold import results
from purgatory_async.durable.fold.entries import SignalKey, SignalKeys
from purgatory_async.durable.later import Later, after, at_last
from purgatory_async.durable.verbs.signals import MAX_INDEX, newer, newest, signal_in, signals_in
from purgatory_async.service.api.holding import Awaited
from purgatory_async.service.api.query_string import usual_read
from purgatory_async.service.api.repeating import ONCE, Repeatable
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.http_service import HttpService
from purgatory_async.web.waiting import Wait, decided_wait


def signal_key(service: HttpService, request: Request) -> Given:
    """``POST /v1/keys/{key}/signal``: signal the key."""
    request.check_accept(JSON)
    request.query()
    key = request.key()
    text = request.body()
    entry = signal_in(text, key, request)
    once = request.repeatable(text, entry, service.state)
    if once is ONCE:  # written out, as most have no key: `bench.service --only instructions`
        return _signal_key(service, request, entry, ONCE)
    return after(once, partial(_signal_key, service, request, entry))


def _signal_key(service: HttpService, request: Request, entry: SignalKey, once: Repeatable) -> Given:
    entry.idem, entry.digest = once
    return after(service.signal(entry, request), partial(_signalled, service, entry.key))


def _signalled(service: HttpService, key: str, given: tuple[results.Signalled, int]) -> Given:
    result, completed = given
    return after(
        service.records.settle(),
        lambda headers: answer(200, Signalled(key, result.index, completed), *headers, *replayed(result)),
    )


def signal_keys(service: HttpService, request: Request) -> Given:
    """``POST /v1/signals``: signal keys in this order and in one step, all or none."""
    request.check_accept(JSON)
    request.query()
    text = request.body()
    entry = signals_in(text, request)
    return _signal_keys(service, request, entry, request.repeatable(text, entry, service.state))


async def _signal_keys(
    service: HttpService, request: Request, entry: SignalKeys, repeatable: Later[Repeatable]
) -> Answer:
    entry.idem, entry.digest = await at_last(repeatable)
    result, completed = await at_last(service.signal(entry, request))
    headers = await at_last(service.records.settle())
    return answer(200, SignalledBatch(result.index, completed), *headers, *replayed(result))


def read_key(service: HttpService, request: Request) -> Given:
    """``GET /v1/keys/{key}``: show the newest signal; with ``wait`` hold the request until one is above ``index``."""
    request.check_accept(JSON)
    index, wait = _asked(request, service.settings.max_wait)
    read = _Read(service, request, request.key(), wait)
    # Without index and wait this is a plain read: 304 has nothing to compare with.
    read.above = -1 if index is None and wait.seconds <= 0 else index or 0
    return after(service.caught_up(), read.begin)


def _asked(request: Request, max_wait: float) -> tuple[int | None, Wait]:
    usual = usual_read(request.query_string)
    if usual is None:
        query = request.query("index", "wait")
        return query.integer("index", 0, MAX_INDEX), request.wait(query, max_wait)
    index, seconds = usual
    return index, decided_wait(seconds, request.header("prefer"), max_wait)


class _Read(Awaited):
    """A read of a key, which may wait for the next signal above an index."""

    __slots__ = ("above",)

    above: int

    def look(self) -> Answer | None:
        """Show the newest signal, if it is above the index."""
        view = newer(self.service.state.fold, self.watched, self.above)
        if view is None:
            return None
        return answer(200, view, ("X-Purgatory-Index", str(view.index)), *self.wait.headers)

    def over(self) -> Answer:
        """Show that there is none."""
        index = newest(self.service.fold, self.watched).index
        return Answer(304, headers=(("X-Purgatory-Index", str(index)), *self.wait.headers))
