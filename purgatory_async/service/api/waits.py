"""``/v1/wait``: wait once until a need holds, or for every signal after an index."""

from purgatory_async import Outcome
from purgatory_async.durable.documents import WireNeed, problems
from purgatory_async.durable.documents.names import distinct_keys
from purgatory_async.durable.history import Since
from purgatory_async.durable.later import after
from purgatory_async.durable.verbs.signals import MAX_FOLLOWED, follow, wanted_in
from purgatory_async.durable.waiting.waiters import end_of
from purgatory_async.service.api.query_string import Query
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, Answer, answer
from purgatory_async.service.http_service import HttpService
from purgatory_async.web.waiting import Wait


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
    most = query.integer("limit", 1, MAX_FOLLOWED) or MAX_FOLLOWED
    wanted = wanted_in(query.keys("key"), query.keys("prefix"), request)
    await service.state.caught_up()
    held_for = service.shortened(wait.seconds)
    followers = service.held.followers
    view = await follow(service.state, followers, wanted, since, most=most, wait=held_for, by=request)
    headers = (("X-Purgatory-Index", str(view.index)), ("X-Purgatory-Next", view.next), *wait.headers)
    if not view.signals and not view.gap and since.index is not None:
        return Answer(204, headers=headers)
    return answer(200, view, *headers)
