"""The entries that a `Cluster` writes and reads: JSON objects, of which ``k`` is the kind.

A service on the same log writes further kinds; only their kind and their writer are read here.
"""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from purgatory_async.cluster.log import Entry, LogDamaged
from purgatory_async.errors import as_integer

__all__ = ["LEVEL", "MAX_VALUE_BYTES", "Signalled", "WireEntry", "decode", "encode", "signal", "signalled"]

LEVEL: Final = 3
"""The highest version of entries that is read here: the store's. Entries of signals are as in the first."""
MAX_VALUE_BYTES: Final = 1_048_576  # 1 MiB
MAX_KEY_BYTES: Final = 512
MAX_VOTER: Final = 512
MAX_AMOUNT: Final = 2**53 - 1

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SIZE: Final = 200  # bytes of an entry besides its value


@dataclass(frozen=True, slots=True)
class Signalled:
    """A signal that this worker applies.

    Attributes:
        position: Its place in the log.
        at_us: Its log time, in microseconds since 1970.
        key: The key.
        value: The value, decoded from JSON.
        amount: The amount, 1 unless given.
        voter: The voter, if one was given.
    """

    position: int
    at_us: int
    key: str
    value: object
    amount: int
    voter: str | None


class WireEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An entry as in the log; only the members of signals are read."""

    k: str
    w: str | None = None
    n: int = 0
    key: str = ""
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    amount: int = 1
    voter: str | None = None
    level: int = 1


_DECODER: Final = msgspec.json.Decoder(WireEntry)
_ENCODER: Final = msgspec.json.Encoder()


def encode(entry: WireEntry, writer: str, number: int) -> bytes:
    """Return the bytes of an entry of a writer."""
    entry.w, entry.n = writer, number
    return _ENCODER.encode(entry)


def decode(entry: Entry) -> WireEntry:
    """Return an entry of the log as an object.

    Raises:
        LogDamaged: It is no entry.
    """
    try:
        return _DECODER.decode(entry.data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise LogDamaged(
            f"entry {entry.position} must be a JSON object: {error}", position=entry.position
        ) from error


def signal(key: str, value: object, amount: int, voter: str | None) -> WireEntry:
    """Return a valid signal.

    Raises:
        TypeError, ValueError: An argument is out of bounds, or the value is no JSON.
    """
    _check_text("key", key, MAX_KEY_BYTES)
    if key in {".", ".."}:
        raise ValueError(f"key must not be a path segment that clients fold, got {key!r}")
    if voter is not None:
        _check_text("voter", voter, MAX_VOTER)
    amount = as_integer("amount", amount)
    if not 1 <= amount <= MAX_AMOUNT:
        raise ValueError(f"amount must be from 1 to {MAX_AMOUNT}, got {amount}")
    if value is None:
        return WireEntry(k="signal", key=key, amount=amount, voter=voter)
    encoded = _ENCODER.encode(value)
    if len(encoded) > MAX_VALUE_BYTES:
        raise ValueError(f"value must be at most {MAX_VALUE_BYTES} bytes as JSON, got {len(encoded)}")
    return WireEntry(k="signal", key=key, value=msgspec.Raw(encoded), amount=amount, voter=voter)


def size_of(entry: WireEntry) -> int:
    """Return about how many bytes an entry takes."""
    return _SIZE + (0 if entry.value is msgspec.UNSET else memoryview(entry.value).nbytes)


def signalled(entry: Entry, wire: WireEntry) -> Signalled:
    """Return a signal of the log as the application gets it."""
    value: object = None if wire.value is msgspec.UNSET else msgspec.json.decode(wire.value)
    return Signalled(entry.position, entry.at_us, wire.key, value, wire.amount, wire.voter)


def _check_text(name: str, text: str, longest: int) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be text, got {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} must be valid Unicode, got {text!r}") from error
    if not 1 <= size <= longest:
        raise ValueError(f"{name} must have 1 to {longest} bytes in UTF-8, got {size}")
    if _CONTROL.search(text):
        raise ValueError(f"{name} must not contain control characters, got {text!r}")
