"""A long poll in an aiohttp app: each job goes to one worker, and none to a worker that hung up.

The handler is one line. Of three workers, the first hangs up, the second gets the next job, and the third
asks for a short wait and gets nothing. The server notices disconnects without ``handler_cancellation``.
"""

import asyncio
import socket

from aiohttp import ClientSession, web

from purgatory_async import Purgatory
from purgatory_async.patterns import HandOff
from purgatory_async.web import aiohttp_poll

workers = Purgatory("workers", max_pending=10_000)
jobs: HandOff[str, str] = HandOff(workers)


async def take_job(request: web.Request) -> web.Response:
    return await aiohttp_poll(request, jobs.take, request.match_info["queue"])


async def put_job(request: web.Request) -> web.Response:
    taken = jobs.put(request.match_info["queue"], await request.text())
    return web.json_response({"taken": taken})


app = web.Application()
app.add_routes([web.get("/jobs/{queue}", take_job), web.post("/jobs/{queue}", put_job)])


async def until_waiting(count: int) -> None:
    """Wait for the server to notice what a client did."""
    for _ in range(1000):
        if workers.pending == count:
            return
        await asyncio.sleep(0.01)


async def use(client: ClientSession) -> None:
    async def take(wait: str) -> str:
        async with client.get("/jobs/resize", params={"wait": wait}) as answer:
            return f"{answer.status} {await answer.text()}".strip()

    leaving = asyncio.create_task(take("20s"))
    await until_waiting(1)
    working = asyncio.create_task(take("20s"))
    await until_waiting(2)
    print(f"waiting: {workers.pending} workers")

    leaving.cancel()
    await until_waiting(1)
    print(f"the first hung up; waiting: {workers.pending}")

    async with client.post("/jobs/resize", data="cat.png") as answer:
        print(f"a job came; taken: {(await answer.json())['taken']}")
    print(f"the second got {await working}")
    print(f"the third got {await take('300ms')}")
    print(f"left behind: {len(jobs)} jobs, {workers.pending} operations, {workers.keys} keys")


async def main() -> None:
    runner = web.AppRunner(app)
    await runner.setup()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        await web.SockSite(runner, listening).start()
        async with ClientSession("http://{}:{}".format(*listening.getsockname())) as client:
            await use(client)
        await runner.cleanup()
    workers.close()


if __name__ == "__main__":
    asyncio.run(main())
