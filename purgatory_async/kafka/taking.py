"""Whether a topic takes the records of a batch, where the batch's header does not show it."""

from functools import partial

from purgatory_async.kafka.configs.topic_configs import CLEANUP_POLICY
from purgatory_async.kafka.errors import ErrorCode, RecordsRejectedError
from purgatory_async.kafka.finder import Finder
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.segments import Bytes

__all__ = ["check_records"]


async def check_records(
    finder: Finder, partition: Partition, records: Bytes, *, acks_all: bool, now_ms: int
) -> None:
    """Check each record of a producer's batch by its topic's configs; `Partition.append` checks all else.

    O(1) where configs say nothing of records, otherwise O(bytes of the opened batch).

    Raises:
        ProtocolError: As `Partition.checked`; invalid_record or unsupported_compression_type for a batch that cannot
            be opened; `RecordsRejectedError` with invalid_record or invalid_timestamp.
    """
    rules = partition.rules
    if not rules.concern_records:
        return
    batch = partition.checked(records, acks_all=acks_all)
    rejected = await finder.rejected(batch, memoryview(records), partial(rules.judge, now_ms))
    if not rejected:
        return
    code = max(
        rejected.values(), key=lambda code: code is ErrorCode.invalid_timestamp
    )  # as Kafka, if both occur
    bound = (
        f"a key, as {CLEANUP_POLICY} is compact"
        if code is ErrorCode.invalid_record
        else f"a timestamp at most {rules.before_ms} ms before and {rules.after_ms} ms after {now_ms}"
    )
    raise RecordsRejectedError(
        code,
        f"a record must have {bound}, got {len(rejected)} of {batch.records} without; none is appended",
        tuple(rejected),
    )
