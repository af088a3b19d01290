"""The same with Postgres: the transaction that changes an order's row also signals; neither happens without the other.

After the commit a worker moves the signal into the log, exactly once; after a rollback there is none. A poll looks into
the row once its wait has begun, and again when the order is signalled, so it misses nothing. Set DATABASE_URL, such as
``postgresql://me@localhost/shop``, and run it as a program: it starts ``uvicorn --workers 4`` and uses it.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import asyncpg
from fastapi import Body, FastAPI, HTTPException, Request, Response
from signals_across_workers import connect, serving

from purgatory_async import Purgatory
from purgatory_async.cluster import Cluster, PostgresLog
from purgatory_async.web import starlette_poll

DATABASE = os.environ.get("DATABASE_URL", "")
ORDERS = "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, paid jsonb, price int NOT NULL)"

payments = Purgatory("payments", max_pending=10_000)
cluster = Cluster(payments, PostgresLog(DATABASE))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(DATABASE, min_size=1, max_size=4) as pool, payments, cluster:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/orders/{order}")
async def wait_for_payment(request: Request, order: str) -> Response:
    async def look() -> object:  # once the wait has begun, and after each signal for the order
        payment = await request.app.state.pool.fetchval("SELECT paid FROM orders WHERE id = $1", order)
        return None if payment is None else json.loads(payment)

    return await starlette_poll(request, partial(payments.wait, until=look), order)


@app.post("/orders/{order}")
async def pay(request: Request, order: str, payment: Annotated[dict[str, int], Body()]) -> dict[str, str]:
    stored = json.dumps(payment)
    async with request.app.state.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT purgatory_signal($1, $2)", order, stored)
        query = "UPDATE orders SET paid = $2 WHERE id = $1 RETURNING ($2::jsonb->>'amount')::int >= price"
        if not await connection.fetchval(query, order, stored):
            raise HTTPException(402, "it costs more")  # which rolls the signal back, too
    return {"paid": order}


@app.get("/worker")
async def worker() -> dict[str, int]:
    return {"worker": os.getpid(), "pending": payments.pending}


async def prepare() -> None:
    connection = await asyncpg.connect(DATABASE)
    await connection.execute(ORDERS)
    await connection.execute(
        "INSERT INTO orders VALUES ('42', NULL, 99) ON CONFLICT (id) DO UPDATE SET paid = NULL"
    )
    await connection.close()


async def use(address: Path) -> None:
    async with AsyncExitStack() as stack:
        clients = {}
        while len(clients) < 2:  # the kernel chooses the worker
            client, number = await connect(stack, address)
            clients.setdefault(number, client)
        here, there = clients.values()

        held = asyncio.create_task(here.get("/orders/42", params={"wait": "20s"}))
        await asyncio.sleep(0.2)
        refused = await there.post("/orders/42", json={"amount": 9})
        print(f"9: {refused.status_code} {refused.json()['detail']}; rolled back with its signal")
        await asyncio.sleep(0.2)
        print(f"order 42 still waits: {not held.done()}")
        await there.post("/orders/42", json={"amount": 99})
        answer = await held
        print(f"order 42: {answer.status_code} {answer.json()}, committed at the other worker")


def main() -> None:
    if not DATABASE:
        sys.exit("set DATABASE_URL to a Postgres, such as postgresql://me@localhost/shop")
    asyncio.run(prepare())
    with tempfile.TemporaryDirectory() as folder, serving(__file__, folder) as address:
        asyncio.run(use(address))


if __name__ == "__main__":
    main()
