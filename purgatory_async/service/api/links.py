"""``/v1/operations/{id}/links``: make a link to a question."""

from purgatory_async.durable.later import after
from purgatory_async.durable.verbs import links
from purgatory_async.service.api.operations import id_of, operation_of
from purgatory_async.service.api.request import Request
from purgatory_async.service.held.given import Given
from purgatory_async.service.http.answer import JSON, answer
from purgatory_async.service.http_service import HttpService


def make_link(service: HttpService, request: Request) -> Given:
    """``POST /v1/operations/{id}/links``: make a link by which a person answers, without a token."""
    request.check_accept(JSON)
    request.query()
    id_of(request)
    order = links.link_order(request.body())

    def _made(_: None) -> Given:
        operation = operation_of(service, request)
        return answer(
            201, links.make_link(service.state, service.links, operation, order, request.grant.owner)
        )

    return after(service.caught_up(), _made)
