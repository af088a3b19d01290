"""What carries the verbs of `AsyncVerbs` in the contract suite, each on a new state of its own.

The client of a service speaks to the application itself, in the `VirtualTimeLoop`.
"""

import asyncio
import secrets

import httpx2

from purgatory_async.client import AsyncClient, Policy
from purgatory_async.cluster import MemoryLog
from purgatory_async.durable import Durable
from purgatory_async.service.app import create_app
from purgatory_async.service.settings.settings import Settings
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis, shared
from tests.conftest import default_loops, new_virtual_loop
from tests.durable.library.calls import until
from tests.durable.log_workers import Store
from tests.exchange import Exchange
from tests.service.access.tokens_file import PAD, write_tokens

PUBLIC = "http://localhost"
OWNERS = ("ann", "bob")


class Carrier:
    """Opens verbs on one new state; what it has opened is closed at the end.

    Args:
        folder: A folder of its own.
        stack: Closes what it has opened.

    Attributes:
        shared: Whether several can be opened on its state, as by several processes.
        slow: Whether it needs real time.
        new_loop: Makes the loop on which it runs.
    """

    shared = True
    slow = False
    new_loop = staticmethod(new_virtual_loop)

    def __init__(self, folder, stack):
        self.folder = folder
        self.stack = stack

    async def open(self, *, owner=None, **settings):
        """Open verbs; the first ones set the state."""
        raise NotImplementedError


class ServedCarrier(Carrier):
    """A service in memory, and a client of it."""

    app = None

    async def open(self, *, owner=None, **settings):
        if self.app is None:
            if owner is not None:
                lines = (f"{name} admin name={name}" for name in OWNERS)
                settings["tokens"] = write_tokens(self.folder / "tokens", *lines)
            self.app = create_app(Settings(**{"jitter": 0, "public_url": PUBLIC, **settings}))
            self.stack.push_async_callback(self._close)
        client = AsyncClient(
            PUBLIC,
            token=None if owner is None else owner + PAD,
            policy=Policy(patience=1.0, clock=asyncio.get_running_loop().time),
            transport=StreamingTransport(self.app),
        )
        return await self.stack.enter_async_context(client)

    async def _close(self):
        service = self.app.service
        await until(lambda: not (service.held.requests.count or self.app.tasks))
        service.close()


class StreamingTransport(httpx2.AsyncBaseTransport):
    """Carries requests to an application, which hears when a client leaves; an answer is read while it is sent."""

    def __init__(self, app):
        self._app = app

    async def handle_async_request(self, request):
        exchange, sent = Exchange(await request.aread()), asyncio.Queue()
        scope = {
            "type": "http",
            "method": request.method,
            "path": request.url.path,
            "raw_path": request.url.raw_path.partition(b"?")[0],
            "query_string": request.url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
        }
        serving = asyncio.create_task(self._app(scope, exchange.receive, sent.put))
        serving.add_done_callback(lambda _: sent.put_nowait(None))
        try:
            start = await sent.get()
        except BaseException:
            exchange.hang_up()
            raise
        if start is None:
            raise httpx2.ReadError("the application has cut the connection")
        body = _Body(exchange, sent)
        return httpx2.Response(start["status"], headers=start["headers"], stream=body)


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, piece by piece."""

    def __init__(self, exchange, sent):
        self._exchange = exchange
        self._sent = sent

    async def __aiter__(self):
        more = True
        while more and (message := await self._sent.get()) is not None:
            more = message.get("more_body", False)
            yield message["body"]

    async def aclose(self):
        self._exchange.hang_up()


class MemoryCarrier(Carrier):
    """A `Durable` in memory, which no other one shares."""

    shared = False

    async def open(self, *, owner=None, **settings):
        return await self._enter("memory:", owner, settings)

    async def _enter(self, store, owner, settings):
        settings = {"public_url": PUBLIC, **settings}
        return await self.stack.enter_async_context(Durable(store, owner=owner, **settings))


class LogCarrier(MemoryCarrier):
    """Some on one log, in virtual time."""

    shared = True
    _store = None

    async def open(self, *, owner=None, **settings):
        if self._store is None:
            self._store = self.make()
        secret = self.folder / "secret"
        secret.write_text("0123456789abcdef" * 2)
        secret.chmod(0o600)
        if settings.get("public_url", PUBLIC) is not None:
            settings["link_secret"] = secret
        return await self._enter(self.store(), owner, {"checkpoints": False, **settings})

    def make(self):
        """Make an empty store."""
        return Store()

    def store(self):
        """What each of them is given."""
        return MemoryLog(self._store)


class SqliteCarrier(LogCarrier):
    """Some on a file, in real time."""

    slow = True
    new_loop = staticmethod(default_loops()["asyncio"])

    def make(self):
        return f"sqlite:///{self.folder}/store.db"

    def store(self):
        return self._store


class PostgresCarrier(SqliteCarrier):
    """Some on the tables of a server."""

    new_loop = staticmethod(default_loops().get("uvloop") or default_loops()["asyncio"])

    def make(self):
        need_postgres()
        return f"{shared(Postgres).url}?name=log_{secrets.token_hex(6)}"


class RedisCarrier(PostgresCarrier):
    """Some on a stream of a server."""

    def make(self):
        need_redis()
        return f"{shared(RedisServer).url}?name=log_{secrets.token_hex(6)}"


CARRIERS = {
    "memory": MemoryCarrier,
    "log": LogCarrier,
    "served": ServedCarrier,
    "sqlite": SqliteCarrier,
    "postgres": PostgresCarrier,
    "redis": RedisCarrier,
}
