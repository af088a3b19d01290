"""Entries as UTF-8 JSON, which is what logs keep.

>>> from purgatory_async.durable.fold.entries import EndLease
>>> encode(EndLease(writer="w1", number=7, lease_id="l1", back=True))
b'{"k":"done","lease_id":"l1","back":true,"w":"w1","n":7}'
>>> decode(b'{"k":"done","lease_id":"l1"}')
EndLease(lease_id='l1', back=False, delay_us=0, owner=None, writer=None, number=0)
"""

from typing import Final

import msgspec
from msgspec import Raw

from purgatory_async.cluster.log import OLDER_STORE
from purgatory_async.durable.documents import Attached, compact
from purgatory_async.durable.fold.entries import (
    AnyEntry,
    CompleteOperation,
    EndOperation,
    Entry,
    FailOperation,
    PutItem,
    PutItems,
    SignalKey,
    SignalKeys,
    SubmitOperation,
)
from purgatory_async.errors import PurgatoryError

_SIZE: Final = 200  # bytes of an entry besides its attachment

_DECODER: Final[msgspec.json.Decoder[AnyEntry]] = msgspec.json.Decoder(AnyEntry)
encode: Final = msgspec.json.Encoder().encode
"""Return an entry as JSON. O(its size)."""


def encode_as(entry: Entry, writer: str, number: int) -> bytes:
    """Make an entry one of a writer's, and return it as JSON. O(its size)."""
    entry.writer, entry.number = writer, number
    return encode(entry)


class EntryError(PurgatoryError, ValueError):
    """An entry of the log is damaged, or of a level above this program's."""


def decode(data: bytes) -> AnyEntry:
    """Return the entry of its JSON. O(its size).

    Raises:
        EntryError: It is no entry of a known kind with known members.
    """
    try:
        return _with_own_text(_DECODER.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EntryError(
            f"an entry must be JSON of a known kind, got {data[:200]!r}: {older(error)}"
        ) from None


def _with_own_text(entry: AnyEntry) -> AnyEntry:
    """Let an entry keep its attachments and nothing around them."""
    if isinstance(entry, SubmitOperation):
        entry.data = detached(entry.data)
    elif isinstance(entry, SignalKey):
        entry.value = detached(entry.value)
    elif isinstance(entry, SignalKeys):
        for signal in entry.signals:
            signal.value = detached(signal.value)
    elif isinstance(entry, PutItem):
        entry.item = one_line(entry.item)
    elif isinstance(entry, PutItems):
        for new in entry.items:
            new.item = one_line(new.item)
    elif isinstance(entry, EndOperation | CompleteOperation):
        entry.result = detached(entry.result)
    elif isinstance(entry, FailOperation):
        entry.error = one_line(entry.error)
    return entry


def older(error: Exception) -> str:
    """Return why something was not decoded; if it is JSON with unknown members, what may have written it."""
    return f"{error}; {OLDER_STORE}" if isinstance(error, msgspec.ValidationError) else str(error)


def size_of(entry: Entry) -> int:
    """Return about how many bytes an entry takes as JSON. O(1)."""
    match entry:
        case SubmitOperation():
            attached = entry.data
        case SignalKey():
            attached = entry.value
        case SignalKeys():
            return sum(_SIZE + _length(signal.value) for signal in entry.signals)
        case PutItem():
            attached = entry.item
        case PutItems():
            return _SIZE + sum(_SIZE + _length(new.item) for new in entry.items)
        case EndOperation() | CompleteOperation():
            attached = entry.result
        case FailOperation():
            attached = entry.error
        case _:
            return _SIZE
    return _SIZE + _length(attached)


def _length(attached: Attached) -> int:
    return memoryview(attached).nbytes if isinstance(attached, Raw) else 0


def detached(attached: Attached) -> Attached:
    """Return an attachment that does not keep the text around it alive, as one line; `UNSET` stays `UNSET`."""
    return one_line(attached) if isinstance(attached, Raw) else attached


def one_line(text: Raw) -> Raw:
    """Copy JSON text, without line breaks: a checkpoint has a line for each thing."""
    copied = bytes(text)
    return compact(text) if b"\n" in copied or b"\r" in copied else Raw(copied)
