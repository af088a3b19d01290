"""Whether the service lives, whether it should be sent anything, and its figures."""

from typing import Final

from prometheus_client import generate_latest

from purgatory_async.service import problems
from purgatory_async.service.answer import JSON, Answer, answer
from purgatory_async.service.messages import Health
from purgatory_async.service.request import Request
from purgatory_async.service.service import Service

EXPOSITION: Final = "text/plain"


async def alive(service: Service, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
    """``/healthz``: the loop turns, so this is answered."""
    request.query()
    request.check_accept(JSON)
    return answer(200, Health("ok"))


async def ready(service: Service, request: Request) -> Answer:
    """``/readyz``: 503 while it drains or the disk takes nothing, so that a balancer sends requests elsewhere."""
    request.query()
    request.check_accept(JSON)
    reasons = [
        *(["draining"] if service.leaving else []),
        *(["disk"] if service.records.refusing else []),
    ]
    if reasons:
        raise problems.not_ready(reasons)
    return answer(200, Health("ready"))


async def metrics(service: Service, request: Request) -> Answer:
    """``/metrics``: Prometheus's text format; all of it is of one moment, for nothing else runs meanwhile."""
    request.query()
    request.check_accept(EXPOSITION)
    text = generate_latest(service.metrics.registry)
    return Answer(200, text, f"{EXPOSITION}; version=0.0.4; charset=utf-8")
