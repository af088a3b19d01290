"""Answer for what the controller has done once the other brokers know of it."""

from collections.abc import Awaitable
from typing import Any

from purgatory_async.kafka.api import Answer
from purgatory_async.kafka.delayed_write import DelayedWrite, PartitionStatus
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.node import Node

__all__ = ["once_published"]


def once_published(
    node: Node, timeout: float, name: str, results: list[dict[str, Any]]
) -> Answer | Awaitable[Answer]:
    """Answer with the results once the brokers in sync know of what was done; at once if there is nothing to know.

    Args:
        node: The controller.
        timeout: Seconds until what was done is answered with request_timed_out.
        name: The name of the field for the results.
        results: One for each thing asked for, with its error.
    """
    done = any(result["error_code"] is ErrorCode.none for result in results)
    status = node.controller.unpublished() if done else None
    return {name: results} if status is None else _published(node, timeout, name, results, status)


async def _published(
    node: Node, timeout: float, name: str, results: list[dict[str, Any]], status: PartitionStatus
) -> Answer:
    operation = DelayedWrite([status], timeout)
    await node.produce.run(operation, [status.partition])
    if status.error is not ErrorCode.none:
        late = {"error_code": status.error, "error_message": "done, but not all brokers know of it in time"}
        results = [
            {**result, **late} if result["error_code"] is ErrorCode.none else result for result in results
        ]
    return {name: results}
