"""Server-sent events in a Starlette app: each reader gets all news, and one that was away gets what it missed.

The handlers are the same under FastAPI. In a browser, ``new EventSource("/news")`` reads them: it comes back by itself
and sends the last id, as the second reader here does. Only the newest four items are kept, so a reader that was away
for too long gets a gap in place of the others.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from purgatory_async import Purgatory
from purgatory_async.patterns import Broadcast
from purgatory_async.web import starlette_events

newsroom = Purgatory("newsroom")
news: Broadcast[str] = Broadcast(newsroom, max_items=4)


async def follow(request: Request) -> Response:
    return await starlette_events(request, news)


async def publish(request: Request) -> Response:
    return JSONResponse({"number": news.publish(await request.json())})


app = Starlette(routes=[Route("/news", follow), Route("/news", publish, methods=["POST"])])


async def read(client: httpx2.AsyncClient, last_id: str = "") -> AsyncIterator[tuple[str, str]]:
    """Yield each event's data, after its name if it has one, with the id to come back with."""
    headers = {"Last-Event-ID": last_id} if last_id else {}
    name = ""
    async with client.stream("GET", "/news", headers=headers) as answer:
        async for line in answer.aiter_lines():
            field, _, value = line.partition(": ")
            if field == "id":
                last_id = value
            elif field == "event":
                name = f"{value} "
            elif field == "data":
                yield f"{name}{value}", last_id
                name = ""


async def follow_to_the_end(client: httpx2.AsyncClient) -> None:
    heard = [event async for event, _ in read(client)]
    print(f"a steady reader heard {', '.join(heard)}; then the news ended")


async def until_followed() -> None:
    """Wait for the server to notice the first reader."""
    for _ in range(1000):
        if news.subscribers:
            return
        await asyncio.sleep(0.01)


async def use(client: httpx2.AsyncClient) -> None:
    await until_followed()
    await client.post("/news", json="rain")
    async with aclosing(read(client, f"{news.epoch}-0")) as events:
        event, last_id = await anext(events)
    print(f"a reader heard {event}, and lost its connection")
    for item in ("wind", "snow"):
        await client.post("/news", json=item)
    async with aclosing(read(client, last_id)) as events:
        print(f"it came back, and heard {(await anext(events))[0]} and {(await anext(events))[0]}")
    for item in ("fog", "hail", "sun"):
        await client.post("/news", json=item)
    async with aclosing(read(client, last_id)) as events:
        print(f"who came back later heard {(await anext(events))[0]}, then {(await anext(events))[0]}")


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = "http://{}:{}".format(*listening.getsockname())
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        async with asyncio.TaskGroup() as tasks, httpx2.AsyncClient(base_url=address) as client:
            tasks.create_task(server.serve([listening]))
            steady = tasks.create_task(follow_to_the_end(client))
            await use(client)
            news.close()
            await steady
            server.should_exit = True
    newsroom.close()


if __name__ == "__main__":
    asyncio.run(main())
