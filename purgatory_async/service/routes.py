"""Every path of the service, what each method leads to, and who may call it: the contract as one table."""

from collections.abc import Mapping
from typing import Final

from purgatory_async.service.endpoint import Endpoint, Permission
from purgatory_async.service.endpoints import admin, events, health, keys, operations, queues, ui, wait

__all__ = ["ROUTES"]

_READ: Final = Permission.READ
_WAIT: Final = Permission.WAIT
_SIGNAL: Final = Permission.SIGNAL
_ADMIN: Final = Permission.ADMIN

ROUTES: Final[Mapping[str, Mapping[str, Endpoint]]] = {
    "/v1/operations": {
        "GET": Endpoint(operations.list_pending, _READ),
        "POST": Endpoint(operations.submit, _WAIT),
    },
    "/v1/operations/{id}": {
        "GET": Endpoint(operations.status, _READ),
        "DELETE": Endpoint(operations.cancel, _WAIT),
    },
    "/v1/operations/{id}/complete": {"POST": Endpoint(operations.complete, _ADMIN)},
    "/v1/keys/{key}": {"GET": Endpoint(keys.read, _READ)},
    "/v1/keys/{key}/signal": {"POST": Endpoint(keys.signal, _SIGNAL)},
    "/v1/wait": {"GET": Endpoint(wait.wait_once, _WAIT)},
    "/v1/queues/{queue}/items": {"POST": Endpoint(queues.put, _SIGNAL)},
    "/v1/queues/{queue}/take": {"POST": Endpoint(queues.take, _WAIT)},
    "/v1/leases/{id}/ack": {"POST": Endpoint(queues.acknowledge, _WAIT)},
    "/v1/leases/{id}/return": {"POST": Endpoint(queues.give_back, _WAIT)},
    "/v1/events": {"GET": Endpoint(events.events, _READ)},
    "/v1/admin/drain": {"POST": Endpoint(admin.drain, _ADMIN)},
    "/v1/admin/stats": {"GET": Endpoint(admin.stats, _ADMIN)},
    "/healthz": {"GET": Endpoint(health.alive, None), "HEAD": Endpoint(health.alive, None)},
    "/readyz": {"GET": Endpoint(health.ready, None), "HEAD": Endpoint(health.ready, None)},
    "/metrics": {"GET": Endpoint(health.metrics, _READ)},
    "/ui": {"GET": Endpoint(ui.entry, None), "HEAD": Endpoint(ui.entry, None)},
    "/ui/": {"GET": Endpoint(ui.page, None), "HEAD": Endpoint(ui.page, None)},
    "/ui/app.js": {"GET": Endpoint(ui.script, None), "HEAD": Endpoint(ui.script, None)},
    "/ui/style.css": {"GET": Endpoint(ui.style, None), "HEAD": Endpoint(ui.style, None)},
}
