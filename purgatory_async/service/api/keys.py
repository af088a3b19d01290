"""``/v1/keys/{key}``: read a key, or wait for its next signal."""

from typing import Final

from msgspec import UNSET

from purgatory_async.service.api.holding import hold
from purgatory_async.service.api.request import Request
from purgatory_async.service.contract.messages import KeyView
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.service import Service

MAX_INDEX: Final = 2**63 - 1


async def read_key(service: Service, request: Request) -> Answer:
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


def _nothing_new(service: Service, key: str, index: int) -> bool:
    """Whether the key has no signal above the index.

    An index above the newest position is from another epoch: then everything is new.
    """
    latest = service.fold.signals.latest(key)
    return index <= service.fold.position and (0 if latest is None else latest.index) <= index


def _index(service: Service, key: str) -> tuple[str, str]:
    latest = service.fold.signals.latest(key)
    return ("X-Purgatory-Index", str(0 if latest is None else latest.index))
