"""What a broker of a cluster does beside serving: it follows the others, and drops followers that lag."""

import asyncio
import logging
from typing import Any, Final

from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.replication.peer import Peer
from purgatory_async.kafka.replication.replica import Replica
from purgatory_async.patterns import Periodic

__all__ = ["Replication"]

_LOG: Final = logging.getLogger(__name__)
_CREATE_TOPICS: Final = (19, 7)  # api and version
_PATIENCE_S: Final = 5.0  # with the controller
_CHECKS: Final = 4  # looks for laggards within the lag that is allowed


class Replication:
    """The tasks of one broker; `close` ends them.

    Args:
        node: The broker.
    """

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._asked: Final[set[str]] = set()  # topics
        self._tasks: Final = {
            asyncio.create_task(Replica(node, other).run())
            for other in node.cluster.brokers
            if other != node.id
        }
        self._laggards: Final = Periodic(
            node.timer, max(0.01, node.settings.replica_lag / _CHECKS), node.drop_laggards
        )
        node.ask_for_topic = self.ask_for_topic
        node.ask_controller = self.ask_controller

    async def close(self) -> None:
        """End all tasks."""
        self._laggards.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def ask_for_topic(self, name: str) -> None:
        """Ask the controller for a topic, unless that was done and is not answered."""
        if name not in self._asked:
            self._asked.add(name)
            task = asyncio.create_task(self._create(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def ask_controller(self, api_key: int, version: int, **values: Any) -> Any:
        """Ask the controller on a connection of its own; see `Peer.ask`.

        Raises:
            OSError, EOFError: It is out of reach, or does not answer in time.
        """
        node = self._node
        host, port = node.addresses[node.cluster.controller]
        async with Peer(host, port, name=f"broker-{node.id}", timer=node.timer, patience=_PATIENCE_S) as peer:
            return await peer.ask(api_key, version, **values)

    async def _create(self, name: str) -> None:
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": (),
            "configs": (),
        }
        try:
            timeout_ms = round(_PATIENCE_S * 1000)
            response = await self.ask_controller(*_CREATE_TOPICS, topics=[topic], timeout=timeout_ms)
            (result,) = response.topics
            if result.error_code not in {ErrorCode.none, ErrorCode.topic_already_exists}:
                _LOG.warning("topic %r was not created: %s", name, result.error_message)
        except (OSError, EOFError) as error:
            _LOG.warning("topic %r was not created: the controller is out of reach: %r", name, error)
        finally:
            self._asked.discard(name)
