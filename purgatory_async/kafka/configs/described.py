"""Configs as clients see them: each with its value, where that comes from, and what it does."""

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from math import isinf
from typing import Any, Final

from purgatory_async.kafka.configs.definition import LONG_MAX, Kind
from purgatory_async.kafka.configs.overrides import Overrides
from purgatory_async.kafka.configs.rules import broker_values
from purgatory_async.kafka.configs.topic_configs import TOPIC_CONFIGS
from purgatory_async.kafka.groups.offsets import MAX_METADATA_CHARACTERS
from purgatory_async.kafka.settings import Settings

__all__ = ["MAX_RESOURCES", "Resource", "Source", "broker_entries", "topic_entries"]

MAX_RESOURCES: Final = 500
"""Resources that one request describes or alters; as many take some 30 ms."""

_Entry = dict[str, Any]
_Value = tuple[str, str, "Source"]  # under which name, and where from


class Resource(IntEnum):
    """What has configs, by the protocol's numbers."""

    TOPIC = 2
    BROKER = 4


class Source(IntEnum):
    """Where a value comes from, by the protocol's numbers."""

    TOPIC = 1
    BROKER = 4
    DEFAULT = 5


_USUAL: Final = Settings()


def topic_entries(settings: Settings, overrides: Overrides) -> Sequence[_Entry]:
    """Describe a topic's configs by name. O(1) for overrides that were described before."""
    return _topic_entries(settings, tuple(overrides.items()))


@lru_cache(maxsize=128)
def _topic_entries(settings: Settings, overrides: tuple[tuple[str, str], ...]) -> Sequence[_Entry]:
    given, ours, usual = dict(overrides), broker_values(settings), broker_values(_USUAL)
    entries: list[_Entry] = []
    for name, definition in TOPIC_CONFIGS.items():
        broker_name = definition.broker_name or name
        values: list[_Value] = [(broker_name, definition.default, Source.DEFAULT)]
        if ours.get(name) != usual.get(name):
            values.insert(0, (broker_name, ours[name], Source.BROKER))
        if name in given:
            values.insert(0, (name, given[name], Source.TOPIC))
        entries.append(_entry(name, definition.kind, values, definition.effect, read_only=False))
    return entries


def broker_entries(settings: Settings, number: int, host: str, port: int) -> Sequence[_Entry]:
    """Describe by name what a broker was started with, and its topics' defaults; none can be altered. O(configs)."""
    own = {
        "advertised.listeners": (Kind.STRING, f"PLAINTEXT://{host}:{port}", ""),
        "broker.id": (Kind.INT, str(number), ""),
        "node.id": (Kind.INT, str(number), ""),
    }
    usual = _of_settings(_USUAL)
    own |= {name: (kind, value, usual[name][1]) for name, (kind, value) in _of_settings(settings).items()}
    ours = broker_values(settings)
    for name, definition in TOPIC_CONFIGS.items():
        if definition.broker_name:
            value = ours.get(name, definition.default)
            own[definition.broker_name] = definition.kind, value, definition.default
    entries: list[_Entry] = []
    for name, (kind, value, default) in sorted(own.items()):
        values: list[_Value] = [(name, default, Source.DEFAULT)] if default else []
        if value != default:
            values.insert(0, (name, value, Source.BROKER))
        entries.append(_entry(name, kind, values, "", read_only=True))
    return entries


def _entry(name: str, kind: Kind, values: Sequence[_Value], effect: str, *, read_only: bool) -> _Entry:
    _, value, source = values[0]
    return {
        "name": name,
        "value": value,
        "read_only": read_only,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [{"name": known, "value": each, "source": origin} for known, each, origin in values],
        "config_type": kind,
        "documentation": effect,
    }


def _of_settings(settings: Settings) -> dict[str, tuple[Kind, str]]:
    """What a broker is started with, by Kafka's names."""
    return {
        "auto.create.topics.enable": (Kind.BOOLEAN, str(settings.auto_create).lower()),
        "connections.max.idle.ms": (Kind.LONG, _ms(settings.idle_timeout)),
        "default.replication.factor": (Kind.INT, str(settings.replication)),
        "delete.topic.enable": (Kind.BOOLEAN, "true"),
        "group.initial.rebalance.delay.ms": (Kind.INT, _ms(settings.rebalance_delay)),
        "group.max.session.timeout.ms": (Kind.INT, _ms(settings.max_session_timeout)),
        "group.max.size": (Kind.INT, str(settings.max_members)),
        "group.min.session.timeout.ms": (Kind.INT, _ms(settings.min_session_timeout)),
        "max.connections": (Kind.INT, str(settings.max_connections)),
        "num.partitions": (Kind.INT, str(settings.partitions)),
        "offset.metadata.max.bytes": (Kind.INT, str(MAX_METADATA_CHARACTERS)),
        "replica.lag.time.max.ms": (Kind.LONG, _ms(settings.replica_lag)),
        "socket.request.max.bytes": (Kind.INT, str(settings.max_frame_bytes)),
    }


def _ms(seconds: float) -> str:
    return str(LONG_MAX if isinf(seconds) else round(seconds * 1000))
