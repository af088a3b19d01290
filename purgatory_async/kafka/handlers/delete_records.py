"""DeleteRecords: delete what is older than an offset."""

from collections.abc import Awaitable, Sequence
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.delayed_write import DelayedWrite, DeleteStatus
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.node import Node

__all__ = ["DELETE_RECORDS"]

_Result = DeleteStatus | ProtocolError
_Results = list[tuple[str, list[tuple[int, _Result]]]]  # by topic, then by partition


def _delete_records(node: Node, request: Any, _: Client) -> Answer | Awaitable[Answer]:
    """Delete on the leader, and wait until every replica in sync has deleted."""
    results: _Results = [
        (topic.name, [(part.partition_index, _delete(node, topic.name, part)) for part in topic.partitions])
        for topic in request.topics
    ]
    statuses = [result for _, parts in results for _, result in parts if isinstance(result, DeleteStatus)]
    for status in statuses:
        node.changed(status.partition)
    operation = DelayedWrite(statuses, request.timeout.total_seconds())
    if operation.try_complete():
        return _answer(results)
    return _deleted(node, operation, statuses, results)


async def _deleted(
    node: Node, operation: DelayedWrite, statuses: Sequence[DeleteStatus], results: _Results
) -> Answer:
    await node.delete_records.run(operation, [status.partition for status in statuses])
    return _answer(results)


def _delete(node: Node, topic: str, part: Any) -> _Result:
    try:
        partition = node.writable(topic, part.partition_index)
        return DeleteStatus(partition, partition.delete_before(part.offset))
    except ProtocolError as error:
        return error


def _answer(results: _Results) -> Answer:
    return {
        "topics": [
            {"name": topic, "partitions": [_partition_result(index, result) for index, result in parts]}
            for topic, parts in results
        ]
    }


def _partition_result(index: int, result: _Result) -> dict[str, Any]:
    if isinstance(result, ProtocolError):
        return {"partition_index": index, "low_watermark": -1, "error_code": result.code}
    low = result.partition.low_watermark if result.error is ErrorCode.none else -1
    return {"partition_index": index, "low_watermark": low, "error_code": result.error}


DELETE_RECORDS: Final = Api(21, 0, 2, _delete_records)
