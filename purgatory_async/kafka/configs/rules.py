"""What a topic's configs say about the records that producers append."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from purgatory_async.kafka.batches import NO_TIME, Batch, stamped
from purgatory_async.kafka.configs.definition import LONG_MAX
from purgatory_async.kafka.configs.overrides import Overrides
from purgatory_async.kafka.configs.topic_configs import (
    AFTER_MAX_MS,
    BEFORE_MAX_MS,
    MAX_MESSAGE_BYTES,
    MIN_INSYNC_REPLICAS,
    TIMESTAMP_TYPE,
    TOPIC_CONFIGS,
)
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.segments import Bytes
from purgatory_async.kafka.settings import Settings

__all__ = ["Rules", "broker_values", "rules_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Of one topic.

    Attributes:
        max_batch_bytes: The longest batch allowed.
        min_insync: Replicas in sync that an acks=all append needs, the leader included.
        stamps: Whether records get the broker's time.
        before_ms: How much earlier than the broker's time a timestamp may be, in milliseconds.
        after_ms: Likewise, later.
    """

    max_batch_bytes: int = sys.maxsize
    min_insync: int = 1
    stamps: bool = False
    before_ms: int = LONG_MAX
    after_ms: int = LONG_MAX

    def apply(self, records: Bytes, batch: Batch, now_ms: int) -> tuple[Bytes, Batch]:
        """Check the timestamps of a producer's batch, or give it the broker's time.

        O(1) without rules about them, otherwise O(bytes).

        Args:
            records: The batch.
            batch: Its header.
            now_ms: Milliseconds since 1970.

        Returns:
            The batch to append, and its header.

        Raises:
            ProtocolError: invalid_timestamp.
        """
        if self.stamps:
            return stamped(records, batch, now_ms)
        if batch.max_timestamp == NO_TIME:
            return records, batch
        if now_ms - batch.base_timestamp > self.before_ms or batch.max_timestamp - now_ms > self.after_ms:
            raise ProtocolError(
                ErrorCode.invalid_timestamp,
                f"timestamps must be at most {self.before_ms} ms before and {self.after_ms} ms after {now_ms}, "
                f"got {batch.base_timestamp} to {batch.max_timestamp}",
            )
        return records, batch


def broker_values(settings: Settings) -> Mapping[str, str]:
    """The topic configs whose defaults are settings of the broker."""
    return {MAX_MESSAGE_BYTES: str(settings.max_batch_bytes), MIN_INSYNC_REPLICAS: str(settings.min_insync)}


def rules_of(settings: Settings, overrides: Overrides) -> Rules:
    """What holds for a topic with these overrides. O(1) for overrides that were seen before, or O(configs)."""
    return _rules_of(settings, tuple(overrides.items()))


@lru_cache(maxsize=128)
def _rules_of(settings: Settings, overrides: tuple[tuple[str, str], ...]) -> Rules:
    defaults = {name: definition.default for name, definition in TOPIC_CONFIGS.items()}
    values = {**defaults, **broker_values(settings), **dict(overrides)}
    return Rules(
        max_batch_bytes=int(values[MAX_MESSAGE_BYTES]),
        min_insync=int(values[MIN_INSYNC_REPLICAS]),
        stamps=values[TIMESTAMP_TYPE] == "LogAppendTime",
        before_ms=int(values[BEFORE_MAX_MS]),
        after_ms=int(values[AFTER_MAX_MS]),
    )
