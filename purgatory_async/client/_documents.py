"""Reads documents of queues, leases and signals as the models, whatever carried them.

What raises `LookupError`, `TypeError`, `ValueError` or `AttributeError` here is not a document of the service.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from purgatory_async.client._model import KeyState, Lease, Loan, Queue, QueuedItem, Signal


def completed(document: Mapping[str, Any]) -> int:
    """Return how many operations a signal has completed."""
    return int(document["completed"])


def key_state(document: Mapping[str, Any]) -> KeyState:
    """Read a key's newest signal."""
    return KeyState(document["key"], document["index"], document["value"])


def followed(document: Mapping[str, Any]) -> tuple[Sequence[Signal], str, bool]:
    """Read signals after a place: them, the next place, and whether a signal may be missing."""
    history = document["next"].rpartition("-")[0]
    signals = [
        Signal(
            each["key"],
            each["index"],
            f"{history}-{each['index']}",
            each.get("value"),
            each.get("amount", 1),
            each.get("voter"),
        )
        for each in document["signals"]
    ]
    return signals, document["next"], document["gap"]


def delivered(document: Mapping[str, Any]) -> bool:
    """Return whether an item that was put has reached a taker at once."""
    return bool(document["delivered"])


def lease(document: Mapping[str, Any]) -> Lease:
    """Read a lease that was just taken."""
    return Lease(
        document["lease"], document["item"], document["expires_in"], document["id"], document["attempts"]
    )


def missed(document: Mapping[str, Any], leases: Sequence[str]) -> list[str]:
    """Return the leases that had ended before: the errors point to them."""
    return [leases[int(each["pointer"].rpartition("/")[2])] for each in document["errors"]]


def listed_lease(document: Mapping[str, Any]) -> Loan:
    """Read a lease of the list."""
    return Loan(
        document["lease"],
        document["queue"],
        document["id"],
        document["attempts"],
        document["owner"],
        document["expires_in"],
    )


def queued_item(document: Mapping[str, Any]) -> QueuedItem:
    """Read an item in its queue."""
    return QueuedItem(
        document["id"], document["item"], document["attempts"], document["put_at"], document.get("due_at")
    )


def queue(document: Mapping[str, Any]) -> Queue:
    """Read a queue."""
    return Queue(**{name: document[name] for name in Queue.__slots__})
