"""``/v1/keys`` and ``/v1/signals``: read a key or wait for its next signal; signal a key, or some in one step."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct

from purgatory_async.durable.documents import KeyedSignal, SignalBody, kept
from purgatory_async.durable.fold.entries import SignalKey, SignalKeys
from purgatory_async.service.api.holding import hold
from purgatory_async.service.api.long_lists import check_list
from purgatory_async.service.api.request import Request, decoded, decoded_each
from purgatory_async.service.contract.messages import MAX_SIGNALS, KeyView, Signalled, SignalledBatch
from purgatory_async.service.contract.names import checked_key
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.http_service import HttpService

MAX_INDEX: Final = 2**63 - 1


class _Batch(Struct, forbid_unknown_fields=True):
    """`SignalsBody`, its signals not yet decoded, so that each fault can be told."""

    signals: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_SIGNALS)]


_SIGNAL: Final = msgspec.json.Decoder(SignalBody)
_BATCH: Final = msgspec.json.Decoder(_Batch)
_KEYED: Final = msgspec.json.Decoder(KeyedSignal)


async def signal_key(service: HttpService, request: Request) -> Answer:
    """``POST /v1/keys/{key}/signal``: signal the key."""
    request.check_accept(JSON)
    request.query()
    key = request.key()
    text = await request.body()
    body = decoded(text, _SIGNAL, optional=True)
    once = await request.repeatable(text)
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
    result, completed = await service.signal(entry)
    headers = await service.records.settle()
    return answer(200, Signalled(key, result.index, completed), *headers, *replayed(result))


async def signal_keys(service: HttpService, request: Request) -> Answer:
    """``POST /v1/signals``: signal keys in this order and in one step, all or none."""
    request.check_accept(JSON)
    request.query()
    text = await request.body()
    check_list(text, "signals", MAX_SIGNALS)
    signals = decoded_each("signals", decoded(text, _BATCH).signals, _signal_of, "key")
    request.use(*(signal.key for signal in signals))
    once = await request.repeatable(text)
    entry = SignalKeys(signals=signals, idem=once.key, digest=once.digest, owner=request.grant.owner)
    entry.quota = request.grant.quota
    result, completed = await service.signal(entry)
    headers = await service.records.settle()
    return answer(200, SignalledBatch(result.index, completed), *headers, *replayed(result))


def _signal_of(text: Raw) -> KeyedSignal:
    signal = _KEYED.decode(text)
    checked_key(signal.key)
    signal.value = kept(signal.value)
    return signal


async def read_key(service: HttpService, request: Request) -> Answer:
    """``GET /v1/keys/{key}``: show the newest signal; with ``wait`` hold the request until one is above ``index``."""
    request.check_accept(JSON)
    query = request.query("index", "wait")
    index, wait = query.integer("index", 0, MAX_INDEX), request.wait(query, service.settings.max_wait)
    key = request.key()
    await service.state.caught_up()
    # Without index and wait this is a plain read: 304 has nothing to compare with.
    conditional = index is not None or wait.seconds > 0
    if conditional and _nothing_new(service, key, index or 0):
        # The next signal on the key ends the wait, and its index is the highest.
        held_for = service.shortened(wait.seconds)
        if not await hold(
            service, request, key, held_for, lambda: not _nothing_new(service, key, index or 0)
        ):
            return Answer(304, headers=(_index(service, key), *wait.headers))
    latest = service.fold.signals.latest(key)
    # A signal may have no value; an unknown or dropped key reads as one without signals.
    value = None if latest is None or latest.value is UNSET else latest.value
    view = KeyView(key, 0 if latest is None else latest.index, value)
    return answer(200, view, _index(service, key), *wait.headers)


def _nothing_new(service: HttpService, key: str, index: int) -> bool:
    """Whether the key has no signal above the index.

    An index above the newest position is from another epoch: then everything is new.
    """
    latest = service.fold.signals.latest(key)
    return index <= service.fold.position and (0 if latest is None else latest.index) <= index


def _index(service: HttpService, key: str) -> tuple[str, str]:
    latest = service.fold.signals.latest(key)
    return ("X-Purgatory-Index", str(0 if latest is None else latest.index))
