"""A process of askers or of answerers, which tells each step on its standard output until it is killed.

Its first line only says that it has begun.

``python -m tests.soak.promises.person ROLE`` reads its job as JSON from its standard input: the workers' ``ports``, the
``seed`` of its choices and the ``names`` of the rounds it asks. It remembers nothing of an earlier run: an asker asks
again, an answerer may decide otherwise.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final
from uuid import uuid4

from tests.soak.chaos.client import Client, Reply, Unanswered
from tests.soak.promises.rounds import ANNOUNCED, CHOICES, ENDED, MOVED_S, PUBLIC_URL, Port, order_of

__all__ = ["ROLES", "Person"]

ASKERS: Final = 48
READERS: Final = 3
ANSWERERS: Final = 6
LEASE_S: Final = 4.0
CONFLICT, GONE, NO_CONTENT = 409, 410, 204


class Person:
    """What all people of a process have.

    Args:
        ports: The workers'.
        seed: Seeds the random choices.
    """

    def __init__(self, ports: Sequence[int], seed: str) -> None:
        self._workers: Final = [Port(port) for port in ports]
        self.draw: Final = random.Random(seed)

    def client(self) -> Client:
        """Make a client of all workers."""
        return Client(self._workers, self.draw)

    def tell(self, name: str, step: str, **more: Any) -> None:
        """Tell a step of a round, when it begins or what came of it."""
        line = json.dumps({"name": name, "step": step, "at": time.monotonic(), **more})
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def odd(self, name: str, reply: Reply, *statuses: int) -> bool:
        """Report a status that is not expected; return whether it was."""
        if reply.status not in statuses:
            self.tell(name, "odd", what=f"{reply.status} {reply.body}")
        return reply.status not in statuses

    # Askers.

    async def ask(self, names: Iterator[str]) -> None:
        """Ask one question after another, and wait for the answer of each."""
        client = self.client()
        for name in names:
            while True:
                try:
                    await self._ask(client, name)
                    break
                except Unanswered as error:
                    self.tell(name, "unanswered", what=str(error))

    async def _ask(self, client: Client, name: str) -> None:
        target, order = f"/v1/operations/{name}", order_of(name)
        moves = name.startswith("move")
        self.tell(name, "ask")
        reply = await client.ask("PUT", target if moves else f"{target}?wait=5s", order)
        if self.odd(name, reply, 200, 201, 202):
            return
        if moves and reply.body["state"] == "pending":
            self.tell(name, "move")
            moved = await client.ask("POST", f"{target}/reschedule", {"timeout": MOVED_S})
            if not self.odd(name, moved, 200, CONFLICT) and moved.status != CONFLICT:
                self.tell(name, "moved", sent=moved.began)
        while reply.body["state"] == "pending":
            self.tell(name, "wait")
            again = self.draw.choice((("PUT", order), ("GET", None)))
            reply = await client.ask(again[0], f"{target}?wait=5s", again[1])
            if self.odd(name, reply, 200):
                return
        self.tell(name, "read", view=reply.body)

    async def resume(self) -> None:
        """Take the ends that are delivered, and read the answers."""
        client = self.client()

        async def _resume(name: str, item: dict[str, Any]) -> None:
            self.tell(name, "resume")
            reply = await client.ask("GET", f"/v1/operations/{name}")
            if not self.odd(name, reply, 200):
                self.tell(name, "delivered", view=reply.body, state=item["state"])

        await self._serve(client, ENDED, _resume)

    # Answerers.

    async def answer(self) -> None:
        """Take the questions that are announced, and answer most of them; sometimes two at once, who differ."""
        client, other = self.client(), self.client()

        async def _decide(name: str, _: object) -> None:
            if name.startswith(("ask", "race")):
                ways = self.draw.choice((("verb",), ("link",), ("verb", "link"), ("link", "link")))
                answering = zip((client, other), ways, strict=False)
                await asyncio.gather(*(self._answer(each, name, way) for each, way in answering))

        await self._serve(client, ANNOUNCED, _decide)

    async def _answer(self, client: Client, name: str, way: str) -> None:
        mine = {"choice": self.draw.choice(CHOICES), "comment": uuid4().hex}
        target, body = f"/v1/operations/{name}/answer", {**mine, "by": mine["comment"]}
        if way == "link":
            self.tell(name, "link")
            made = await client.ask("POST", f"/v1/operations/{name}/links", {"by": mine["comment"]})
            if self.odd(name, made, 201, CONFLICT) or made.status == CONFLICT:
                return
            target, body = made.body["url"].removeprefix(PUBLIC_URL), mine
        self.tell(name, f"answer by {way}")
        reply = await client.ask("POST", target, body)
        if not self.odd(name, reply, 200, CONFLICT):
            accepted = {} if reply.status == CONFLICT else {"accepted": mine}
            self.tell(name, "answered", view=reply.body.get("operation", reply.body), **accepted)

    # Both.

    async def _serve(
        self, client: Client, queue: str, handle: Callable[[str, dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Take the items of a queue, and acknowledge each when it is handled."""
        while True:
            try:
                order = {"lease": LEASE_S, "max": 4}
                reply = await client.ask("POST", f"/v1/queues/{queue}/take?wait=2s", order)
                if self.odd(queue, reply, 200, NO_CONTENT) or reply.body is None:
                    continue
                for lease in reply.body["leases"]:
                    name = lease["item"]["operation"]
                    await handle(name, lease["item"])
                    self.tell(name, "acknowledge")
                    end = await client.ask("POST", f"/v1/leases/{lease['lease']}/ack")
                    self.odd(name, end, NO_CONTENT, GONE)
                    self.tell(name, "acknowledged")
            except Unanswered as error:
                self.tell(queue, "unanswered", what=str(error))


ROLES: Final = ("asker", "answerer")


async def _main() -> None:
    role, job = sys.argv[1], json.load(sys.stdin)
    person = Person(job["ports"], job["seed"])
    person.tell("", "begin")
    if role == "asker":
        names = iter(job["names"])
        await asyncio.gather(
            *(person.ask(names) for _ in range(ASKERS)), *(person.resume() for _ in range(READERS))
        )
    else:
        await asyncio.gather(*(person.answer() for _ in range(ANSWERERS)))


if __name__ == "__main__":
    asyncio.run(_main())
