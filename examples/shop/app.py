"""A shop of four workers: orders that wait for their payment, and refunds that wait for a person.

    export SHOP=sqlite:///shop.db  # or postgresql://me@localhost/shop
    python orders.py && uvicorn --workers 4 app:app

There is no service. When a worker dies, its clients ask again: another one has the same answer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Body, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from orders import SHOP, pay, run

from purgatory_async.client import Operation, RequestRefused
from purgatory_async.durable import Durable
from purgatory_async.web import starlette_poll

Text, Amount = Annotated[str, Body(embed=True)], Annotated[int, Body(embed=True)]
LIMIT = 100  # a person decides about a larger refund
durable = Durable(SHOP)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with durable:
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(RequestRefused)
async def refused(_: Request, refusal: RequestRefused) -> JSONResponse:
    return JSONResponse({"detail": refusal.detail}, refusal.status)


def shown(waited: Operation) -> dict[str, str | None]:
    return {"state": waited.state, "choice": waited.choice, "by": waited.by}


@app.post("/orders")
async def place(order: Text, price: Amount) -> dict[str, str | None]:
    insert = "INSERT INTO orders (id, price) VALUES (?, ?) ON CONFLICT DO NOTHING"
    await asyncio.to_thread(run, insert, order, price)
    waits = {"timeout": "24h", "keep": "7d", "deliver": "mails"}
    return shown(await durable.attach(f"payment-{order}", [f"paid-{order}"], since=0, **waits))


@app.get("/orders/{order}")
async def payment(request: Request, order: str) -> Response:
    return await starlette_poll(request, durable.follow, f"payment-{order}", encode=shown)


@app.post("/orders/{order}/payment")
def take_payment(order: str, amount: Amount) -> None:
    if not pay(order, amount):
        raise HTTPException(402, "it has another price")


@app.post("/orders/{order}/refund")
async def refund(request: Request, order: str, amount: Amount) -> Response:
    ask = {"title": f"Refund {amount} of order {order}?", "choices": ["yes", "no"]}
    asked = await durable.attach(f"refund-{order}", ask=ask, data=amount, keep="7d", deliver="mails")
    if amount <= LIMIT:
        await durable.answer(asked.id, "yes", by="the shop")
    return await starlette_poll(request, durable.follow, asked.id, encode=shown)


@app.post("/refunds/{order}")
async def decide(order: str, choice: Text, by: Text) -> dict[str, str | None]:
    return shown(await durable.answer(f"refund-{order}", choice, by=by))
