"""Produce, and the numbers of idempotent producers."""

from collections.abc import Awaitable, Sequence
from typing import Any, Final, NamedTuple

from purgatory_async.kafka.absent import Absence
from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.delayed_write import DelayedWrite, PartitionStatus
from purgatory_async.kafka.errors import AbsentError, ErrorCode, ProtocolError
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.segments import Bytes
from purgatory_async.kafka.taking import check_records

__all__ = ["INIT_PRODUCER_ID", "PRODUCE"]

_ALL: Final = -1
_ACKS: Final = (_ALL, 0, 1)


class _Unjudged(NamedTuple):
    """A batch that is appended once its records were looked at."""

    partition: Partition
    records: Bytes


_Result = PartitionStatus | ProtocolError | _Unjudged
_Results = list[tuple[str, list[tuple[int, _Result]]]]  # by topic, then by partition


def _produce(node: Node, request: Any, client: Client) -> Answer | Awaitable[Answer]:
    """Append, and with acks=all wait until all replicas in sync have the records."""
    results: _Results = [
        (
            topic.name,
            [(part.index, _append(node, topic.name, part, request, client)) for part in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    for _, parts in results:
        for _, result in parts:
            if isinstance(result, _Unjudged):
                return _judged(node, request, results)
    return _appended(node, request, results)


async def _judged(node: Node, request: Any, results: _Results) -> Answer:
    """Append what is left once its records are looked at; a client that goes meanwhile leaves the rest as it is."""
    _signal(node, results)
    acks_all = request.acks == _ALL
    judged: _Results = [
        (topic, [(index, await _judge(node, result, acks_all=acks_all)) for index, result in parts])
        for topic, parts in results
    ]
    answer = _appended(node, request, judged)
    return await answer if isinstance(answer, Awaitable) else answer


async def _judge(node: Node, result: _Result, *, acks_all: bool) -> _Result:
    if not isinstance(result, _Unjudged):
        return result
    try:
        await check_records(
            node.finder, result.partition, result.records, acks_all=acks_all, now_ms=node.now_ms()
        )
        status = _append_to(node, result.partition, result.records, acks_all=acks_all)
    except ProtocolError as error:
        return error
    node.appended(status.partition, status.required_offset)  # the client may go before the next one is judged
    return status


def _signal(node: Node, results: _Results) -> list[PartitionStatus]:
    """Check what waits for the records appended; returns where there are any."""
    statuses = [result for _, parts in results for _, result in parts if isinstance(result, PartitionStatus)]
    for status in statuses:
        node.appended(status.partition, status.required_offset)
    return statuses


def _appended(node: Node, request: Any, results: _Results) -> Answer | Awaitable[Answer]:
    statuses = _signal(node, results)
    if request.acks == 0:
        return None
    if request.acks == _ALL and statuses:
        operation = DelayedWrite(statuses, request.timeout.total_seconds())
        if not operation.try_complete():
            return _replicated(node, operation, statuses, results)
    return _answer(results)


async def _replicated(
    node: Node, operation: DelayedWrite, statuses: Sequence[PartitionStatus], results: _Results
) -> Answer:
    await node.produce.run(operation, [status.partition for status in statuses])
    return _answer(results)


def _append(node: Node, topic: str, part: Any, request: Any, client: Client) -> _Result:
    try:
        _check(request)
        partition = node.writable(topic, part.index)
        records = part.records or b""
        if partition.rules.concern_records:
            return _Unjudged(partition, records)
        return _append_to(node, partition, records, acks_all=request.acks == _ALL)
    except ProtocolError as error:
        if isinstance(error, AbsentError):
            node.absences.log(error.absence, client)
        return error


def _append_to(node: Node, partition: Partition, records: Bytes, *, acks_all: bool) -> PartitionStatus:
    if not partition.rules.stamps:
        return PartitionStatus(partition, *partition.append(records, acks_all=acks_all))
    base_offset, required_offset = partition.append(records, acks_all=acks_all, now_ms=node.now_ms())
    return PartitionStatus(partition, base_offset, required_offset, partition.log.append_time_ms(base_offset))


def _check(request: Any) -> None:
    if request.acks not in _ACKS:
        raise ProtocolError(
            ErrorCode.invalid_required_acks, f"acks must be one of {_ACKS}, got {request.acks}"
        )
    if request.transactional_id:  # clients send "" or null for none
        raise AbsentError(
            ErrorCode.unsupported_version,
            Absence.TRANSACTIONS,
            f"transactional_id must be null, got {request.transactional_id!r}",
        )


def _answer(results: _Results) -> Answer:
    return {
        "responses": [
            {
                "name": topic,
                "partition_responses": [_partition_response(index, result) for index, result in parts],
            }
            for topic, parts in results
        ]
    }


def _partition_response(index: int, result: _Result) -> dict[str, Any]:
    if isinstance(result, ProtocolError):
        return {
            "index": index,
            "error_code": result.code,
            "base_offset": -1,
            "record_errors": [{"batch_index": number} for number in getattr(result, "numbers", ())],
            "error_message": str(result),
        }
    assert isinstance(result, PartitionStatus), f"partition {index} was not judged, got {result!r}"
    return {
        "index": index,
        "error_code": result.error,
        "base_offset": result.base_offset if result.error is ErrorCode.none else -1,
        "log_append_time": result.append_time_ms if result.error is ErrorCode.none else -1,
        "log_start_offset": result.partition.log.start,
        "record_errors": (),
    }


def _init_producer_id(node: Node, request: Any, client: Client) -> Answer:
    """Give an idempotent producer its number, or its next epoch."""
    if request.transactional_id is not None:
        node.absences.log(Absence.TRANSACTIONS, client)
        return {"error_code": ErrorCode.unsupported_version, "producer_epoch": -1}
    return {"error_code": ErrorCode.none, "producer_id": node.new_producer_id(), "producer_epoch": 0}


# From 0, because older clients send compressed batches only to a broker that offers it; such a client uses 3 and later.
PRODUCE: Final = Api(0, 0, 9, _produce, served_from=3)
INIT_PRODUCER_ID: Final = Api(22, 0, 4, _init_producer_id)
