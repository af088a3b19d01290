"""What the clients do: each of these is one turn of a client, chosen at random."""

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Final

from tests.soak.chaos.answers import Answers, Item, Lease, Operation, Signal
from tests.soak.chaos.client import Client, Reply

__all__ = ["KEYS", "QUEUES", "Load"]

KEYS: Final = tuple(f"key{number}" for number in range(100))
QUEUES: Final = tuple(f"queue{number}" for number in range(5))
TIMEOUTS: Final = (None, 0.05, 0.3, 1.0, 3.0)
NEEDS: Final = ("any", "any", "all", {"amount": 3}, {"voters": 2})
LEASE_S: Final = 2.0
CONFLICT, GONE, NO_CONTENT = 409, 410, 204


class Load:
    """The clients' turns.

    Args:
        answers: Where what is asked and answered is noted.
        draw: The random choices.
    """

    def __init__(self, answers: Answers, draw: random.Random) -> None:
        self.answers: Final = answers
        self._draw: Final = draw
        self._numbers: Final = count(1)
        self._turns: Final[Sequence[Callable[[Client], Awaitable[None]]]] = (
            *[self._submit] * 4,
            *[self._signal] * 5,
            self._read_key,
            *[self._put] * 3,
            *[self._take] * 3,
        )

    async def turn(self, client: Client) -> None:
        """Take a turn at random."""
        await self._draw.choice(self._turns)(client)

    def _expect(self, reply: Reply, what: str, *statuses: int) -> bool:
        """Whether the status is one of those; another is a fault."""
        if reply.status not in statuses:
            self.answers.wrong("different", f"{what} is answered {reply.status} {reply.body}")
        return reply.status in statuses

    async def _submit(self, client: Client) -> None:
        draw, known_as = self._draw, f"op{next(self._numbers)}"
        timeout = draw.choice(TIMEOUTS)
        operation = self.answers.operations[known_as] = Operation(timeout, time.monotonic())
        order = {
            "id": known_as,
            "keys": draw.sample(KEYS, draw.choice((1, 1, 2))),
            "need": draw.choice(NEEDS),
            "timeout": timeout,
        }
        reply = await client.ask("POST", "/v1/operations", order, once=f"once-{known_as}")
        if not self._expect(reply, f"submit of {known_as}", 200, 201, 202):
            return
        operation.known = True
        self._show(known_as, reply)
        await draw.choice((self._wait, self._wait, self._complete, self._cancel, _leave))(client, known_as)

    async def _wait(self, client: Client, known_as: str) -> None:
        wait = self._draw.choice(("0s", "200ms", "2s"))
        reply = await client.ask("GET", f"/v1/operations/{known_as}?wait={wait}")
        if self._expect(reply, f"wait for {known_as}", 200):
            self._show(known_as, reply)

    async def _complete(self, client: Client, known_as: str) -> None:
        reply = await client.ask("POST", f"/v1/operations/{known_as}/complete", {"result": known_as})
        if not self._expect(reply, f"completion of {known_as}", 200, CONFLICT):
            return
        view = reply.body if reply.status != CONFLICT else reply.body["operation"]
        if reply.status != CONFLICT and view.get("result") != known_as:
            self.answers.wrong("different", f"{known_as} was completed with {view.get('result')!r}")
        self.answers.show(known_as, view["state"], reply.began, time.monotonic())

    async def _cancel(self, client: Client, known_as: str) -> None:
        reply = await client.ask("DELETE", f"/v1/operations/{known_as}")
        if self._expect(reply, f"cancellation of {known_as}", 200):
            self._show(known_as, reply)

    async def _signal(self, client: Client) -> None:
        number, key = next(self._numbers), self._draw.choice(KEYS)
        signal = self.answers.signals[number] = Signal(key)
        body = {"value": number, "voter": f"voter{number % 7}"}
        reply = await client.ask("POST", f"/v1/keys/{key}/signal", body, once=f"once-{number}")
        if self._expect(reply, f"signal {number}", 200):
            signal.index, signal.completed = reply.body["index"], reply.body["completed"]
            indexes = self.answers.indexes
            indexes[key] = max(indexes.get(key, 0), reply.body["index"])

    async def _read_key(self, client: Client) -> None:
        key = self._draw.choice(KEYS)
        # From before all attempts: a later one would allow no less.
        floor = self.answers.indexes.get(key, 0)
        reply = await client.ask("GET", f"/v1/keys/{key}")
        if self._expect(reply, f"reading {key}", 200):
            if reply.body["index"] < floor:
                self.answers.wrong("different", f"{key} shows {reply.body['index']} after {floor}")
            self.answers.indexes[key] = max(self.answers.indexes.get(key, 0), reply.body["index"])

    async def _put(self, client: Client) -> None:
        number, queue = next(self._numbers), self._draw.choice(QUEUES)
        item = self.answers.items[number] = Item()
        target = f"/v1/queues/{queue}/items"
        reply = await client.ask("POST", target, {"item": number}, once=f"once-{number}")
        if self._expect(reply, f"put of {number}", 201):
            item.delivered = reply.body["delivered"]

    async def _take(self, client: Client) -> None:
        await self.take(client, self._draw.choice(QUEUES), self._draw.choice(("0s", "300ms", "1s")))

    async def take(self, client: Client, queue: str, wait: str, *, surely: bool = False) -> bool:
        """Take an item, and mostly acknowledge it; ``surely`` always. False if there was none."""
        reply = await client.ask("POST", f"/v1/queues/{queue}/take?wait={wait}", {"lease": LEASE_S})
        if not self._expect(reply, "take", 200, NO_CONTENT) or reply.status == NO_CONTENT:
            return False
        number, lease_id = reply.body["item"], reply.body["lease"]
        self._note_lease(number, lease_id, reply.began)
        verb = "ack" if surely else self._draw.choice(("ack",) * 7 + ("return", ""))
        if not verb:
            return True
        end = await client.ask("POST", f"/v1/leases/{lease_id}/{verb}")
        if self._expect(end, f"{verb} of {number}", NO_CONTENT, GONE) and end.status == NO_CONTENT:
            self.answers.leases[lease_id].ended = verb
            if verb == "ack":
                self._note_acknowledged(number)
        return True

    def _note_lease(self, number: int, lease_id: str, began: float) -> None:
        answers, now = self.answers, time.monotonic()
        if lease_id in answers.leases:
            answers.wrong("doubled", f"the lease {lease_id} of {number} was given to two takers")
        acknowledged = answers.items[number].acknowledged
        if acknowledged is not None and acknowledged < began:
            answers.wrong("doubled", f"item {number} was given out after it was acknowledged")
        answers.leases[lease_id] = Lease(number, began, now)

    def _note_acknowledged(self, number: int) -> None:
        item = self.answers.items[number]
        if item.acknowledged is not None:
            self.answers.wrong("doubled", f"item {number} was acknowledged twice")
        item.acknowledged = time.monotonic()

    def _show(self, known_as: str, reply: Reply) -> None:
        self.answers.show(known_as, reply.body["state"], reply.began, time.monotonic())


async def _leave(client: Client, known_as: str) -> None:
    """Leave the operation alone."""
