"""``/v1/wait``: wait once until a need holds, or for every signal after an index."""

from collections.abc import Sequence
from typing import Final

import msgspec

from purgatory_async import Outcome
from purgatory_async.durable.documents import WireNeed, problems
from purgatory_async.durable.documents.fitting import ANSWER_BYTES
from purgatory_async.durable.documents.messages import FollowedSignal, FollowView
from purgatory_async.durable.documents.names import MAX_KEYS, checked_key, distinct_keys
from purgatory_async.durable.fold.signals import Signal
from purgatory_async.durable.history import Since, history_at
from purgatory_async.durable.later import after
from purgatory_async.durable.since import Found, Seen, Wanted
from purgatory_async.durable.waiting.waiters import end_of
from purgatory_async.service.api.query_string import Query
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService
from purgatory_async.web.waiting import Wait

MAX_SIGNALS: Final = 256
# What an answer has around its signals: the names of its members, two indexes and a history.
_AROUND: Final = 256


def wait_once(service: HttpService, request: Request) -> Given:
    """``GET /v1/wait``: hold the request until a need holds, or with ``since`` while no signal came after that."""
    request.check_accept(JSON)
    names = ("full", "key", "limit", "need", "prefix", "since", "wait")
    query = request.query(*names, repeated=("key", "prefix"))
    query.only_with("since", "limit", "prefix")
    since = query.since()
    if since is not None:
        return _follow(service, request, query, since)
    wait, need = request.wait(query, service.settings.max_wait), query.need()
    full = query.switch("full")
    if not query.keys():
        raise problems.invalid("/key", f"name at least one key in the query, got {query.keys()!r}")
    keys = distinct_keys(query.keys())
    request.use(*keys)
    service.held.requests.check_limit()
    if not wait.seconds:
        return Answer(204, headers=wait.headers)  # only later signals count
    # Only later signals count, wherever the earlier ones were given.
    return after(service.caught_up(), lambda _: _wait(service, request, keys, need, wait, full=full))


def _wait(
    service: HttpService, request: Request, keys: tuple[str, ...], need: WireNeed, wait: Wait, *, full: bool
) -> Given:
    held_for = service.shortened(wait.seconds)
    once = service.wait_once(keys, need, held_for, request.grant)

    def _ended(_: object = None) -> Answer:
        once.cancel()  # its time is over
        if once.fulfilled:
            return Answer(200, once.view(full=full), headers=wait.headers)
        if isinstance(once.exception, problems.Problem):
            raise once.exception
        if once.outcome is Outcome.FAILED:
            raise problems.gap()
        return Answer(204, headers=wait.headers)

    async def _catch_up() -> Answer:
        try:
            await service.state.caught_up()
        finally:
            once.cancel()
        return _ended()

    def _go_on(happened: bool) -> Given:
        return _ended() if happened or service.state.is_caught_up() else _catch_up()

    def _give_up(_: Exception) -> None:
        once.cancel()

    # One that has a timeout ends its hold by itself.
    longest = held_for if once.timeout is None else None
    return service.held.requests.hold(request, end_of(once), longest, _go_on, otherwise=_give_up)


async def _follow(service: HttpService, request: Request, query: Query, since: Since) -> Answer:
    """Answer with every signal after an index, or hold the request while there is none."""
    wait = request.wait(query, service.settings.max_wait)
    for name in ("need", "full"):
        if name in query.values:
            raise problems.bad_parameter(name, query.values[name][0], "left out beside since")
    limit = query.integer("limit", 1, MAX_SIGNALS) or MAX_SIGNALS
    wanted = _wanted(query)
    request.use(*wanted.keys, *wanted.prefixes)
    await service.state.caught_up()
    if since.index is None:
        found = Found((), gap=False)
    else:
        seen = Seen(since.history or service.state.epoch, since.index)
        held_for = service.shortened(wait.seconds)
        # One more than fits: then there are more.
        found = await service.held.followers.follow(wanted, seen, most=limit + 1, wait=held_for, by=request)
    shown = _shown(found.signals, limit)
    more = len(shown) < len(found.signals)
    index = shown[-1].index if more else service.fold.signals.highest
    following = f"{history_at(service.state, index)}-{index}"
    headers = (("X-Purgatory-Index", str(index)), ("X-Purgatory-Next", following), *wait.headers)
    if not shown and not found.gap and since.index is not None:
        return Answer(204, headers=headers)
    view = FollowView(shown, index, following, more, found.gap)
    return answer(200, view, *headers)


def _wanted(query: Query) -> Wanted:
    """Return the distinct keys and prefixes, each checked.

    Raises:
        Problem: ``invalid``, ``bad-key`` or ``too-many-keys``.
    """
    keys, prefixes = (tuple(dict.fromkeys(query.keys(name))) for name in ("key", "prefix"))
    if not keys and not prefixes:
        raise problems.invalid("/key", "name at least one key or prefix in the query, got none")
    if len(keys) + len(prefixes) > MAX_KEYS:
        raise problems.too_many_keys(len(keys) + len(prefixes), MAX_KEYS)
    return Wanted(tuple(map(checked_key, keys)), tuple(map(checked_key, prefixes)))


def _shown(signals: Sequence[Signal], limit: int) -> list[FollowedSignal]:
    """Return at most ``limit`` signals as they are shown, at least one, and no more than an answer holds."""
    shown: list[FollowedSignal] = []
    room = ANSWER_BYTES - _AROUND
    for signal in signals[:limit]:
        view = signal.view
        one = FollowedSignal(view.key, view.index, view.value, signal.amount, view.voter)
        room -= len(msgspec.json.encode(one)) + 1  # and a comma
        if room < 0 and shown:
            break
        shown.append(one)
    return shown
