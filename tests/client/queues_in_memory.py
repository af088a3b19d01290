"""`QueuesInMemory` stands for what `AsyncVerbs.work` asks for: queues in this process, whose store may be away.

As the real ones: the oldest item first, attempts count hand-outs, a lease that ends puts its item back, after
``max_attempts`` an item is dead, a take that is cancelled goes back without an attempt.
"""

import asyncio
from dataclasses import dataclass, replace

from purgatory_async.client import Lease, RequestRefused, ServiceUnreachable

GONE = RequestRefused.of(410, {"type": "urn:purgatory:problem:lease-expired", "detail": "it has ended"})
AWAY = RequestRefused.of(503, {"type": "urn:purgatory:problem:store-unavailable", "detail": "it is away"})


@dataclass(frozen=True, order=True)
class Item:
    number: int
    queue: str
    item: object
    attempts: int = 0


@dataclass
class Leased:
    item: Item
    ends: asyncio.TimerHandle | None = None


class QueuesInMemory:
    def __init__(self, max_attempts=None):
        self.loop = asyncio.get_running_loop()
        self.max_attempts = max_attempts
        self.ready, self.lines, self.leases = {}, {}, {}
        self.hidden, self.acknowledged, self.dead = [], [], []
        self.given_back = []  # the item as it was leased, and the delay
        self.extended = []  # the id of the lease, and when
        self.expired = set()
        self.away = False
        self.lose_answers = 0
        self.gone = 0  # how often a lease was not there
        self.refusal = None  # of a take
        self.numbers = 0
        self.trip = (
            0  # seconds of a request and of an answer, for a `VirtualTimeLoop`; None: not even a pause
        )
        self._trips, self._planned = 0, None

    def at_trip(self, number, call):
        """Call a function in the loop pass of a request or of an answer."""
        self._planned = number, call

    def put(self, queue, item, delay=0):
        self.numbers += 1
        self._show_later(Item(self.numbers, queue, item), delay)

    async def take(self, queue, *, lease=None, timeout=0.0):
        leases = await self._leased(queue, 1, lease, wait=timeout is None)
        return leases[0] if leases else None

    async def take_batch(self, queue, most, *, lease=None, timeout=0.0):
        assert 1 <= most <= 100
        return await self._leased(queue, most, lease, wait=timeout is None)

    async def extend(self, lease, seconds=None):
        await self._arrive()
        leased = self._lease(lease.id)
        self._count(lease.id, leased, seconds)
        self.extended.append((lease.id, self.loop.time()))
        await self._return()
        return seconds

    async def acknowledge(self, lease):
        await self._arrive()
        self.acknowledged.append(self._end(lease.id).item.item)
        await self._return()

    async def give_back(self, lease, *, delay=None):
        await self._arrive()
        leased = self._end(lease.id)
        self.given_back.append((leased.item, delay))
        self._come_back(leased.item, delay or 0)
        await self._return()

    def steal(self, lease_id):
        """End a lease, as an operator may; its item comes back."""
        self._come_back(self._end(lease_id).item, 0)

    def comes_back(self):
        """The store is there again, and gives what came meanwhile to those in line."""
        self.away = False
        for queue in self.lines:
            self._serve(queue)

    async def _leased(self, queue, most, seconds, *, wait):
        await self._arrive()
        if self.refusal is not None:
            raise self.refusal
        if self.ready.get(queue):
            numbers = [self._hand_out(queue) for _ in range(min(most, len(self.ready[queue])))]
        elif wait:
            turn = self.loop.create_future()
            self.lines.setdefault(queue, []).append(turn)
            try:
                numbers = [await turn]
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._undo([turn.result()])
                self.lines[queue] = [each for each in self.lines[queue] if each is not turn]
                raise
        else:
            numbers = []
        try:
            for number in numbers:
                self._count(number, self.leases[number], seconds)
            await self._return()
        except BaseException:
            self._undo(numbers)
            raise
        return [self._view(number, seconds) for number in numbers]

    def _hand_out(self, queue):
        item = self.ready[queue].pop(0)
        self.numbers += 1
        lease_id = f"{item.number}-{self.numbers}"
        self.leases[lease_id] = Leased(replace(item, attempts=item.attempts + 1))
        return lease_id

    def _view(self, lease_id, seconds):
        item = self.leases[lease_id].item if lease_id in self.leases else Item(0, "", None, 1)
        return Lease(lease_id, item.item, seconds, str(item.number), item.attempts)

    def _undo(self, leases):
        for lease_id in leases:
            if lease_id in self.leases:
                item = self._end(lease_id).item
                self._show(replace(item, attempts=item.attempts - 1))

    def _count(self, lease_id, leased, seconds):
        if leased.ends is not None:
            leased.ends.cancel()
        leased.ends = self.loop.call_later(seconds, self._expire, lease_id)

    def _expire(self, lease_id):
        self.expired.add(lease_id)
        self._come_back(self.leases.pop(lease_id).item, 0)

    def _lease(self, lease_id):
        if lease_id not in self.leases:
            self.gone += 1
            raise GONE
        return self.leases[lease_id]

    def _end(self, lease_id):
        leased = self._lease(lease_id)
        del self.leases[lease_id]
        if leased.ends is not None:
            leased.ends.cancel()
        return leased

    def _come_back(self, item, delay):
        if self.max_attempts is not None and item.attempts >= self.max_attempts:
            self.dead.append(item.item)
        else:
            self._show_later(item, delay)

    def _show_later(self, item, delay):
        if not delay:
            self._show(item)
            return
        self.hidden.append(item)

        def show():
            self.hidden.remove(item)
            self._show(item)

        self.loop.call_later(delay, show)

    def _show(self, item):
        ready = self.ready.setdefault(item.queue, [])
        ready.append(item)
        ready.sort()
        self._serve(item.queue)

    def _serve(self, queue):
        line, ready = self.lines.get(queue, []), self.ready.get(queue, [])
        while line and ready and not self.away:
            turn = line.pop(0)
            if not turn.done():
                turn.set_result(self._hand_out(queue))

    async def _travel(self):
        if self._planned is not None and self._planned[0] == self._trips:
            self.loop.call_soon(self._planned[1])
        self._trips += 1
        if self.trip is not None:
            await asyncio.sleep(self.trip)

    async def _arrive(self):
        await self._travel()
        if self.away:
            raise AWAY

    async def _return(self):
        if self.lose_answers:
            self.lose_answers -= 1
            raise ServiceUnreachable("it may or may not have been carried out")
        await self._travel()
