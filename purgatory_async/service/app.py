"""The ASGI application: routes requests and turns problems and exceptions into answers.

It runs under any ASGI server or mounted in another application. Only with a store does it need the lifespan protocol,
in which it loads its state.
"""

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from purgatory_async import OperationExpired, PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.cluster.log import LogError
from purgatory_async.cluster.writer import MAX_WAITING, MAX_WAITING_BYTES
from purgatory_async.service.access.check import Access
from purgatory_async.service.access.rates import Rates
from purgatory_async.service.api.endpoint import Reply, Routes, raw_path
from purgatory_async.service.api.request import REPEATABLE, Request
from purgatory_async.service.api.routes import ROUTES
from purgatory_async.service.contract import problems
from purgatory_async.service.contract.header_fields import Field
from purgatory_async.service.held.stream import Stalled
from purgatory_async.service.http.answer import PROBLEM_JSON, Answer
from purgatory_async.service.http.traffic import Traffic
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.logs import Log, stderr_log
from purgatory_async.service.service import utc_now
from purgatory_async.service.settings.settings import Settings
from purgatory_async.service.visit import VISIT, Visit
from purgatory_async.web.asgi import Receive, Scope, Send
from purgatory_async.web.race import ClientLeft

CATCH_UP: Final = 5.0  # seconds that a request waits for the position that it names


