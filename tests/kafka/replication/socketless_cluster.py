"""Three brokers without sockets: followers' fetches are carried by hand, on virtual time."""

import asyncio
from typing import Any

from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.replication.recovery import take_back
from purgatory_async.kafka.replication.replica import Replica
from tests.kafka.socketless import SocketlessBroker

BROKERS = range(3)


class Carrier:
    """In place of a connection to a broker; the leader holds no fetch unless it ``waits``."""

    def __init__(self, leader: SocketlessBroker, *, waits: bool) -> None:
        self._leader = leader
        self._waits = waits
        self._hung_up = False

    async def ask(self, key: int, version: int, **values: Any) -> Any:
        if "max_wait" in values and not self._waits:
            values["max_wait"] = 0
        self._asking = self._leader.begin(key, version, **values)
        try:
            return await self._asking
        except asyncio.CancelledError:
            if self._hung_up:
                raise EOFError("the connection was given up") from None
            raise

    def hang_up(self) -> None:
        self._hung_up = True
        self._asking.cancel()


class SocketlessCluster:
    """The brokers of one cluster, each within reach of all."""

    def __init__(self, clock, **settings: Any) -> None:
        self._clock = clock
        self._settings = {"replication": 3, **settings}
        self._starts = 0
        self.cluster: dict[int, SocketlessBroker] = {}
        self.replicas: dict[tuple[int, int], Replica] = {}
        for number in BROKERS:
            self.start(number)

    def __getitem__(self, number: int) -> SocketlessBroker:
        return self.cluster[number]

    async def restart(self, number: int, *reached: int) -> None:
        """Start a broker without its memory; it takes back what these have."""
        self.start(number)
        others = {other: Carrier(self[other], waits=False) for other in reached}
        await take_back(self[number].node, others)

    def start(self, number: int) -> None:
        """Start a broker without its memory, which reaches no other before it serves."""
        self._starts += 1
        if number in self.cluster:
            self.cluster[number].node.close()
        broker = SocketlessBroker(
            self._clock, brokers=len(BROKERS), id=number, epoch=self._starts, **self._settings
        )
        self.cluster[number] = broker
        for other in BROKERS:
            replica = self.replicas[number, other] = Replica(broker.node, other)
            broker.node.topics.on_added.append(replica.ask_anew)

    async def fetch(self, follower: int, leader: int, *, waits: bool = False) -> None:
        """Carry one fetch and its answer."""
        await self.replicas[follower, leader].fetch(Carrier(self[leader], waits=waits))

    async def settle(self) -> None:
        """Carry fetches until all have what there is, and know it; partitions that rest are followed again."""
        self._clock.advance(0.2)
        for _ in range(3):
            for follower in BROKERS:
                for leader in BROKERS:
                    if follower != leader:
                        await self.fetch(follower, leader)

    def partition(self, number: int, topic: str, index: int = 0) -> Partition:
        return self[number].node.topics.partition(topic, index)

    def close(self) -> None:
        for broker in self.cluster.values():
            broker.node.close()
