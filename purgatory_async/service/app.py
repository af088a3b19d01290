"""The application: checks and routes requests, and turns what their endpoints give into answers.

It answers the connections of the service's own server, and, as an ASGI application, under any other server or inside
another application. Only with a store does it need ASGI's lifespan, in which it loads its state.
"""

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from purgatory_async import OperationExpired, PurgatoryClosed, PurgatoryFull, Timer
from purgatory_async.cluster.log import LogError
from purgatory_async.durable.documents import problems
from purgatory_async.durable.later import at_last
from purgatory_async.durable.verbs.keeper import utc_now
from purgatory_async.durable.verbs.refusals import problem_for
from purgatory_async.service.access.check import Access
from purgatory_async.service.access.rates import Rates
from purgatory_async.service.api.endpoint import Endpoint, Routes
from purgatory_async.service.api.request import REPEATABLE, BodyAwaited, Request
from purgatory_async.service.api.routes import ROUTES
from purgatory_async.service.contract import http_problems
from purgatory_async.service.contract.header_fields import Head
from purgatory_async.service.held.given import HELD, Given, Streamed
from purgatory_async.service.http.answer import Answer, refusal
from purgatory_async.service.http.asgi import Adapter
from purgatory_async.service.http.traffic import Traffic, shown_path
from purgatory_async.service.http.wire import Wire
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.logs import Log, stderr_log
from purgatory_async.service.settings.settings import Settings
from purgatory_async.service.visit import PRESENT, TASKS
from purgatory_async.web.asgi import Receive, Scope, Send
from purgatory_async.web.race import ClientLeft

CATCH_UP: Final = 5.0  # seconds that a request waits for the position that it names