class Application:
    """The service as an ASGI 3 application.

    Raises:
        SettingsError: The tokens file is unusable.
    """

    def __init__(self, service: HttpService, log: Log) -> None:
        self.service: Final = service
        self.access: Final = Access(service.settings)
        self.traffic: Final = Traffic(log if service.settings.access_log else None, service.now)
        service.metrics.registry.register(self.traffic)
        self.rates = Rates(service.timer.time_ns)
        self._log = log
        self._routes = Routes(ROUTES)
        self._base = service.settings.base_path.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI scope: ``http`` or ``lifespan``; refuse ``websocket``."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            visit = VISIT.get()
            if visit is not None and visit.scope is scope:
                try:
                    await self._serve(visit, scope, receive, send)
                finally:
                    if visit.admission is not None:
                        self.access.leave(visit.admission)
            else:
                await self._visit(scope, receive, send)

    async def _visit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request under another server, or mounted in an application: its visit begins here."""
        visit = self.traffic.begin(scope)
        visit.task = asyncio.current_task()
        token = VISIT.set(visit)
        try:
            await self._serve(visit, scope, receive, send)
        finally:
            visit.task = None
            VISIT.reset(token)
            if visit.admission is not None:
                self.access.leave(visit.admission)

    async def _serve(self, visit: Visit, scope: Scope, receive: Receive, send: Send) -> None:
        reply: Reply
        try:
            reply = await self._answer(visit, scope, receive)
        except ClientLeft:
            return
        except problems.Problem as problem:
            reply = self._refusal(problem)
        except LogError as error:
            reply = self._refusal(problems.store_unavailable(str(error)))
        except PurgatoryFull:
            reply = self._refusal(
                problems.overloaded(
                    f"changes, or {MAX_WAITING_BYTES} bytes of them, for the store", MAX_WAITING
                )
            )
        except Exception as error:  # noqa: BLE001 - the last resort: log the bug, hide it from the client
            self._log.error("request failed", method=scope["method"], path=scope["path"], exc_info=error)
            reply = self._refusal(problems.internal())
        head_only = scope["method"] == "HEAD"
        try:
            await reply.send_to(send, head_only=head_only, stamp=self._stamp(visit, scope))
        except Stalled:
            self._end(visit, reply, head_only=head_only)
            raise  # the answer is incomplete: only the server can cut the connection
        except OSError:
            return  # ASGI's sign that the client left
        self._end(visit, reply, head_only=head_only)

    def _end(self, visit: Visit, reply: Reply, *, head_only: bool) -> None:
        self.traffic.end(visit, reply.status, 0 if head_only else reply.sent)

    async def _answer(self, visit: Visit, scope: Scope, receive: Receive) -> Reply:
        path = raw_path(scope, self._base)
        route = self._routes.match(path)
        if route is not None:
            visit.route = route[0]
        admission = self.access.check(scope, {} if route is None else route[1])
        if admission is not None:
            visit.admission = admission
            self.access.enter(admission)
            self.rates.count(admission.grant)
        if route is None:
            raise problems.not_found(path.decode("ascii", "backslashreplace"))
        pattern, endpoints, parameters = route
        endpoint = endpoints.get(scope["method"])
        if endpoint is None:
            raise problems.method_not_allowed(scope["method"], tuple(endpoints))
        guarded = path.startswith(b"/v1/") and not path.startswith(b"/v1/admin/")
        if guarded:
            self.service.held.unsent.check()
        settings = self.service.settings
        request = Request(
            *(scope, receive, parameters, settings.max_body, admission),
            route=pattern,
            base_path=settings.base_path,
        )
        position = request.position()
        if REPEATABLE in endpoint.headers or endpoint.adds_up:
            request.check_repeatable(refused=endpoint.adds_up)
        try:
            if position and position > self.service.fold.position:
                await self._reach(position)
            reply = await endpoint.serve(self.service, request)
        except problems.Problem:
            visit.check()  # first, as at its head
            raise
        visit.check()
        if guarded and scope["method"] == "GET":
            self.service.held.unsent.check()  # it may have been held; a change must be answered as it is
        return reply

    async def _reach(self, position: int) -> None:
        """Wait until what another worker answered is applied here too."""
        try:
            await self.service.held.positions.reach(position, CATCH_UP)
        except OperationExpired:
            raise problems.behind(position, self.service.fold.position) from None
        except PurgatoryClosed:
            raise problems.draining() from None

    def _stamp(self, visit: Visit, scope: Scope) -> Sequence[Field]:
        """Return the fields of every answer: the request's id, and under ``/v1`` which state it is from."""
        if not raw_path(scope, self._base).startswith(b"/v1/"):
            return (visit.field,)
        state = self.service.state
        position = (b"x-purgatory-position", b"%d" % state.fold.position)
        epoch = ((b"x-purgatory-epoch", state.epoch.encode()),) if state.epoch else ()  # it is not loaded yet
        return (visit.field, position, *epoch)

    def _refusal(self, problem: problems.Problem) -> Answer:
        self.traffic.refuse(problem.kind)
        headers = problem.headers
        if problem.kind in problems.RETRIED:
            headers = (*headers, ("Retry-After", str(self.service.retry_after())))
        if problem.kind is problems.Kind.DRAINING:
            headers = (*headers, ("Connection", "close"))
        return Answer(problem.kind.status, msgspec.json.encode(problem.document), PROBLEM_JSON, headers)

    async def _live(self, receive: Receive, send: Send) -> None:
        running: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                running = asyncio.create_task(self.keep(), name="state")
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.service.aclose()
                if running is not None:
                    await running
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def keep(self) -> None:
        """Keep the service's state up to date; log what ends this before the service is closed."""
        try:
            await self.service.run(self._log)
        except LogError as error:
            self._log.error("the state cannot be kept", reason=str(error))


def create_app(
    settings: Settings | None = None,
    *,
    timer: Timer | None = None,
    wall_clock: Callable[[], dt.datetime] = utc_now,
    log: Log | None = None,
) -> Application:
    """Make the service as an ASGI application.

    A mounted service does not know its public host names: set ``allow_host`` (the default accepts only loopback and
    the connection's own address), and set ``tokens`` if other machines can reach it.

    Args:
        settings: The limits, tokens and hosts; None for the defaults.
        timer: For every wait; None makes one on the running loop's clock.
        wall_clock: Gives the times that operations show.
        log: For faults of the service; None for standard error.

    Raises:
        SettingsError: The tokens file or the journal's directory is unusable.
    """
    service = HttpService(settings or Settings(), timer=timer, wall_clock=wall_clock)
    return Application(service, log or stderr_log())
