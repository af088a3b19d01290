"""``/v1/keys/{key}/signal`` and ``/v1/signals``: signal a key, or some in one step."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

from purgatory_async.durable.documents import KeyedSignal, SignalBody, kept
from purgatory_async.durable.fold.entries import SignalKey, SignalKeys
from purgatory_async.service.api.long_lists import check_list
from purgatory_async.service.api.request import Request, decoded, pointed
from purgatory_async.service.contract.messages import MAX_SIGNALS, Fault, Signalled, SignalledBatch
from purgatory_async.service.contract.names import checked_key
from purgatory_async.service.contract.problems import Problem, invalid
from purgatory_async.service.http.answer import JSON, Answer, answer, replayed
from purgatory_async.service.service import Service

MAX_FAULTS: Final = 16


class _Batch(Struct, forbid_unknown_fields=True):
    """`SignalsBody`, its signals not yet decoded, so that each fault can be told."""

    signals: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_SIGNALS)]


_SIGNAL: Final = msgspec.json.Decoder(SignalBody)
_BATCH: Final = msgspec.json.Decoder(_Batch)
_KEYED: Final = msgspec.json.Decoder(KeyedSignal)


async def signal_key(service: Service, request: Request) -> Answer:
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


async def signal_keys(service: Service, request: Request) -> Answer:
    """``POST /v1/signals``: signal keys in this order and in one step, all or none."""
    request.check_accept(JSON)
    request.query()
    text = await request.body()
    check_list(text, "signals", MAX_SIGNALS)
    signals = _checked(decoded(text, _BATCH).signals)
    request.use(*(signal.key for signal in signals))
    once = await request.repeatable(text)
    entry = SignalKeys(signals=signals, idem=once.key, digest=once.digest, owner=request.grant.owner)
    entry.quota = request.grant.quota
    result, completed = await service.signal(entry)
    headers = await service.records.settle()
    return answer(200, SignalledBatch(result.index, completed), *headers, *replayed(result))


def _checked(texts: list[Raw]) -> tuple[KeyedSignal, ...]:
    """Decode the signals of a batch, or raise ``invalid`` with the first faults of all of them."""
    signals, faults = list[KeyedSignal](), list[Fault]()
    for number, text in enumerate(texts):
        place = f"/signals/{number}"
        try:
            signal = _KEYED.decode(text)
            checked_key(signal.key)
        except msgspec.ValidationError as error:
            pointer, detail = pointed(str(error))
            faults.append(Fault(place + pointer, detail))
        except Problem as problem:
            faults.append(Fault(f"{place}/key", problem.document.detail))
        else:
            signal.value = kept(signal.value)
            signals.append(signal)
        if len(faults) == MAX_FAULTS:
            break
    if faults:
        first, *more = faults
        raise invalid(first.pointer, first.detail, *more)
    return tuple(signals)
