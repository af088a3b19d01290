"""A long poll in a Starlette app: the answer comes when a build is done, or at once if it is done already.

The handlers are the same under FastAPI. Of four clients, one polls after the report and one before it; one
asks for a short wait and gets nothing; one hangs up. Each client names its longest wait; the server caps it
at 55 s.
"""

import asyncio
import socket
from functools import partial
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from purgatory_async import Purgatory
from purgatory_async.web import starlette_poll

builds = Purgatory("builds", max_pending=10_000)
reports: dict[str, dict[str, Any]] = {}  # the state: a poll also finds what came before it


async def wait_for_build(request: Request) -> Response:
    build = request.path_params["build"]
    return await starlette_poll(request, partial(builds.wait, until=lambda: reports.get(build)), build)


async def report_build(request: Request) -> Response:
    build = request.path_params["build"]
    reports[build] = {"build": build, "report": await request.json()}
    return JSONResponse({"woken": builds.check_and_complete(build)})


app = Starlette(
    routes=[
        Route("/builds/{build}", wait_for_build),
        Route("/builds/{build}", report_build, methods=["POST"]),
    ]
)


async def until_held(polls: int) -> None:
    """Wait for the server to notice what a client did."""
    for _ in range(1000):
        if builds.pending == polls:
            return
        await asyncio.sleep(0.01)


async def use(client: httpx2.AsyncClient) -> None:
    await client.post("/builds/6", json="green")
    late = await client.get("/builds/6")
    print(f"build 6: {late.status_code} {late.json()}, reported before the poll")

    answered, leaving = (
        asyncio.create_task(client.get(f"/builds/{build}", params={"wait": "20s"})) for build in (7, 8)
    )
    await until_held(2)
    empty = await client.get("/builds/9", params={"wait": "300ms"})
    print(f"build 9: {empty.status_code}, nothing in 300 ms; still held: {builds.pending}")

    report = await client.post("/builds/7", json={"status": "green"})
    answer = await answered
    print(f"build 7: {answer.status_code} {answer.json()}; reported to {report.json()['woken']}")

    leaving.cancel()
    await until_held(0)
    print(f"build 8: the client hung up; left behind: {builds.pending} operations, {builds.keys} keys")


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = "http://{}:{}".format(*listening.getsockname())
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        async with asyncio.TaskGroup() as tasks, httpx2.AsyncClient(base_url=address) as client:
            tasks.create_task(server.serve([listening]))
            await use(client)
            server.should_exit = True
    builds.close()


if __name__ == "__main__":
    asyncio.run(main())
