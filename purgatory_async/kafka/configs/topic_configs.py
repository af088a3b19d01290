"""All configs of a topic, as Kafka 3.9 has them."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from purgatory_async.kafka.configs.definition import LONG_MAX, Definition, Kind

__all__ = [
    "AFTER_MAX_MS",
    "BEFORE_MAX_MS",
    "CLEANUP_POLICY",
    "MAX_MESSAGE_BYTES",
    "MIN_INSYNC_REPLICAS",
    "TIMESTAMP_TYPE",
    "TOPIC_CONFIGS",
]

CLEANUP_POLICY: Final = "cleanup.policy"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
AFTER_MAX_MS: Final = "message.timestamp.after.max.ms"
BEFORE_MAX_MS: Final = "message.timestamp.before.max.ms"

_NEVER: Final = str(LONG_MAX)
_DAY: Final = "86400000"
_WEEK: Final = "604800000"
_REPLICAS: Final = r"(\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?"  # partition:broker

_boolean = partial(Definition, kind=Kind.BOOLEAN, default="false", choices=("true", "false"))
_string = partial(Definition, kind=Kind.STRING)
_int = partial(Definition, kind=Kind.INT)
_long = partial(Definition, kind=Kind.LONG)
_list = partial(Definition, kind=Kind.LIST)

_ALL: Final = (
    _list(
        name=CLEANUP_POLICY,
        default="delete",
        broker_name="log.cleanup.policy",
        choices=("compact", "delete"),
        effect="With compact, a record without a key is refused with INVALID_RECORD. Nothing is compacted, and nothing "
        "deleted by age or size.",
    ),
    _int(name="compression.gzip.level", default="-1", broker_name="compression.gzip.level", least=-1, most=9),
    _int(name="compression.lz4.level", default="9", broker_name="compression.lz4.level", least=1, most=17),
    _string(
        name="compression.type",
        default="producer",
        broker_name="compression.type",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _int(
        name="compression.zstd.level",
        default="3",
        broker_name="compression.zstd.level",
        least=-131072,
        most=22,
    ),
    _long(name="delete.retention.ms", default=_DAY, broker_name="log.cleaner.delete.retention.ms"),
    _long(name="file.delete.delay.ms", default="60000", broker_name="log.segment.delete.delay.ms"),
    _long(name="flush.messages", default=_NEVER, broker_name="log.flush.interval.messages", least=1),
    _long(name="flush.ms", default=_NEVER, broker_name="log.flush.interval.ms"),
    _list(name="follower.replication.throttled.replicas", default="", form=_REPLICAS),
    _int(name="index.interval.bytes", default="4096", broker_name="log.index.interval.bytes"),
    _list(name="leader.replication.throttled.replicas", default="", form=_REPLICAS),
    _long(name="local.retention.bytes", default="-2", broker_name="log.local.retention.bytes", least=-2),
    _long(name="local.retention.ms", default="-2", broker_name="log.local.retention.ms", least=-2),
    _long(
        name="max.compaction.lag.ms",
        default=_NEVER,
        broker_name="log.cleaner.max.compaction.lag.ms",
        least=1,
    ),
    _int(
        name=MAX_MESSAGE_BYTES,
        default="1048588",
        broker_name="message.max.bytes",
        effect="A longer batch, in bytes, is refused with MESSAGE_TOO_LARGE.",
    ),
    _boolean(
        name="message.downconversion.enable", default="true", broker_name="log.message.downconversion.enable"
    ),
    _string(
        name="message.format.version",
        default="3.0-IV1",
        broker_name="log.message.format.version",
        form=r"[0-9]+(\.[0-9]+){1,3}(-IV[0-9]+)?",
    ),
    _long(
        name=AFTER_MAX_MS,
        default=_NEVER,
        broker_name="log.message.timestamp.after.max.ms",
        effect="A record whose timestamp is later than the broker's time by more than this is refused with "
        "INVALID_TIMESTAMP.",
    ),
    _long(
        name=BEFORE_MAX_MS,
        default=_NEVER,
        broker_name="log.message.timestamp.before.max.ms",
        effect="A record whose timestamp is earlier than the broker's time by more than this is refused with "
        "INVALID_TIMESTAMP.",
    ),
    _long(
        name="message.timestamp.difference.max.ms",
        default=_NEVER,
        broker_name="log.message.timestamp.difference.max.ms",
    ),
    _string(
        name=TIMESTAMP_TYPE,
        default="CreateTime",
        broker_name="log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
        effect="With LogAppendTime, records have the broker's time.",
    ),
    Definition(
        name="min.cleanable.dirty.ratio",
        kind=Kind.DOUBLE,
        default="0.5",
        broker_name="log.cleaner.min.cleanable.ratio",
        most=1,
    ),
    _long(name="min.compaction.lag.ms", default="0", broker_name="log.cleaner.min.compaction.lag.ms"),
    _int(
        name=MIN_INSYNC_REPLICAS,
        default="1",
        broker_name="min.insync.replicas",
        least=1,
        effect="With fewer replicas in sync, acks=all is refused with NOT_ENOUGH_REPLICAS.",
    ),
    _boolean(name="preallocate", broker_name="log.preallocate"),
    _boolean(name="remote.log.copy.disable"),
    _boolean(name="remote.log.delete.on.disable"),
    _boolean(
        name="remote.storage.enable",
        choices=("false",),
        effect="There is no tiered storage: it must be false.",
    ),
    _long(name="retention.bytes", default="-1", broker_name="log.retention.bytes", least=-LONG_MAX - 1),
    _long(name="retention.ms", default=_WEEK, broker_name="log.retention.ms", least=-1),
    _int(name="segment.bytes", default="1073741824", broker_name="log.segment.bytes", least=14),
    _int(name="segment.index.bytes", default="10485760", broker_name="log.index.size.max.bytes", least=4),
    _long(name="segment.jitter.ms", default="0", broker_name="log.roll.jitter.ms"),
    _long(name="segment.ms", default=_WEEK, broker_name="log.roll.ms", least=1),
    _boolean(name="unclean.leader.election.enable", broker_name="unclean.leader.election.enable"),
)

TOPIC_CONFIGS: Final[Mapping[str, Definition]] = MappingProxyType({one.name: one for one in _ALL})
"""By name, in its order."""
