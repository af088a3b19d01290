"""One good request for every method of every path, and the state that it needs; what is generated from the routes."""

from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from purgatory_async.durable.documents import Ask
from purgatory_async.durable.fold.entries import EndOperation, PutItem, SignalKey, SubmitOperation, WantItem
from purgatory_async.service.api.page import MODULES
from purgatory_async.service.api.routes import ROUTES

SAFE = {"GET", "HEAD"}


@dataclass(frozen=True)
class Sample:
    """A request; each ``{}`` is replaced by the beginning of all names.

    Attributes:
        status: The status of its answer, if it may.
        query: With which it holds, or is narrowed to a name.
        id: The operation in its path.
    """

    status: int
    body: Any = None
    query: str = ""
    id: str = "{}op"

    def target(self, path, start):
        """The target for names that begin with some text, which needs no escapes."""
        names = {
            "{id}": f"{start}lease" if "lease" in path else self.id.replace("{}", start),
            "{token}": "unknown",
        }
        names |= {"{key}": f"{start}key", "{queue}": f"{start}queue"}
        for name, value in names.items():
            path = path.replace(name, value)
        return path + self.query.replace("{}", start)

    def content(self, start):
        """Its body for names that begin with some text."""
        return filled(self.body, start)


SAMPLES = {
    "GET /v1/operations": Sample(200, query="?key={}key"),
    "POST /v1/operations": Sample(202, {"keys": ["{}key"]}),
    "GET /v1/operations/{id}": Sample(200),
    "PUT /v1/operations/{id}": Sample(202, {"keys": ["{}key"]}, id="{}new"),
    "DELETE /v1/operations/{id}": Sample(200),
    "POST /v1/operations/{id}/complete": Sample(200, {}),
    "POST /v1/operations/{id}/fail": Sample(200, {"error": "no"}),
    "POST /v1/operations/{id}/answer": Sample(200, {"choice": "ok"}),
    "POST /v1/operations/{id}/reschedule": Sample(200, {"timeout": 9}),
    "POST /v1/operations/{id}/forget": Sample(204, {}, id="{}ended"),
    "POST /v1/operations/{id}/links": Sample(409, {}),  # off without a public URL
    "GET /v1/keys/{key}": Sample(200),
    "POST /v1/keys/{key}/signal": Sample(200, {}),
    "POST /v1/signals": Sample(200, {"signals": [{"key": "{}key"}, {"key": "{}other"}]}),
    "GET /v1/wait": Sample(204, query="?key={}key"),
    "GET /v1/queues": Sample(200, query="?prefix={}"),
    "GET /v1/queues/{queue}": Sample(200),
    "PUT /v1/queues/{queue}": Sample(200, {"max_items": 9}),
    "DELETE /v1/queues/{queue}": Sample(204),
    "GET /v1/queues/{queue}/items": Sample(200),
    "POST /v1/queues/{queue}/items": Sample(201, {"item": 1}),
    "POST /v1/queues/{queue}/take": Sample(200, {}),
    "POST /v1/queues/{queue}/purge": Sample(200, {}),
    "POST /v1/queues/{queue}/redrive": Sample(200, {}),
    "GET /v1/leases": Sample(200, query="?queue={}queue"),
    "POST /v1/leases/ack": Sample(200, {"leases": ["{}lease"]}),
    "POST /v1/leases/return": Sample(200, {"leases": ["{}lease"]}),
    "POST /v1/leases/{id}/ack": Sample(204, {}),
    "POST /v1/leases/{id}/return": Sample(204, {}),
    "POST /v1/leases/{id}/extend": Sample(200, {}),
    "GET /v1/events": Sample(200),
    "POST /v1/admin/drain": Sample(202, {}),
    "GET /v1/admin/stats": Sample(200),
    "GET /healthz": Sample(200),
    "GET /readyz": Sample(200),
    "GET /metrics": Sample(200),
    "GET /": Sample(308),
    "GET /ui": Sample(308),
    "GET /ui/": Sample(200),
    "GET /ui/app.js": Sample(200),
    **{f"GET /ui/{name}": Sample(200) for name in MODULES},
    "GET /ui/style.css": Sample(200),
    "GET /ui/feed": Sample(200),
    "GET /a/style.css": Sample(200),
    "GET /a/{token}": Sample(404),
    "POST /a/{token}": Sample(404, {"choice": "yes"}),
    "GET /ui/operations": Sample(200, query="?search={}"),
    "GET /ui/questions": Sample(200),
    "GET /openapi.json": Sample(200),
}
"""By method and path; HEAD is as GET. A route without one fails `test_every_request`."""

LINKS = {"POST /v1/operations/{id}/links", "POST /a/{token}"}
CHANGES = [row for row in SAMPLES if row.split()[0] not in SAFE and row not in LINKS]
"""What changes something by the rights of a token: not the making of a link, nor an answer by one."""

REPEATABLE = [row for row in CHANGES if "Idempotency-Key" in ROUTES[row.split()[1]][row.split()[0]].headers]
"""What happens once for an Idempotency-Key."""


def filled(value, start):
    """Some JSON whose texts begin with ``start`` in place of ``{}``."""
    if isinstance(value, str):
        return value.replace("{}", start)
    if isinstance(value, list):
        return [filled(each, start) for each in value]
    if isinstance(value, dict):
        return {name: filled(each, start) for name, each in value.items()}
    return value


def furnish(client, start, owner=None):
    """Make a question, an ended operation, a signal, items, dead ones and a lease, whose names begin with ``start``."""
    queue = f"{start}queue"
    for entry in (
        SignalKey(key=f"{start}key", owner=owner),
        SubmitOperation(id=f"{start}op", keys=(f"{start}key",), owner=owner, ask=Ask("Go?")),
        SubmitOperation(id=f"{start}ended", keys=(f"{start}key",), owner=owner),
        EndOperation(id=f"{start}ended", how="cancelled"),
        *(PutItem(queue=queue, item=Raw(b"1"), delay_us=0, owner=owner) for _ in range(2)),
        PutItem(queue=f"{queue}.dead", item=Raw(b"2"), delay_us=0, owner=owner),
        WantItem(queue=queue, lease_id=f"{start}lease", max=1, owner=owner),
    ):
        client.post(entry)


def routes():
    """Every method and path of the service but HEAD, which is GET's."""
    return {f"{method} {path}" for path, methods in ROUTES.items() for method in methods if method != "HEAD"}
