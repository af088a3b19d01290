"""``/v1/wait``: wait for signals without an operation that anybody could ask for again."""

from purgatory_async import Outcome
from purgatory_async.service import problems
from purgatory_async.service.answer import JSON, Answer, answer
from purgatory_async.service.keys import distinct_keys
from purgatory_async.service.messages import WaitView
from purgatory_async.service.request import Request
from purgatory_async.service.service import Service


async def wait_once(service: Service, request: Request) -> Answer:
    """``GET /v1/wait``: hold the request until the need holds; the wait leaves nothing behind."""
    request.check_accept(JSON)
    query = request.query("key", "need", "wait", repeated="key")
    wait, need = request.wait(query, service.settings.max_wait), query.need()
    if not query.keys():
        raise problems.invalid("/key", f"name at least one key in the query, got {query.keys()!r}")
    keys = distinct_keys(query.keys())
    service.holds.check_room()
    if not wait.seconds:
        return Answer(204, headers=wait.headers)  # only signals from now on would count, so there are none
    operation = service.wait_once(keys, need, service.shortened(wait.seconds))
    try:
        await service.holds.until(operation, None, request.receive)
    finally:
        operation.cancel()  # the client left, or the service drains: nobody else can know of it
    if operation.outcome is not Outcome.COMPLETED:
        return Answer(204, headers=wait.headers)
    return answer(200, WaitView(operation.signals), *wait.headers)
