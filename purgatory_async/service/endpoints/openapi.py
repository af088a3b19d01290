"""``/openapi.json``: the contract, for machines."""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from purgatory_async.service.answer import JSON, Answer
from purgatory_async.service.endpoint import Endpoint
from purgatory_async.service.openapi import document
from purgatory_async.service.request import Request
from purgatory_async.service.service import Service

Routes = Mapping[str, Mapping[str, Endpoint]]


def with_description(routes: Routes) -> Routes:
    """Add the description of the routes to them, itself included.

    Args:
        routes: All others.

    Returns:
        All.
    """

    @lru_cache(maxsize=4)
    def encoded(prefix: str) -> bytes:
        """The document, once for each mount point."""
        return msgspec.json.encode(document(described, prefix))

    async def describe(service: Service, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
        """``GET /openapi.json``: what can be asked of the service, and what it answers."""
        request.query()
        request.check_accept(JSON)
        return Answer(200, encoded(request.prefix))

    itself = Endpoint(describe, None, {200: JSON})
    described = {**routes, "/openapi.json": {"GET": itself, "HEAD": itself}}
    return described
