"""What a topic's configs say about the records that producers append."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from purgatory_async.kafka.batches import NO_TIME
from purgatory_async.kafka.configs.definition import LONG_MAX
from purgatory_async.kafka.configs.overrides import Overrides
from purgatory_async.kafka.configs.topic_configs import (
    AFTER_MAX_MS,
    BEFORE_MAX_MS,
    CLEANUP_POLICY,
    MAX_MESSAGE_BYTES,
    MIN_INSYNC_REPLICAS,
    TIMESTAMP_TYPE,
    TOPIC_CONFIGS,
)
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.settings import Settings

__all__ = ["Rules", "broker_values", "rules_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Of one topic.

    Attributes:
        max_batch_bytes: The longest batch allowed.
        min_insync: Replicas in sync that an acks=all append needs, the leader included.
        needs_keys: Whether a record without a key is refused.
        stamps: Whether records get the broker's time.
        before_ms: How much earlier than the broker's time a timestamp may be, in milliseconds.
        after_ms: How much later it may be.
        concern_records: Whether it takes more than a batch's header to know whether its records are allowed.
    """

    max_batch_bytes: int = sys.maxsize
    min_insync: int = 1
    needs_keys: bool = False
    stamps: bool = False
    before_ms: int = LONG_MAX
    after_ms: int = LONG_MAX
    concern_records: bool = field(init=False)

    def __post_init__(self) -> None:
        """Derive what each produce asks."""
        timed = not self.stamps and min(self.before_ms, self.after_ms) < LONG_MAX
        object.__setattr__(self, "concern_records", self.needs_keys or timed)

    def judge(self, now_ms: int, time: int, has_key: bool) -> ErrorCode:
        """Judge a record.

        Args:
            now_ms: The broker's time in milliseconds.
            time: The record's timestamp.
            has_key: Whether it has a key.

        Returns:
            `ErrorCode.none`, invalid_record without a key that is needed, or invalid_timestamp.
        """
        if self.needs_keys and not has_key:
            return ErrorCode.invalid_record
        if self.stamps or time == NO_TIME or -self.before_ms <= time - now_ms <= self.after_ms:
            return ErrorCode.none
        return ErrorCode.invalid_timestamp


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
        needs_keys="compact" in values[CLEANUP_POLICY],
        stamps=values[TIMESTAMP_TYPE] == "LogAppendTime",
        before_ms=int(values[BEFORE_MAX_MS]),
        after_ms=int(values[AFTER_MAX_MS]),
    )
