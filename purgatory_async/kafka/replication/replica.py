"""A follower's side: fetches from one leader, for ever, what this broker replicates of it.

Each fetch asks from the end of the copy, so it acknowledges everything before. The leader holds a fetch until there
are records or a moved high watermark, for half a second at most; a leader that does not answer for much longer is
out of reach.

A held fetch does not name a partition that is created meanwhile. So the follower hangs up when it learns of one, and
asks again; the leader drops what it held for a connection that has gone.
"""

import logging
from typing import Any, Final

from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.replication.copying import MAX_ASKED, fetch_on
from purgatory_async.kafka.replication.peer import Other, Peer
from purgatory_async.kafka.topics import Topic

__all__ = ["Replica"]

_LOG: Final = logging.getLogger(__name__)
_WAIT_MS: Final = 500
_RESTING_WAIT_MS: Final = 100
_RECONNECT_S: Final = 0.1
_REFUSED_S: Final = 0.1  # rest of a partition that the leader refuses
_FAILED_S: Final = 1.0  # of one that cannot be appended to


class Replica:
    """Follows a leader.

    Args:
        node: The follower.
        leader: The other broker.
    """

    def __init__(self, node: Node, leader: int) -> None:
        self._node: Final = node
        self._leader: Final = leader
        self._version = -1
        self._followed: list[Partition] = []
        self._turn = 0
        self._resting: dict[Partition, float] = {}  # until when
        self._complaints: dict[Partition, str] = {}  # the last one logged, since topics changed
        self._asked: Other | None = None  # while it may hold a fetch
        self._hung_up = False
        self._in_haste = False

    def __repr__(self) -> str:
        return f"<Replica of {self._leader} on {self._node.id} partitions={len(self._followed)}>"

    async def run(self) -> None:
        """Follow until cancelled; connect again whenever the leader is away."""
        node = self._node
        node.topics.on_added.append(self.ask_anew)
        while True:
            host, port = node.addresses[self._leader]
            patience = node.settings.replica_lag + _WAIT_MS / 1000
            try:
                async with Peer(
                    host, port, name=f"broker-{node.id}", timer=node.timer, patience=patience
                ) as peer:
                    while True:
                        await self.fetch(peer)
            except (OSError, EOFError) as error:
                if self._hung_up:
                    self._hung_up = False
                    continue
                if self._leader in node.cluster.reachable:
                    _LOG.warning("broker %d is out of reach: %r", self._leader, error)
                node.cluster.reachable.discard(self._leader)
            await node.timer.sleep(_RECONNECT_S)

    async def fetch(self, peer: Other, *, waits: bool = True) -> None:
        """Fetch once, and append what comes. O(partitions + bytes).

        Args:
            peer: The leader.
            waits: Whether it may hold the fetch until there is something.

        Raises:
            OSError, EOFError: As `Peer.ask`.
        """
        wanted = self._wanted()
        # Without a wait after hanging up: when topics come one after another, each second fetch is answered.
        short = self._resting or len(self._followed) > MAX_ASKED
        wait_ms = 0 if self._in_haste or not waits else _RESTING_WAIT_MS if short else _WAIT_MS
        self._in_haste = False
        self._asked = peer if wait_ms else None
        try:
            fetched = await fetch_on(self._node, peer, wanted, max_wait_ms=wait_ms)
        finally:
            self._asked = None
        if self._leader not in self._node.cluster.reachable:
            self._node.cluster.reachable.add(self._leader)
            _LOG.info("broker %d is within reach", self._leader)
        for partition, part in fetched:
            self._take(partition, part)

    def ask_anew(self, topic: Topic) -> None:
        """Hang up if the leader may hold a fetch that lacks a new topic's partitions. O(partitions)."""
        if self._asked is not None and any(map(self._follows, topic.partitions)):
            self._hung_up = self._in_haste = True
            self._asked.hang_up()
            self._asked = None

    def _follows(self, partition: Partition) -> bool:
        return partition.leader == self._leader and self._node.id in partition.replicas

    def _wanted(self) -> list[Partition]:
        """The partitions to ask for; each fetch begins with another one, so that none starves. O(partitions).

        Of more than one fetch takes, the next ones.
        """
        topics = self._node.topics
        if self._version != topics.version:
            self._version = topics.version
            self._complaints = {}
            self._followed = [
                partition for topic in topics for partition in topic.partitions if self._follows(partition)
            ]
        now = self._node.timer.time()
        self._resting = {
            partition: until
            for partition, until in self._resting.items()
            if until > now and not partition.deleted
        }
        step = MAX_ASKED if len(self._followed) > MAX_ASKED else 1
        self._turn = (self._turn + step) % len(self._followed)
        turned = self._followed[self._turn :] + self._followed[: self._turn]
        return [one for one in turned[:MAX_ASKED] if one not in self._resting]

    def _take(self, partition: Partition, part: Any) -> None:
        """Append what the leader sent, or start over with what it has."""
        if partition.deleted:
            return
        if part.error_code is ErrorCode.unknown_topic_or_partition:
            _LOG.info("%r: broker %d does not know it yet", partition, self._leader)
        elif part.error_code is not ErrorCode.none:
            _LOG.info("%r: broker %d answers %s", partition, self._leader, part.error_code.name)
            self._rest(partition, _REFUSED_S)
        elif part.diverging_epoch.end_offset >= 0:
            before = partition.log.end
            partition.drop_diverging(
                part.diverging_epoch.epoch, part.diverging_epoch.end_offset, part.log_start_offset
            )
            _LOG.warning(
                "%r drops its records up to offset %d: its leader, broker %d, has others",
                *(partition, before, self._leader),
            )
        else:
            try:
                if part.records:
                    partition.append_copies(part.records)
                    self._node.cluster.learn(partition, part.records)
            except ProtocolError as error:
                if self._complaints.get(partition) != str(error):
                    self._complaints[partition] = str(error)
                    _LOG.warning("%r does not follow broker %d: %s", partition, self._leader, error)
                self._rest(partition, _FAILED_S)
            partition.learn(part.high_watermark, part.log_start_offset)

    def _rest(self, partition: Partition, seconds: float) -> None:
        self._resting[partition] = self._node.timer.time() + seconds
