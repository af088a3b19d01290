"""Whether a topic takes the records of a batch, where that is not told by the batch's header."""

from functools import partial
from typing import Final

from purgatory_async.kafka.configs.topic_configs import AFTER_MAX_MS, BEFORE_MAX_MS, CLEANUP_POLICY
from purgatory_async.kafka.errors import ErrorCode, RecordsRejectedError
from purgatory_async.kafka.finder import Finder
from purgatory_async.kafka.partition import Partition
from purgatory_async.kafka.segments import Bytes

__all__ = ["check_records"]

_WHY: Final = {
    ErrorCode.invalid_record: f"a record must have a key, as {CLEANUP_POLICY} is compact",
    ErrorCode.invalid_timestamp: f"a timestamp must be as near the broker's time as {BEFORE_MAX_MS} and "
    f"{AFTER_MAX_MS} say",
}


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
    if rejected:
        codes = {*rejected.values()}
        code = (
            ErrorCode.invalid_timestamp if ErrorCode.invalid_timestamp in codes else ErrorCode.invalid_record
        )
        raise RecordsRejectedError(
            code,
            f"{_WHY[code]}; got {len(rejected)} of {batch.records} records that are not taken, and appended none",
            tuple(rejected),
        )
