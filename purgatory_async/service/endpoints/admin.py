"""``/v1/admin``: let everybody go, and look at the whole service."""

from typing import Final

import msgspec

from purgatory_async.service.answer import JSON, Answer, answer
from purgatory_async.service.messages import DrainBody
from purgatory_async.service.request import Request, decoded
from purgatory_async.service.service import Service
from purgatory_async.service.stats import stats_of

DRAIN: Final = msgspec.json.Decoder(DrainBody)


async def drain(service: Service, request: Request) -> Answer:
    """``POST /v1/admin/drain``: as SIGTERM does, but the process goes on; asking again changes nothing."""
    request.check_accept(JSON)
    request.query()
    decoded(await request.body(), DRAIN, optional=True)
    return answer(202, service.begin_drain())


async def stats(service: Service, request: Request) -> Answer:
    """``GET /v1/admin/stats``: the service's figures."""
    request.check_accept(JSON)
    request.query()
    return answer(200, await stats_of(service))
