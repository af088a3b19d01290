"""Takers over several workers whose connections break: no item is lost, doubled, or leased twice at a time."""

import asyncio
import random
from contextlib import suppress

import pytest
from msgspec import Raw

from purgatory_async.cluster import LogError
from purgatory_async.durable.fold import codec
from purgatory_async.durable.fold.entries import EndLease, LeaveLine, PutItem, WantItem
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.leases import ItemLeased, TakerLeft
from purgatory_async.durable.fold.results import APPLIED, InLine, Leased, Put, Refused
from tests.cluster.faulty import ANSWER, REQUEST
from tests.durable.log_workers import Worker, Workers, settled

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])
SECOND = 1_000_000
ITEMS = 60


class Taking(Worker):
    """A worker with the requests of takers: each waits for the effect that ends its wait."""

    def __init__(self, store, **options):
        super().__init__(store, **options)
        self.waiting = {}

    def applied(self, result, effects):
        for effect in effects:
            if isinstance(effect, ItemLeased):
                self.end(effect.lease.id, effect.lease.item)
            elif isinstance(effect, TakerLeft):
                self.end(effect.lease_id, None)
        return super().applied(result, effects)

    def end(self, lease_id, item):
        waiter = self.waiting.get(lease_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(item)

    async def stop(self):
        await super().stop()
        for lease_id in self.waiting:
            self.end(lease_id, None)

    async def take(self, lease_id, lease, wait):
        """An item, or None; a client that leaves is gone."""
        waiter = self.waiting[lease_id] = asyncio.get_running_loop().create_future()
        try:
            result = await self.propose(
                WantItem(queue="q", lease_id=lease_id, lease_us=lease, wait_us=wait, max=1)
            )
            return await waiter if isinstance(result, InLine | Leased) else None
        except LogError:
            with suppress(LogError):
                self.state.post(LeaveLine(lease_id=lease_id))
            return None
        finally:
            del self.waiting[lease_id]


class TakingWorkers(Workers):
    async def start(self, **options):
        worker = Taking(self.store, **options)
        self._stack.push_async_callback(worker.stop)
        await worker.start()
        return worker


class Clients:
    """What puts and takes items, while the workers' connections break and workers are stopped.

    Attributes:
        acknowledged: The items whose acknowledgement was answered.
        unknown: The leases of which it is unknown.
    """

    def __init__(self, workers, team, seed):
        self.workers = workers
        self.team = team
        self.draw = random.Random(seed)
        self.acknowledged, self.unknown = [], []
        self.names = iter(range(1_000_000))
        self.busy = True

    async def disturb(self):
        draw, team = self.draw, self.team
        while self.busy:
            await asyncio.sleep(draw.uniform(0, 1))
            place = draw.randrange(len(team))
            if draw.random() < 0.1:
                await team[place].stop()
                team[place] = await self.workers.start()
            log = team[place].log
            log.cut()
            log.losses.append(draw.choice([REQUEST, ANSWER]))
            log.late_s = draw.choice([0, 0.01, 0.2])
            log.deaf_s = draw.choice([0, 0.01, 0.5])
            log.away = draw.random() < 0.1

    def heal(self):
        for worker in self.team:
            worker.log.away, worker.log.late_s, worker.log.deaf_s = False, 0, 0
            worker.log.losses.clear()

    async def put(self, number):
        await asyncio.sleep(self.draw.uniform(0, 30))
        while True:  # with a key, so that a client may repeat it
            try:
                entry = PutItem(
                    queue="q", item=Raw(str(number).encode()), idem=f"i{number}", digest="d", delay_us=0
                )
                result = await self.draw.choice(self.team).propose(entry)
            except LogError:
                await asyncio.sleep(1)
            else:
                assert isinstance(result, Put)
                return

    async def consume(self):
        while self.busy:
            worker, lease_id = self.draw.choice(self.team), f"l{next(self.names)}"
            item = await worker.take(lease_id, lease=3 * SECOND, wait=self.draw.choice([0, 5 * SECOND]))
            if item is None or self.draw.random() < 0.2:  # a client that dies
                await asyncio.sleep(0.2)
                continue
            try:
                result = await worker.propose(EndLease(lease_id=lease_id))
            except LogError:
                self.unknown.append(lease_id)
            else:
                assert result == APPLIED or isinstance(result, Refused)
                if result == APPLIED:
                    self.acknowledged.append(int(bytes(item.text)))

    async def work(self):
        disturbing = asyncio.create_task(self.disturb())
        consuming = [asyncio.create_task(self.consume()) for _ in range(8)]
        await asyncio.gather(*(self.put(number) for number in range(ITEMS)))
        await asyncio.sleep(60)
        self.busy = False
        await disturbing
        self.heal()
        await asyncio.gather(*consuming)
        await asyncio.sleep(30)


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 40))]
)
async def test_each_item_is_acknowledged_once(seed):
    async with TakingWorkers() as workers:
        clients = Clients(workers, [await workers.start() for _ in range(3)], seed)
        await clients.work()
        await settled(*clients.team)
        check_leases(workers.store)
        fold, acknowledged = clients.team[0].fold, clients.acknowledged
        totals, left = fold.shared.totals, fold.queues.kept + len(fold.queues.leases)
        assert totals.items == ITEMS
        assert totals.acknowledged + left == ITEMS
        assert len(acknowledged) == len(set(acknowledged)) <= totals.acknowledged
        assert totals.acknowledged <= len(acknowledged) + len(clients.unknown)
        assert left == 0 or clients.unknown  # a minute was enough for all whose outcome is known
        assert {worker.state.recovery.diverged for worker in clients.team} == {0}


def check_leases(store):
    """Fold the log once more: leases of an item never overlap, and takers get items in the order of the log."""
    fold = Fold()
    last = {}
    for entry in store.history[store.epoch]:
        line = [taker.order.lease_id for taker in fold.queues.takers.values()]
        _, effects = fold.apply(entry.position, entry.at_us, codec.decode(entry.data))
        leased = [effect.lease for effect in effects if isinstance(effect, ItemLeased)]
        left = {effect.lease_id for effect in effects if isinstance(effect, TakerLeft)}
        for lease in leased:
            before = last.get(lease.item.number)
            assert before is None or before not in fold.queues.leases
            last[lease.item.number] = lease.id
        served = [lease.id for lease in leased if lease.id in line]
        assert served == [name for name in line if name not in left][: len(served)]
    fold.close()
