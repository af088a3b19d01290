"""What a topic is given itself: checked as a whole, and changed one by one."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from purgatory_async.kafka.configs.definition import Definition, Kind
from purgatory_async.kafka.configs.topic_configs import TOPIC_CONFIGS
from purgatory_async.kafka.errors import ErrorCode, ProtocolError

__all__ = ["Change", "Overrides", "changed", "checked"]

Overrides = Mapping[str, str]
"""By name; none for a topic without."""

_LEAST_LAG: Final = "min.compaction.lag.ms"
_MOST_LAG: Final = "max.compaction.lag.ms"


class Change(IntEnum):
    """What IncrementalAlterConfigs does to one config, by the protocol's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def checked(given: Iterable[tuple[str, str | None]]) -> Overrides:
    """Read a topic's configs, each name once. O(configs).

    Raises:
        ProtocolError: invalid_config for an unknown name, a value out of bounds or null, or values that contradict
            each other; invalid_request for a name given twice.
    """
    values = list(given)
    _check_once(name for name, _ in values)
    return _consistent({name: _definition(name, value).read(value) for name, value in values})


def changed(overrides: Overrides, changes: Iterable[tuple[str, int, str | None]]) -> Overrides:
    """Change some configs of a topic. O(configs).

    Args:
        overrides: What the topic has.
        changes: Names, numbers of a `Change`, and values; a deletion's value is ignored.

    Raises:
        ProtocolError: As `checked`; invalid_request for another number; invalid_config for one that needs a list.
    """
    wanted = list(changes)
    _check_once(name for name, _, _ in wanted)
    values = dict(overrides)
    for name, number, value in wanted:
        definition = _definition(name, value)
        match number:
            case Change.SET:
                values[name] = definition.read(value)
            case Change.DELETE:
                values.pop(name, None)
            case Change.APPEND | Change.SUBTRACT:
                values[name] = _edited(
                    definition, values.get(name, definition.default), value, add=number == Change.APPEND
                )
            case _:
                raise ProtocolError(
                    ErrorCode.invalid_request,
                    f"config_operation of {name} must be one of {[*map(int, Change)]}, got {number}",
                )
    return _consistent(values)


def _edited(definition: Definition, present: str, value: str | None, *, add: bool) -> str:
    """Add to a list what it has not, or remove from it."""
    if definition.kind is not Kind.LIST:
        raise ProtocolError(
            ErrorCode.invalid_config,
            f"{definition.name} must be a list to append or subtract, got {value!r}; set it instead",
        )
    before = [part for part in present.split(",") if part]
    edited = definition.read(value).split(",")
    parts = [*before, *edited] if add else [part for part in before if part not in edited]
    return definition.read(",".join(filter(None, dict.fromkeys(parts))))


def _definition(name: str, value: str | None) -> Definition:
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        raise ProtocolError(
            ErrorCode.invalid_config,
            f"a config must be one that Kafka has for topics, got {name[:100]!r} with the value "
            f"{value if value is None else value[:100]!r}; DescribeConfigs lists them",
        )
    return definition


def _check_once(names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ProtocolError(
                ErrorCode.invalid_request, f"a config must be given once, got {name[:100]!r} {times} times"
            )


def _consistent(values: Overrides) -> Overrides:
    least, most = (int(values.get(name, TOPIC_CONFIGS[name].default)) for name in (_LEAST_LAG, _MOST_LAG))
    if least > most:
        raise ProtocolError(
            ErrorCode.invalid_config, f"{_LEAST_LAG} must be at most {most}, as {_MOST_LAG} is, got {least}"
        )
    return values
