"""A worker of a news site: ``uvicorn --workers 4 tests.web.servers.news:app``, with the log's path in ``NEWS``.

Without a path its news are its own, and end with it. A page shows what a browser gets.
"""

import os
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, SqliteLog
from purgatory_async.patterns import Broadcast
from purgatory_async.web import starlette_events

PAGE = """<!doctype html><title>News</title><link rel="icon" href="data:,"><script>
const seen = [];
const source = new EventSource("/events");
source.onmessage = (event) => seen.push(event.data);
source.addEventListener("gap", (event) => seen.push(`gap ${event.data}`));
</script>"""

KEPT = 1 << 16

purgatory = Purgatory("news")
news = {}


@asynccontextmanager
async def lifespan(app):
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(purgatory)
        if path := os.environ.get("NEWS"):
            cluster = await stack.enter_async_context(Cluster(purgatory, SqliteLog(path)))
            news["all"] = Broadcast.of(cluster, prefix="news:", max_items=KEPT)
        else:
            news["all"] = Broadcast(purgatory)
        yield


def value(item):
    return getattr(item, "value", item)


async def page(request):
    return HTMLResponse(PAGE)


async def follow(request):
    return await starlette_events(request, news["all"], encode=value, heartbeat=1, retry=(0.05, 0.2))


async def publish(request):
    return JSONResponse(news["all"].publish(await request.json()))


async def state(request):
    return JSONResponse({"worker": os.getpid(), "subscribers": news["all"].subscribers})


app = Starlette(
    routes=[
        Route("/", page),
        Route("/events", follow),
        Route("/news", publish, methods=["POST"]),
        Route("/state", state),
    ],
    lifespan=lifespan,
)
