"""Fetch: read what there is, or wait for more."""

from collections.abc import Awaitable
from typing import Any, Final, NamedTuple

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.delayed_fetch import DelayedFetch, FetchFrom
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.node import CONSUMER, Node
from purgatory_async.kafka.partition import NO_EPOCH, Partition

__all__ = ["FETCH"]

_NO_START: Final = -1  # the protocol's default; a fetch has the field from version 5


class _Diverging(NamedTuple):
    """A part for a follower that has what its leader has not; ``epoch`` is its last batch's."""

    partition: Partition
    epoch: int


class _Copied(NamedTuple):
    """A part for a leader that starts again, and reads what a follower has of its records."""

    partition: Partition
    offset: int
    max_bytes: int


_Part = FetchFrom | _Copied | _Diverging | ProtocolError
_Parts = list[tuple[str, list[tuple[int, _Part]]]]  # by topic, then by partition


def _fetch(node: Node, request: Any, _: Client) -> Answer | Awaitable[Answer]:
    """Answer with records, or wait until there are ``min_bytes``."""
    replica: int = request.replica_id
    parts: _Parts = [
        (
            topic.topic,
            [(part.partition, _find(node, topic.topic, part, replica)) for part in topic.partitions],
        )
        for topic in request.topics
    ]
    found = [part for _, of_topic in parts for _, part in of_topic if isinstance(part, FetchFrom)]
    refused = any(_is_answer(part, replica) for _, of_topic in parts for _, part in of_topic)
    if found and not refused and request.max_wait:
        operation = DelayedFetch(
            found,
            min_bytes=request.min_bytes,
            timeout=request.max_wait.total_seconds(),
            replica=_follower(replica),
        )
        if not operation.try_complete():
            return _delayed(node, operation, request, parts, found)
    return _read(request, parts)


async def _delayed(
    node: Node, operation: DelayedFetch, request: Any, parts: _Parts, found: list[FetchFrom]
) -> Answer:
    topics = [] if _follower(request.replica_id) is None else [topic for topic, _ in parts]
    await node.fetch.run(operation, [*(part.partition for part in found), *topics])
    return _read(request, parts)


def _follower(replica: int) -> int | None:
    """The follower that fetches; None for a consumer."""
    return replica if replica > CONSUMER else None


def _is_answer(part: _Part, replica: int) -> bool:
    """Whether a part must not wait. A follower waits by name for a topic that this leader does not know yet."""
    if isinstance(part, ProtocolError) and _follower(replica) is not None:
        return part.code is not ErrorCode.unknown_topic_or_partition
    return not isinstance(part, FetchFrom)


def _find(node: Node, topic: str, part: Any, replica: int) -> _Part:
    try:
        partition = node.readable(topic, part.partition, replica)
        if replica == partition.leader != node.id:
            return _Copied(partition, max(part.fetch_offset, partition.log.start), part.partition_max_bytes)
        if replica > CONSUMER:
            epoch = getattr(part, "last_fetched_epoch", NO_EPOCH)
            if not partition.log.continues(part.fetch_offset, epoch):
                return _Diverging(partition, epoch)
            start = getattr(part, "log_start_offset", _NO_START)
            node.followed(partition, replica, part.fetch_offset, start)
        partition.check_offset(part.fetch_offset)
    except ProtocolError as error:
        return error
    return FetchFrom(partition, part.fetch_offset, part.partition_max_bytes)


def _read(request: Any, parts: _Parts) -> Answer:
    """Read up to the request's bounds; the first batch found is returned whatever its size, or nothing moves on."""
    replica = _follower(request.replica_id)
    aborted = () if request.isolation_level else None  # null for those who read what is not committed
    left_bytes = request.max_bytes
    empty = True
    responses: list[dict[str, Any]] = []
    for topic, of_topic in parts:
        read: list[dict[str, Any]] = []
        for index, part in of_topic:
            answer = _read_part(index, part, left_bytes, replica=replica, at_least_one=empty)
            answer["aborted_transactions"] = aborted
            size_bytes = sum(map(len, answer["records"]))
            left_bytes = max(0, left_bytes - size_bytes)
            empty = empty and not size_bytes
            read.append(answer)
        responses.append({"topic": topic, "partitions": read})
    return {"error_code": ErrorCode.none, "responses": responses}


def _read_part(
    index: int, part: _Part, max_bytes: int, *, replica: int | None, at_least_one: bool
) -> dict[str, Any]:
    try:
        if isinstance(part, ProtocolError):
            raise part
        if isinstance(part, _Diverging):
            return _starting_over(index, part)
        if isinstance(part, _Copied):
            return _copied(index, part, max_bytes, at_least_one=at_least_one)
        partition = part.partition
        partition.check_offset(part.offset)
        if replica is not None:
            partition.note_sent(replica)
    except ProtocolError as error:
        return {
            "partition_index": index,
            "error_code": error.code,
            "high_watermark": -1,
            "records": (),
        }
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.high_watermark,
        "log_start_offset": partition.log.start,
        "records": partition.log.read(
            part.offset,
            partition.readable_to(follower=replica is not None),
            min(part.max_bytes, max_bytes),
            at_least_one=at_least_one,
        ),
    }


def _starting_over(index: int, part: _Diverging) -> dict[str, Any]:
    """Up to where a follower has what the leader has."""
    epoch, end = part.partition.log.diverging(part.epoch)
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "high_watermark": part.partition.high_watermark,
        "log_start_offset": part.partition.log.start,
        "diverging_epoch": {"epoch": epoch, "end_offset": end},
        "records": (),
    }


def _copied(index: int, part: _Copied, max_bytes: int, *, at_least_one: bool) -> dict[str, Any]:
    """All that a follower has, also beyond its high watermark, and where it ends."""
    partition = part.partition
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "high_watermark": partition.high_watermark,
        "log_start_offset": partition.log.start,
        "diverging_epoch": {"epoch": partition.leader_epoch, "end_offset": partition.log.end},
        "records": partition.log.read(
            part.offset, partition.log.end, min(part.max_bytes, max_bytes), at_least_one=at_least_one
        ),
    }


FETCH: Final = Api(1, 4, 12, _fetch)
