"""The table of all paths and methods: endpoint, permission, bodies, answers and problems."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from purgatory_async.durable.documents import OperationView, SignalBody
from purgatory_async.durable.documents.messages import (
    Attach,
    Complete,
    DrainBody,
    Draining,
    Fail,
    FollowView,
    Forget,
    Health,
    KeyView,
    LinkAnswer,
    LinkAnswered,
    LinkBody,
    LinkView,
    OperationList,
    PersonsAnswer,
    Reschedule,
    Signalled,
    SignalledBatch,
    SignalsBody,
    Submit,
    WaitView,
)
from purgatory_async.durable.documents.problems import Kind
from purgatory_async.durable.documents.queue_messages import (
    Delivered,
    DeliveredItems,
    ExtendBody,
    Extended,
    ItemBody,
    ItemList,
    ItemsBody,
    Leased,
    LeasedItems,
    LeaseList,
    LeasesBody,
    LeasesEnded,
    PurgeBody,
    Purged,
    QueueBody,
    QueueList,
    QueueView,
    RedriveBody,
    Redriven,
    ReturnBody,
    TakeBody,
)
from purgatory_async.durable.grants import Permission
from purgatory_async.durable.stats.messages import DashboardFeed, QuestionPage, SearchPage, Stats
from purgatory_async.service.api import (
    admin,
    answering,
    answers,
    dashboard,
    leases,
    links,
    operations,
    page,
    queue_views,
    queues,
    signals,
    waits,
)
from purgatory_async.service.api.endpoint import Endpoint
from purgatory_async.service.api.openapi import with_description
from purgatory_async.service.api.request import REPEATABLE
from purgatory_async.service.contract.http_problems import HttpKind
from purgatory_async.service.held.stream import EVENT_STREAM

_READ: Final = Permission.READ
_WAIT: Final = Permission.WAIT
_SIGNAL: Final = Permission.SIGNAL
_ANSWER: Final = Permission.ANSWER
_ADMIN: Final = Permission.ADMIN

_PREFER: Final = ("Prefer",)
_ID: Final = (Kind.UNKNOWN_OPERATION, Kind.FORGOTTEN)
_HELD: Final = (Kind.OVERLOADED, Kind.DRAINING, Kind.GAP)
_REPEATABLE: Final = (Kind.IDEMPOTENCY_MISMATCH, HttpKind.BAD_HEADER)
_ANSWERED: Final = (*_ID, Kind.ALREADY_ENDED, Kind.OVERLOADED, *_REPEATABLE, Kind.UPGRADE_PENDING)
_CHANGE: Final = partial(Endpoint, answers={200: OperationView}, headers=(REPEATABLE,), problems=_ANSWERED)
_LEASE: Final = (Kind.UNKNOWN_LEASE, Kind.LEASE_EXPIRED)
_LINK: Final = (HttpKind.UNKNOWN_LINK, HttpKind.LINK_EXPIRED, Kind.FORGOTTEN, Kind.STORE_UNAVAILABLE)
_QUEUE: Final = (Kind.BAD_KEY,)
_KEYS: Final = (Kind.BAD_KEY, Kind.TOO_MANY_KEYS)


def _file(serve: object, media_type: str | None, status: int = 200) -> Mapping[str, Endpoint]:
    return {"GET": Endpoint(serve, None, {status: media_type})}  # type: ignore[arg-type]


_ROUTES: Final[Mapping[str, Mapping[str, Endpoint]]] = {
    "/v1/operations": {
        "GET": Endpoint(
            operations.list_operations,
            _READ,
            {200: OperationList},
            query=("cursor", "id_prefix", "key", "limit", "state"),
            problems=(Kind.BAD_KEY,),
        ),
        "POST": Endpoint(
            operations.submit_operation,
            _WAIT,
            dict.fromkeys((200, 201, 202), OperationView),
            query=("full", "wait"),
            headers=(REPEATABLE, "Prefer"),
            body=Submit,
            needs_body=True,
            problems=(*_KEYS, *_HELD, Kind.DUPLICATE_ID, Kind.FORGOTTEN, *_REPEATABLE, Kind.UPGRADE_PENDING),
        ),
    },
    "/v1/operations/{id}": {
        "GET": Endpoint(
            operations.read_operation,
            _READ,
            {200: OperationView},
            query=("full", "wait"),
            headers=_PREFER,
            problems=(*_ID, *_HELD),
            own=_WAIT,
            answering=_ANSWER,
        ),
        "PUT": Endpoint(
            operations.attach_operation,
            _WAIT,
            dict.fromkeys((200, 201, 202), OperationView),
            query=("full", "wait"),
            headers=_PREFER,
            body=Attach,
            needs_body=True,
            problems=(*_KEYS, *_HELD, Kind.DUPLICATE_ID, Kind.FORGOTTEN, Kind.UPGRADE_PENDING),
        ),
        "DELETE": Endpoint(
            operations.cancel_operation, _WAIT, {200: OperationView}, problems=(*_ID, Kind.OVERLOADED)
        ),
    },
    "/v1/operations/{id}/links": {
        "POST": Endpoint(
            links.make_link,
            _ANSWER,
            {201: LinkView},
            body=LinkBody,
            problems=(*_ID, Kind.ALREADY_ENDED, Kind.LINKS_OFF),
        )
    },
    "/v1/operations/{id}/complete": {"POST": _CHANGE(answers.complete_operation, _ANSWER, body=Complete)},
    "/v1/operations/{id}/fail": {
        "POST": _CHANGE(answers.fail_operation, _ANSWER, body=Fail, needs_body=True)
    },
    "/v1/operations/{id}/answer": {
        "POST": _CHANGE(answers.answer_operation, _ANSWER, body=PersonsAnswer, needs_body=True)
    },
    "/v1/operations/{id}/reschedule": {
        "POST": _CHANGE(answers.reschedule_operation, _WAIT, body=Reschedule, needs_body=True)
    },
    "/v1/operations/{id}/forget": {
        "POST": Endpoint(
            answers.forget_operation,
            _WAIT,
            {204: None},
            body=Forget,
            problems=(*_ID, Kind.PENDING, Kind.UPGRADE_PENDING),
        )
    },
    "/v1/keys/{key}": {
        "GET": Endpoint(
            signals.read_key,
            _READ,
            {200: KeyView, 304: None},
            query=("index", "wait"),
            headers=_PREFER,
            problems=(Kind.BAD_KEY, *_HELD),
        )
    },
    "/v1/keys/{key}/signal": {
        "POST": Endpoint(
            signals.signal_key,
            _SIGNAL,
            {200: Signalled},
            headers=(REPEATABLE,),
            body=SignalBody,
            problems=(Kind.BAD_KEY, Kind.OVERLOADED, *_REPEATABLE),
        )
    },
    "/v1/signals": {
        "POST": Endpoint(
            signals.signal_keys,
            _SIGNAL,
            {200: SignalledBatch},
            headers=(REPEATABLE,),
            body=SignalsBody,
            needs_body=True,
            problems=(Kind.OVERLOADED, *_REPEATABLE),
        )
    },
    "/v1/wait": {
        "GET": Endpoint(
            waits.wait_once,
            _WAIT,
            {200: (FollowView, WaitView), 204: None},
            query=("full", "key", "limit", "need", "prefix", "since", "wait"),
            repeated=("key", "prefix"),
            headers=_PREFER,
            problems=(*_KEYS, *_HELD, Kind.INVALID),
        )
    },
    "/v1/queues": {
        "GET": Endpoint(
            queue_views.list_queues,
            _READ,
            {200: QueueList},
            query=("cursor", "limit", "prefix"),
            problems=_QUEUE,
        )
    },
    "/v1/queues/{queue}": {
        "GET": Endpoint(
            queue_views.read_queue, _READ, {200: QueueView}, problems=(*_QUEUE, Kind.UNKNOWN_QUEUE)
        ),
        "PUT": Endpoint(
            queue_views.set_queue,
            _ADMIN,
            {200: QueueView},
            body=QueueBody,
            needs_body=True,
            problems=_QUEUE,
        ),
        "DELETE": Endpoint(queue_views.forget_queue, _ADMIN, {204: None}, problems=_QUEUE),
    },
    "/v1/queues/{queue}/items": {
        "GET": Endpoint(
            queue_views.peek_items,
            _READ,
            {200: ItemList},
            query=("cursor", "delayed", "limit"),
            problems=_QUEUE,
        ),
        "POST": Endpoint(
            queues.put_item,
            _SIGNAL,
            {201: (Delivered, DeliveredItems)},
            headers=(REPEATABLE,),
            body=(ItemBody, ItemsBody),
            needs_body=True,
            problems=(*_QUEUE, *_HELD, *_REPEATABLE),
        ),
    },
    "/v1/queues/{queue}/take": {
        "POST": Endpoint(
            queues.take_item,
            _WAIT,
            {200: (Leased, LeasedItems), 204: None},
            query=("wait",),
            headers=(REPEATABLE, "Prefer"),
            body=TakeBody,
            problems=(*_QUEUE, *_HELD, *_REPEATABLE, Kind.UPGRADE_PENDING),
        )
    },
    "/v1/queues/{queue}/purge": {
        "POST": Endpoint(
            queue_views.purge_queue, _ADMIN, {200: Purged}, body=PurgeBody, problems=_QUEUE, adds_up=True
        )
    },
    "/v1/queues/{queue}/redrive": {
        "POST": Endpoint(
            queue_views.redrive_items,
            _ADMIN,
            {200: Redriven},
            body=RedriveBody,
            problems=_QUEUE,
            adds_up=True,
        )
    },
    "/v1/leases": {
        "GET": Endpoint(
            leases.list_leases,
            _READ,
            {200: LeaseList},
            query=("cursor", "limit", "queue"),
            problems=_QUEUE,
            own=_WAIT,
        )
    },
    "/v1/leases/ack": {
        "POST": Endpoint(
            leases.acknowledge_leases, _WAIT, {200: LeasesEnded}, body=LeasesBody, needs_body=True
        )
    },
    "/v1/leases/return": {
        "POST": Endpoint(leases.return_leases, _WAIT, {200: LeasesEnded}, body=LeasesBody, needs_body=True)
    },
    "/v1/leases/{id}/ack": {"POST": Endpoint(leases.acknowledge_lease, _WAIT, {204: None}, problems=_LEASE)},
    "/v1/leases/{id}/return": {
        "POST": Endpoint(leases.return_lease, _WAIT, {204: None}, body=ReturnBody, problems=_LEASE)
    },
    "/v1/leases/{id}/extend": {
        "POST": Endpoint(leases.extend_lease, _WAIT, {200: Extended}, body=ExtendBody, problems=_LEASE)
    },
    "/v1/events": {
        "GET": Endpoint(
            operations.read_events,
            _READ,
            {200: EVENT_STREAM},
            headers=("Last-Event-ID",),
            problems=(HttpKind.BAD_HEADER, *_HELD),
        )
    },
    "/v1/admin/drain": {"POST": Endpoint(admin.drain, _ADMIN, {202: Draining}, body=DrainBody)},
    "/v1/admin/stats": {"GET": Endpoint(admin.read_stats, _ADMIN, {200: Stats}, query=("digest",))},
    "/healthz": {"GET": Endpoint(admin.check_alive, None, {200: Health}, probed=True)},
    "/readyz": {
        "GET": Endpoint(
            admin.check_ready, None, {200: Health}, problems=(Kind.DRAINING, HttpKind.NOT_READY), probed=True
        )
    },
    "/metrics": {"GET": Endpoint(admin.read_metrics, _READ, {200: admin.EXPOSITION})},
    "/": _file(page.redirect_root, None, 308),
    "/ui": _file(page.redirect_ui, None, 308),
    "/ui/": _file(page.read_page, "text/html"),
    "/ui/app.js": _file(page.read_script, "text/javascript"),
    "/ui/style.css": _file(page.read_style, "text/css"),
    "/a/style.css": _file(answering.read_link_style, "text/css"),
    "/a/{token}": {
        "GET": Endpoint(
            answering.read_question,
            None,
            {200: "text/html"},
            problems=_LINK,
            refused=answering.show_refusal,
        ),
        "POST": Endpoint(
            answering.answer_question,
            None,
            {200: LinkAnswered},
            body=LinkAnswer,
            needs_body=True,
            problems=(*_LINK, Kind.ALREADY_ENDED, Kind.OVERLOADED),
            public=True,
            refused=answering.show_refusal,
        ),
    },
    "/ui/feed": {"GET": Endpoint(dashboard.read_feed, _READ, {200: DashboardFeed})},
    "/ui/operations": {
        "GET": Endpoint(
            dashboard.search_operations, _READ, {200: SearchPage}, query=("first", "limit", "search")
        )
    },
    "/ui/questions": {
        "GET": Endpoint(
            dashboard.list_questions, _READ, {200: QuestionPage}, query=("first", "limit", "state")
        )
    },
}


def _with_head(methods: Mapping[str, Endpoint]) -> Mapping[str, Endpoint]:
    return {**methods, "HEAD": methods["GET"]} if "GET" in methods else methods


DESCRIBED: Final = with_description({path: _with_head(methods) for path, methods in _ROUTES.items()})
"""What clients ask for, as ``/openapi.json`` has it."""

ROUTES: Final = {
    **DESCRIBED,
    # The page's own, which no other client asks for.
    **{
        f"/ui/{name}": _with_head(_file(page.module_reader(name), "text/javascript")) for name in page.MODULES
    },
}
