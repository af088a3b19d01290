"""``/v1/keys`` and ``/v1/signals``: read a key or wait for its next signal; signal a key, or some in one step."""

from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct

from purgatory_async.durable.documents import KeyedSignal, SignalBody, kept
from purgatory_async.durable.documents.decoding import decoded, decoded_each
from purgatory_async.durable.documents.messages import MAX_SIGNALS, KeyView, Signalled, SignalledBatch
from purgatory_async.durable.documents.names import checked_key
from purgatory_async.durable.fold import results
from purgatory_async.durable.fold.entries import SignalKey, SignalKeys
from purgatory_async.durable.later import Later, after, at_last
from purgatory_async.service.api.holding import Awaited
from purgatory_async.service.api.long_lists import check_list
from purgatory_async.service.api.query_string import usual_read
from purgatory_async.service.api.repeating import Repeatable
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.http_service import HttpService
from purgatory_async.web.waiting import Wait, decided_wait

MAX_INDEX: Final = 2**63 - 1


class _Batch(Struct, forbid_unknown_fields=True):
    """`SignalsBody`, its signals not yet decoded, so that each fault can be told."""

    signals: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_SIGNALS)]


_SIGNAL: Final = msgspec.json.Decoder(SignalBody)
_BATCH: Final = msgspec.json.Decoder(_Batch)
_KEYED: Final = msgspec.json.Decoder(KeyedSignal)


def signal_key(service: HttpService, request: Request) -> Given:
    """``POST /v1/keys/{key}/signal``: signal the key."""
    request.check_accept(JSON)
    request.query()
    key = request.key()
    text = request.body()
    body = decoded(text, _SIGNAL, optional=True)
    grant = request.grant
    entry = SignalKey(
        key=key,
        value=kept(body.value),
        amount=body.amount,
        voter=body.voter,
        owner=grant.owner,
        quota=grant.quota,
    )
    return after(
        request.repeatable(text, entry, service.state), partial(_signal_key, service, request, entry)
    )


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
    check_list(text, "signals", MAX_SIGNALS)
    signals = decoded_each("signals", decoded(text, _BATCH).signals, _signal_of, "key")
    request.use(*(signal.key for signal in signals))
    entry = SignalKeys(signals=signals, owner=request.grant.owner, quota=request.grant.quota)
    return _signal_keys(service, request, entry, request.repeatable(text, entry, service.state))


async def _signal_keys(
    service: HttpService, request: Request, entry: SignalKeys, repeatable: Later[Repeatable]
) -> Answer:
    entry.idem, entry.digest = await at_last(repeatable)
    result, completed = await at_last(service.signal(entry, request))
    headers = await at_last(service.records.settle())
    return answer(200, SignalledBatch(result.index, completed), *headers, *replayed(result))


def _signal_of(text: Raw) -> KeyedSignal:
    signal = _KEYED.decode(text)
    checked_key(signal.key)
    signal.value = kept(signal.value)
    return signal


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
    """A read of a key, which may wait for the next signal above an index. The key's newest has the highest."""

    __slots__ = ("above",)

    above: int

    def look(self) -> Answer | None:
        """Show the newest signal, if it is above the index."""
        fold = self.service.state.fold
        latest = fold.signals.latest(self.watched)
        index = 0 if latest is None else latest.index
        # An index above the newest position is from another epoch: then everything is new.
        if index <= self.above <= fold.position:
            return None
        # A signal may have no value; an unknown or dropped key reads as one without signals.
        value = None if latest is None or latest.value is UNSET else latest.value
        view = KeyView(self.watched, index, value)
        return answer(200, view, ("X-Purgatory-Index", str(index)), *self.wait.headers)

    def over(self) -> Answer:
        """Show that there is none."""
        latest = self.service.fold.signals.latest(self.watched)
        index = 0 if latest is None else latest.index
        return Answer(304, headers=(("X-Purgatory-Index", str(index)), *self.wait.headers))
