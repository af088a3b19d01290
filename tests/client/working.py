"""`Working` is `work` on `QueuesInMemory`, whose handlers run until a test says how they end."""

import asyncio

import pytest

from purgatory_async.client import AsyncVerbs
from purgatory_async.testing import settle
from tests.client.queues_in_memory import QueuesInMemory

virtual = pytest.mark.asyncio(loop_factories=["virtual"])


class Boom(Exception):  # noqa: N818 - a test's
    """What a handler raises."""


class Working:
    """A store with items, and `work` on it; a handler runs until the test says how it ends."""

    def __init__(self, *items, queues=("q",), max_attempts=None, **arguments):
        self.store = QueuesInMemory(max_attempts)
        for item in items:
            self.store.put("q", item)
        self.queues, self.arguments = queues, {"grace": 0, **arguments}
        self.running, self.most, self.reported, self.runs = {}, 0, [], []
        self.task = None
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.reported.append(context))

    async def handle(self, lease):
        self.runs.append(lease)
        self.running[lease.item] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.running))
        try:
            return await self.running[lease.item]
        finally:
            del self.running[lease.item]

    def start(self, handler=None):
        call = AsyncVerbs.work(self.store, self.queues, handler or self.handle, **self.arguments)
        self.task = asyncio.get_running_loop().create_task(call)
        return self

    async def end(self, item, how=None):
        if how is None:
            self.running[item].set_result("dropped")
        else:
            self.running[item].set_exception(how)
        await settle()

    async def stop(self):
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task
        assert not self.running
        assert not self.store.leases
        assert not any(self.store.lines.values())

    @property
    def waiting(self):
        return [each.item for each in self.store.ready.get("q", [])]

    @property
    def messages(self):
        return [str(context["message"]) for context in self.reported]


async def started(*items, handler=None, **arguments):
    working = Working(*items, **arguments).start(handler)
    await settle()
    return working
