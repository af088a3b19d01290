"""``/v1/keys`` and ``/v1/signals``: read a key or wait for its next signal; signal a key, or some in one step."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct

from purgatory_async.durable.documents import KeyedSignal, SignalBody, kept
from purgatory_async.durable.fold.entries import SignalKey, SignalKeys
from purgatory_async.durable.later import Later, after, at_last
from purgatory_async.service.api.holding import hold
from purgatory_async.service.api.long_lists import check_list
from purgatory_async.service.api.repeating import Repeatable
from purgatory_async.service.api.request import Request, decoded, decoded_each
from purgatory_async.service.contract.messages import MAX_SIGNALS, KeyView, Signalled, SignalledBatch
from purgatory_async.service.contract.names import checked_key
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.http_service import HttpService
from purgatory_async.web.waiting import Wait

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
    return after(request.repeatable(text), lambda once: _signal_key(service, request, key, body, once))


def _signal_key(
    service: HttpService, request: Request, key: str, body: SignalBody, once: Repeatable
) -> Given:
    entry = SignalKey(
        key=key,
        value=kept(body.value),
        amount=body.amount,
        voter=body.voter,
        idem=once.key,
        digest=once.digest,
        owner=request.grant.owner,
        quota=request.grant.quota,
    )
    return after(
        service.signal(entry, request),
        lambda given: after(
            service.records.settle(),
            lambda headers: answer(
                200, Signalled(key, given[0].index, given[1]), *headers, *replayed(given[0])
            ),
        ),
    )


def signal_keys(service: HttpService, request: Request) -> Given:
    """``POST /v1/signals``: signal keys in this order and in one step, all or none."""
    request.check_accept(JSON)
    request.query()
    text = request.body()
    check_list(text, "signals", MAX_SIGNALS)
    signals = decoded_each("signals", decoded(text, _BATCH).signals, _signal_of, "key")
    request.use(*(signal.key for signal in signals))
    return _signal_keys(service, request, signals, request.repeatable(text))


async def _signal_keys(
    service: HttpService, request: Request, signals: tuple[KeyedSignal, ...], repeatable: Later[Repeatable]
) -> Answer:
    once = await at_last(repeatable)
    entry = SignalKeys(signals=signals, idem=once.key, digest=once.digest, owner=request.grant.owner)
    entry.quota = request.grant.quota
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
    query = request.query("index", "wait")
    index, wait = query.integer("index", 0, MAX_INDEX), request.wait(query, service.settings.max_wait)
    key = request.key()
    return after(service.caught_up(), lambda _: _read(service, request, key, index, wait))


def _read(service: HttpService, request: Request, key: str, index: int | None, wait: Wait) -> Given:
    # Without index and wait this is a plain read: 304 has nothing to compare with.
    conditional = index is not None or wait.seconds > 0
    above = index or 0
    if not conditional or _is_newer(service, key, above):
        return _shown(service, key, wait)
    # The next signal on the key ends the wait, and its index is the highest.
    return hold(
        service,
        request,
        key,
        service.shortened(wait.seconds),
        so=lambda: _is_newer(service, key, above),
        then=lambda newer: _shown(service, key, wait) if newer else _unchanged(service, key, wait),
    )


def _shown(service: HttpService, key: str, wait: Wait) -> Answer:
    latest = service.fold.signals.latest(key)
    # A signal may have no value; an unknown or dropped key reads as one without signals.
    value = None if latest is None or latest.value is UNSET else latest.value
    index = 0 if latest is None else latest.index
    return answer(200, KeyView(key, index, value), ("X-Purgatory-Index", str(index)), *wait.headers)


def _unchanged(service: HttpService, key: str, wait: Wait) -> Answer:
    return Answer(304, headers=(("X-Purgatory-Index", str(_index(service, key))), *wait.headers))


def _is_newer(service: HttpService, key: str, index: int) -> bool:
    """Whether the key has a signal above the index.

    An index above the newest position is from another epoch: then everything is new.
    """
    return index > service.fold.position or _index(service, key) > index


def _index(service: HttpService, key: str) -> int:
    latest = service.fold.signals.latest(key)
    return 0 if latest is None else latest.index
