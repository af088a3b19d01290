"""A long poll held by one of four uvicorn workers, answered by a payment that another one receives.

Each worker has a purgatory of its own. A cluster carries signals between them over a log in a SQLite file; there is no
server besides. The payment itself is in a table, into which a poll looks; no worker keeps anything for it. Run as a
program it starts ``uvicorn --workers 4`` and uses it.
"""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import httpx2
from fastapi import Body, FastAPI, Request, Response

from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, SqliteLog
from purgatory_async.web import starlette_poll

FOLDER = Path(os.environ.get("PAYMENTS", "."))

payments = Purgatory("payments", max_pending=10_000)
cluster = Cluster(payments, SqliteLog(FOLDER / "signals.db"))
database = sqlite3.connect(FOLDER / "payments.db", isolation_level=None, timeout=30)  # stands for yours


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    database.execute("CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY, payment TEXT)")
    async with payments, cluster:
        yield


async def look(order: str) -> object:
    """Look into the table: once the wait has begun, and after each signal for the order."""
    row = database.execute("SELECT payment FROM payments WHERE id = ?", (order,)).fetchone()
    return None if row is None else json.loads(row[0])


app = FastAPI(lifespan=lifespan)


@app.get("/orders/{order}")
async def wait_for_payment(request: Request, order: str) -> Response:
    return await starlette_poll(request, partial(payments.wait, until=partial(look, order)), order)


@app.post("/orders/{order}")
async def pay(order: str, payment: Annotated[dict[str, int], Body()]) -> dict[str, int]:
    database.execute(
        "INSERT INTO payments VALUES (?, ?)", (order, json.dumps(payment))
    )  # commit, then signal
    return {"position": await cluster.signal(order)}


@app.get("/worker")
async def worker() -> dict[str, int]:
    return {"worker": os.getpid(), "pending": payments.pending}


async def connect(stack: AsyncExitStack, address: Path) -> tuple[httpx2.AsyncClient, int]:
    """Open one connection, which stays with one worker; waits for the first worker to start."""
    transport = httpx2.AsyncHTTPTransport(uds=str(address), limits=httpx2.Limits(max_connections=1))
    client = httpx2.AsyncClient(transport=transport, base_url="http://payments", timeout=30)
    await stack.enter_async_context(client)
    for _ in range(1000):
        try:
            return client, (await client.get("/worker")).json()["worker"]
        except httpx2.TransportError:
            await asyncio.sleep(0.05)
    raise TimeoutError(f"nothing listens on {address}")


async def use(address: Path) -> None:
    async with AsyncExitStack() as stack:
        clients: dict[int, httpx2.AsyncClient] = {}
        while len(clients) < 2:  # the kernel chooses the worker
            client, number = await connect(stack, address)
            clients.setdefault(number, client)
        here, there = clients.values()
        print(f"connected to two workers: {len(clients) == 2}")

        empty = await here.get("/orders/41", params={"wait": "300ms"})
        print(f"order 41: {empty.status_code}, not paid in 300 ms")

        held = asyncio.create_task(here.get("/orders/42", params={"wait": "20s"}))
        await asyncio.sleep(0.2)
        await there.post("/orders/42", json={"amount": 99})
        answer = await held
        print(f"order 42: {answer.status_code} {answer.json()}, paid at the other worker")

        late = await there.get("/orders/42")
        print(f"order 42: {late.status_code} {late.json()}, asked for afterwards")


@contextmanager
def serving(program: str, folder: str) -> Iterator[Path]:
    """Run the program's ``app`` under ``uvicorn --workers 4`` on a socket in a folder."""
    address = Path(folder) / "payments.sock"
    # uvicorn's supervisor leaves its socket to the interpreter.
    python = [sys.executable, "-W", "ignore::ResourceWarning"]
    uvicorn = ["-m", "uvicorn", "--app-dir", str(Path(program).parent), "--log-level", "warning"]
    serve = [*python, *uvicorn, "--workers", "4", "--uds", str(address), f"{Path(program).stem}:app"]
    environment = {**os.environ, "PAYMENTS": folder}
    with subprocess.Popen(serve, env=environment) as server:  # noqa: S603 - its own arguments
        try:
            yield address
        finally:
            server.terminate()
    print(f"the server ended with {server.returncode}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, serving(__file__, folder) as address:
        asyncio.run(use(address))


if __name__ == "__main__":
    main()
