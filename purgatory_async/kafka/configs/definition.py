"""One config of a topic: what values it takes."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from purgatory_async.kafka.errors import ErrorCode, ProtocolError

__all__ = ["INT_MAX", "LONG_MAX", "MAX_VALUE_CHARACTERS", "NO_EFFECT", "Definition", "Kind"]

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
MAX_VALUE_CHARACTERS: Final = 4096
"""Of one value, so that what topics hold has a bound."""
NO_EFFECT: Final = "Without effect in this broker."

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Kind(IntEnum):
    """Types of configs, by the protocol's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One config.

    Attributes:
        name: The name of the topic's config.
        kind: Its type.
        default: Where neither the topic nor the broker has a value.
        broker_name: The broker's config that gives the default; None if none does.
        least: The least number that it takes.
        most: The greatest.
        choices: The only values, or the only ones in a list; empty for any.
        form: A pattern that a value must match.
        effect: What it does in this broker; `NO_EFFECT` if nothing.
    """

    name: str
    kind: Kind
    default: str
    broker_name: str | None = None
    least: float = 0
    most: float = INT_MAX
    choices: tuple[str, ...] = ()
    form: str = ".*"
    effect: str = NO_EFFECT

    def read(self, value: str | None) -> str:
        """Check a value, and return it in the form in which Kafka would. O(characters).

        Raises:
            ProtocolError: invalid_config, with the name, the bound and the value.
        """
        if value is None or len(value) > MAX_VALUE_CHARACTERS:
            raise self._refused(f"text of at most {MAX_VALUE_CHARACTERS} characters", value)
        value = value.strip()
        match self.kind:
            case Kind.INT | Kind.LONG:
                return self._read_integer(value)
            case Kind.DOUBLE:
                if _NUMBER.fullmatch(value) and self.least <= (number := float(value)) <= self.most:
                    return str(number)
                raise self._refused(f"a number from {self.least:g} to {self.most:g}", value)
            case Kind.BOOLEAN:
                value = value.lower()
            case Kind.LIST:
                value = ",".join(filter(None, map(str.strip, value.split(","))))
            case Kind.STRING:
                pass
        return self._read_text(value)

    def _read_integer(self, value: str) -> str:
        most = LONG_MAX if self.kind is Kind.LONG else self.most
        if _INTEGER.fullmatch(value) and self.least <= (number := int(value)) <= most:
            return str(number)
        raise self._refused(f"an integer from {self.least} to {most}", value)

    def _read_text(self, value: str) -> str:
        is_list = self.kind is Kind.LIST
        parts = {*filter(None, value.split(","))} if is_list else {value}
        if self.choices and not parts <= {*self.choices}:
            raise self._refused(f"{'some' if is_list else 'one'} of {', '.join(self.choices)}", value)
        if not re.fullmatch(self.form, value):
            raise self._refused(f"of the form {self.form}", value)
        return value

    def _refused(self, bound: str, value: str | None) -> ProtocolError:
        got = value if value is None else value[:100]
        return ProtocolError(ErrorCode.invalid_config, f"{self.name} must be {bound}, got {got!r}")