class Application:
    """The service as an application of its connections, and of ASGI 3.

    Attributes:
        tasks: The tasks that answer requests.

    Raises:
        SettingsError: The tokens file is unusable.
    """

    def __init__(self, service: HttpService, log: Log) -> None:
        self.service: Final = service
        self.access: Final = Access(service.settings)
        self.traffic: Final = Traffic(log if service.settings.access_log else None)
        self.held = self.traffic.held
        self.now = service.now
        self.max_body = service.settings.max_body
        service.metrics.registry.register(self.traffic)
        self.rates = Rates(service.timer.time_ns)
        self.tasks: Final[set[asyncio.Task[Any]]] = set()
        self._log = log
        self._routes = Routes(ROUTES)
        self._prefix = quote(service.settings.base_path)
        self._base = self._prefix.encode()
        self._unsent: Final = service.held.unsent
        self._epoch, self._epoch_line = "", b""
        self._asgi: Final = Adapter(self, self.keep, service.aclose)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI scope: ``http`` or ``lifespan``; refuse ``websocket``."""
        await self._asgi(scope, receive, send)

    # For connections; see `http.wire.Application`.

    def request(self, head: Head, wire: Wire, root: str = "") -> Request:
        """Return the request of a head.

        Args:
            head: The head.
            wire: Takes the answer.
            root: The mount point, percent-encoded as in the client's URLs.
        """
        below = head.path
        if root:
            below = _below(below, root.encode())
        if self._base:
            below = _below(below, self._base)
        return Request(self, wire, head, below, root + self._prefix)

    def refuse(self, request: Request, problem: problems.Problem) -> tuple[Answer, bytes]:
        """Count a refusal of the connection's own; return the answer, and the line with the request's id."""
        self.traffic.refuse(problem.kind)
        self.drop(request)
        answer = refusal(problem)
        self.traffic.end(request, answer.status, len(answer.body), self.now())
        return answer, b"x-request-id: %b\r\n" % request.id

    # Also for what keeps requests waiting; see `visit.Server`.

    def serve(self, request: Request, step: Callable[[Any], Given] | None = None, of: Any = None) -> None:
        """Take a step of a request, and answer it by its wire if that gives the answer.

        Args:
            request: The request.
            step: Goes on with it; None to call its endpoint, also again with more of its body.
            of: What ``step`` is called with.
        """
        before, PRESENT.visit = PRESENT.visit, request
        given: Given
        try:
            given = self._call(request) if step is None else step(of)
            if type(given) is Answer:
                # Time may have passed since it was let in.
                if request.admission is not None:
                    request.check()
                if request.guarded and request.method == "GET":
                    self._unsent.check()  # a change must be answered as it is
        except Exception as error:  # noqa: BLE001 - all that a step raises is answered
            given = self._instead(request, error)
        finally:
            PRESENT.visit = before
        if type(given) is Answer:
            if request.gone or request.ended:
                self.drop(request)
                return
            if request.admission is not None:
                self.access.leave(request.admission)
            request.ended = True
            now = self.now()
            request.wire.answer(given, self.stamp(request), now)
            self.traffic.end(request, given.status, len(given.body), now)
        elif type(given) is Streamed:
            self.drop(request)
            self.traffic.end(request, 200, given, self.now())
        elif given is not HELD:
            self._start(request, given)

    def drop(self, request: Request) -> None:
        """Give a request up: its client has left. Idempotent."""
        request.gone = True
        self._leave(request)

    def _leave(self, request: Request) -> None:
        if request.admission is not None and not request.ended:
            self.access.leave(request.admission)
        request.ended = True

    # The steps.

    def _call(self, request: Request) -> Given:
        """Call the endpoint; before the first time, find it and check who asks for it."""
        if request.endpoint is not None:
            given: Given = request.endpoint(self.service, request)
            return given
        match = self._routes.match(request.below)
        endpoints: Mapping[str, Endpoint] = {}
        if match is not None:
            request.route, endpoints, request.guarded, request.parameters = match
        profile = request.profile
        admission = self.access.check(profile, request.wire.address, endpoints)
        if admission is not None:
            request.admission = admission
            self.access.enter(admission)
            self.rates.count(admission.grant)
        if match is None:
            raise http_problems.not_found(request.below.decode("ascii", "backslashreplace"))
        endpoint = endpoints.get(request.method)
        if endpoint is None:
            raise http_problems.method_not_allowed(request.method, tuple(endpoints))
        if request.guarded:
            self._unsent.check()
        request.endpoint = endpoint.serve
        if profile.rare:
            position = request.position()
            if endpoint.adds_up or REPEATABLE in endpoint.headers:
                request.check_repeatable(refused=endpoint.adds_up)
            if position > self.service.fold.position:
                return self._serve_at(request, position)
        return endpoint.serve(self.service, request)

    async def _serve_at(self, request: Request, position: int) -> Any:
        """Serve once what another worker answered is applied here too."""
        try:
            await self.service.held.positions.reach(position, CATCH_UP)
        except OperationExpired:
            raise http_problems.behind(position, self.service.fold.position) from None
        except PurgatoryClosed:
            raise problems.draining() from None
        assert request.endpoint is not None, "a request is let in before it waits"
        return await at_last(request.endpoint(self.service, request))

    def _start(self, request: Request, coroutine: Any) -> None:
        """Go on in a task."""
        context = copy_context()
        context.run(TASKS.set, request)
        task = asyncio.get_running_loop().create_task(self._carry(request, coroutine), context=context)
        if not task.done():  # as it may be on a loop that starts tasks at once
            request.task = task
            self.tasks.add(task)
            task.add_done_callback(partial(self._finish, request, coroutine))

    async def _carry(self, request: Request, coming: Any) -> None:
        """Go on with what comes, before another task has its answer: else memory would hold all of a pass."""
        came: list[Any] = []
        try:
            came.append(await coming)
        except Exception as error:  # noqa: BLE001 - all that a step raises is answered
            came.append(error)
        request.task = None
        self.serve(request, _only, came)

    def _finish(self, request: Request, coroutine: Any, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if task.cancelled():
            coroutine.close()  # if it had no first step, it would warn that it was never awaited
            request.task = None
            self.drop(request)
            request.wire.cut()
        else:
            task.result()  # what it raises is a fault of ours, which the loop logs

    # Refusals, and what all answers have.

    def _instead(self, request: Request, error: Exception) -> Given:
        """Return what a step gives that raises: a refusal, unless it only stops here."""
        match error:
            case BodyAwaited():
                request.await_body()
                return HELD
            case ClientLeft():
                self.drop(request)
                return HELD
            case problems.Problem():
                # What its token lacks comes before all else, as at its head.
                problem = request.refusal or error
            case LogError() | PurgatoryFull():
                problem = problem_for(error)
            case _:
                # The last resort: log the bug, hide it from the client.
                self._log.error(
                    "request failed",
                    method=request.method,
                    path=shown_path(request),
                    exc_info=error,
                )
                problem = http_problems.internal()
        self.traffic.refuse(problem.kind)
        again = (
            (("Retry-After", str(self.service.retry_after())),)
            if problem.kind in http_problems.RETRIED
            else ()
        )
        endpoint = ROUTES.get(request.route, {}).get(request.method)
        if endpoint is None or endpoint.refused is None:
            return refusal(problem, *again)
        return endpoint.refused(self.service, request, problem, again)

    def stamp(self, request: Request) -> bytes:
        """Return the fields of every answer: the request's id, and under ``/v1`` which state it is from."""
        if not request.below.startswith(b"/v1/"):
            return b"x-request-id: %b\r\n" % request.id
        state = self.service.state
        if state.epoch is not self._epoch:
            self._epoch = epoch = state.epoch  # empty until it is loaded
            self._epoch_line = b"x-purgatory-epoch: %b\r\n" % epoch.encode() if epoch else b""
        position = state.fold.position
        return b"x-request-id: %b\r\nx-purgatory-position: %d\r\n%b" % (
            request.id,
            position,
            self._epoch_line,
        )

    async def keep(self) -> None:
        """Keep the service's state up to date; log what ends this before the service is closed."""
        try:
            await self.service.run(self._log)
        except LogError as error:
            self._log.error("the state cannot be kept", reason=str(error))


def _only(came: list[Any]) -> Any:
    """Take what is in a list, or raise it: an exception that is named in a frame that it passed would keep itself."""
    if isinstance(came[0], Exception):
        raise came.pop()
    return came.pop()


def _below(path: bytes, prefix: bytes) -> bytes:
    """Return a path below a prefix, which a proxy or an ASGI server may have removed already."""
    below = path.removeprefix(prefix)
    return below or b"/" if below.startswith(b"/") or not below else path


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
