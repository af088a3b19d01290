"""``/v1/keys``: signal one, or read it and hold the request until it has something new."""

from typing import Final

import msgspec
from msgspec import UNSET

from purgatory_async.service.answer import JSON, Answer, answer
from purgatory_async.service.messages import KeyView, SignalBody
from purgatory_async.service.request import Request, decoded
from purgatory_async.service.service import Service

SIGNAL: Final = msgspec.json.Decoder(SignalBody)
MAX_INDEX: Final = 2**63 - 1


async def signal(service: Service, request: Request) -> Answer:
    """``POST /v1/keys/{key}/signal``: say that something happened on the key."""
    request.check_accept(JSON)
    request.query()
    key = request.key()
    body = decoded(await request.body(), SIGNAL, optional=True)
    signalled = service.signal(key, body.value, body.amount, body.voter)
    return answer(200, signalled, _epoch(service), *await service.records.settle())


async def read(service: Service, request: Request) -> Answer:
    """``GET /v1/keys/{key}``: its newest signal; with ``wait`` hold until there is one above ``index``."""
    request.check_accept(JSON)
    query = request.query("index", "wait")
    index, wait = query.integer("index", 0, MAX_INDEX), request.wait(query, service.settings.max_wait)
    key = request.key()
    headers = (_epoch(service), *wait.headers)
    # Without an index and a wait it is a plain read, which has nothing to be unchanged against.
    conditional = index is not None or wait.seconds > 0
    if conditional and _nothing_new(service, key, index or 0):
        # A hold on a key ends with a signal, and a new signal's index is above every older one.
        held_for = service.shortened(wait.seconds)
        if not held_for or not await service.holds.until(key, held_for, request.receive):
            return Answer(304, headers=(_index(service, key), *headers))
    latest = service.board.latest(key)
    # A signal may also carry nothing; a key that is unknown or forgotten reads as one that never had any.
    value = None if latest is None or latest.value is UNSET else latest.value
    view = KeyView(key, 0 if latest is None else latest.index, value)
    return answer(200, view, _index(service, key), *headers)


def _nothing_new(service: Service, key: str, index: int) -> bool:
    """Whether a client that knows the key up to an index knows all there is.

    An index above the newest of all was given out before a restart: that client knows nothing of this epoch.
    """
    latest = service.board.latest(key)
    return index <= service.board.index and (0 if latest is None else latest.index) <= index


def _index(service: Service, key: str) -> tuple[str, str]:
    latest = service.board.latest(key)
    return ("X-Purgatory-Index", str(0 if latest is None else latest.index))


def _epoch(service: Service) -> tuple[str, str]:
    return ("X-Purgatory-Epoch", service.board.epoch)
