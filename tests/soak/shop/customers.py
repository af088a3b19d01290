"""Customers of the shop: each places an order, pays it, has it paid back, and asks again at whatever fails."""

import asyncio
import random
from collections import Counter

import httpx2

PATIENCE_S = 120.0
AGAIN_S = 0.05
REFUSED = frozenset({404, 409})


class Books:
    """What customers and persons were answered.

    Attributes:
        paid: The price of each order whose payment a customer has seen.
        decided: By refund, what the person who decided was answered: choice and name.
        refunds: By refund, what its customer was answered.
        answered: How many requests were.
        counts: Requests that failed, by kind.
        wrong: What must not be, in words.
    """

    def __init__(self):
        self.paid, self.amounts, self.decided, self.refunds = {}, {}, {}, {}
        self.answered, self.counts, self.wrong = 0, Counter(), []


class Customer:
    """One customer, with an order.

    Args:
        address: The shop's.
        books: Note the answers.
        order: Its id.
        draw: A random generator.
        transfer: Pays by bank, in place of the shop's own payment: an async function of order and price.
    """

    def __init__(self, address, books, order, draw, transfer):
        self._address, self._books, self._order, self._draw, self._transfer = (
            address,
            books,
            order,
            draw,
            transfer,
        )
        self.price = draw.randrange(1, 200)

    async def shop(self, client):
        """Live the whole story."""
        await self._ask(client, "place", "/orders", {"order": self._order, "price": self.price})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pay(client))
            paid = tasks.create_task(self._until_ended(client, "look", f"/orders/{self._order}"))
        self._expect(paid.result(), {"state": "completed", "choice": None, "by": None})
        self._books.paid[self._order] = self.price
        refund = {"amount": self.price}
        async with asyncio.TaskGroup() as tasks:
            if self.price > 100:
                tasks.create_task(self._decide(client))
            answer = tasks.create_task(
                self._until_ended(client, "refund", f"/orders/{self._order}/refund", refund)
            )
        self._books.refunds[self._order] = answer.result()

    async def _pay(self, client):
        await asyncio.sleep(self._draw.random())
        if self._draw.random() < 0.3:
            await self._transfer(self._order, self.price)
        else:
            await self._ask(client, "pay", f"/orders/{self._order}/payment", {"amount": self.price})

    async def _decide(self, client):
        """Two persons answer, often at once; one of them is too late."""
        async with asyncio.TaskGroup() as tasks:
            for name in ("ann", "bob"):
                tasks.create_task(
                    self._answer(client, {"choice": self._draw.choice(["yes", "no"]), "by": name})
                )

    async def _answer(self, client, said):
        await asyncio.sleep(self._draw.random())
        while (reply := await self._ask(client, "decide", f"/refunds/{self._order}", said, REFUSED)) is None:
            await self._pause()  # it is not asked yet
        if reply.status_code == httpx2.codes.OK:
            self._books.decided.setdefault(self._order, []).append({"state": "completed", **said})

    async def _until_ended(self, client, kind, path, body=None):
        while True:
            reply = await self._ask(client, kind, f"{path}?wait=2s", body)
            if (answer := reply.json())["state"] != "pending":
                return answer

    async def _ask(self, client, kind, path, body=None, also=frozenset()):
        """Send a request until it is answered; None if there is nothing like that yet."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    method = "GET" if body is None else "POST"
                    reply = await client.request(method, self._address + path, json=body)
                except httpx2.TransportError:
                    self._books.counts[f"{kind} cut"] += 1
                else:
                    if reply.status_code == httpx2.codes.OK or reply.status_code in also:
                        self._books.answered += 1
                        return None if reply.status_code == httpx2.codes.NOT_FOUND else reply
                    self._books.counts[f"{kind} {reply.status_code}"] += 1
                    if reply.status_code < httpx2.codes.INTERNAL_SERVER_ERROR:
                        self._books.wrong.append(f"{kind} {self._order}: {reply.status_code} {reply.text}")
                        raise AssertionError(self._books.wrong[-1])
                await self._pause()

    async def _pause(self):
        await asyncio.sleep(AGAIN_S)

    def _expect(self, answer, expected):
        if answer != expected:
            self._books.wrong.append(f"{self._order}: {answer}")


async def rush(address, books, transfer, *, seconds, at_once, seed):
    """Let so many customers at once shop, each followed by the next, for some seconds; then the last ones end."""
    loop, orders = asyncio.get_running_loop(), iter(range(10**9))
    over = loop.time() + seconds

    async def queue(number):
        draw = random.Random(f"{seed} {number}")
        # Without connections that stay: each request may come to another worker.
        limits = httpx2.Limits(max_keepalive_connections=0)
        async with httpx2.AsyncClient(timeout=30, limits=limits) as client:
            while loop.time() < over:
                await Customer(address, books, f"{number}-{next(orders)}", draw, transfer).shop(client)

    async with asyncio.TaskGroup() as tasks:
        for number in range(at_once):
            tasks.create_task(queue(number))
