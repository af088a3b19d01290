"""The bytes of what the fold keeps: the one place where they are added and taken away.

They are the JSON text and the keys of operations, signals and items, counted once however many show them, and 128 bytes
for each piece. Pinned are pending operations with the voters that they counted, ended ones that are kept for a time of
their own and their ids after that, all items and leases, the Idempotency-Keys of takes with leases, and the newest
signal of each key. The rest is history, which
makes room for what is new: other ended operations, older signals, ids of what has ended, and the answers of
Idempotency-Keys.

A signal is kept as long as its key or an operation refers to it, and pinned as long as it is the newest of its key or
shown by a pending operation.
"""

from typing import Final

from msgspec import UNSET, Raw, UnsetType

from purgatory_async.durable.documents import KeyedSignal, SignalView
from purgatory_async.durable.fold.entries import SignalKey, SubmitOperation
from purgatory_async.durable.fold.signals import Signal

PIECE_BYTES: Final = 128
"""What an operation, a signal, an item or a lease counts besides its text."""
ANSWER_BYTES: Final = 8_192
"""What is reserved for the answer of an operation that is kept for a time of its own."""


class KeptBytes:
    """How many bytes are kept, and how many of them cannot make room.

    Attributes:
        used: All bytes.
        pinned: The bytes that cannot make room.
        pinned_of: Pinned bytes by owner. Names of keys and queues have no owner.
    """

    __slots__ = ("pinned", "pinned_of", "used")

    pinned: int
    used: int

    def __init__(self) -> None:
        self.used = 0
        self.pinned = 0
        self.pinned_of: Final[dict[str, int]] = {}

    def __repr__(self) -> str:
        return f"<KeptBytes used={self.used} pinned={self.pinned}>"

    def pin(self, size: int, owner: str | None = None) -> None:
        """Add what is pinned; a negative size takes it away. O(1)."""
        self.used += size
        self.pinned += size
        if owner is not None:
            self._own(size, owner)

    def age(self, size: int, owner: str | None = None) -> None:
        """Turn what is pinned into history. O(1)."""
        self.pinned -= size
        if owner is not None:
            self._own(-size, owner)

    def _own(self, size: int, owner: str) -> None:
        """Count what is pinned for an owner, if there is one: without tokens that is one call less."""
        pinned = self.pinned_of.get(owner, 0) + size
        if pinned:
            self.pinned_of[owner] = pinned
        else:
            self.pinned_of.pop(owner, None)

    def drop(self, size: int) -> None:
        """Take away history; a negative size adds some. O(1)."""
        self.used -= size

    def refer(self, signal: Signal) -> None:
        """Note one more reference to a signal. O(1)."""
        if not signal.refs:
            self.used += signal.size
        signal.refs += 1

    def show(self, signal: Signal) -> None:
        """Note one more reference to a signal, which also pins it. O(1)."""
        size = signal.size
        if not signal.refs:
            self.used += size
        if not signal.pins:
            self.pinned += size
            if signal.owner is not None:
                self._own(size, signal.owner)
        signal.refs += 1
        signal.pins += 1

    def unpin(self, signal: Signal) -> None:
        """Note that a reference no longer pins a signal. O(1)."""
        signal.pins -= 1
        if not signal.pins:
            self.pinned -= signal.size
            if signal.owner is not None:
                self._own(-signal.size, signal.owner)

    def let_go(self, signal: Signal) -> None:
        """Note that a reference is gone that did not pin its signal. O(1)."""
        signal.refs -= 1
        if not signal.refs:
            self.used -= signal.size


def text_bytes(text: str) -> int:
    """Return the bytes of a key or voter in UTF-8. O(1) if it is ASCII."""
    return len(text) if text.isascii() else len(text.encode())


def text_of_id(name: str, owner: str | None) -> int:  # noqa: ARG001 - owners are few, and counted nowhere
    """Return the bytes of an id that is remembered with its owner. O(1)."""
    return text_bytes(name)


def length(attached: Raw | UnsetType | None) -> int:
    """Return the bytes of an attachment; 0 for none. O(1)."""
    return 0 if attached is None or attached is UNSET else len(attached)


def size_of_voter(voter: str) -> int:
    """Return what a voter counts that a pending operation has counted. O(1)."""
    return PIECE_BYTES + text_bytes(voter)


def size_of_operation(order: SubmitOperation) -> int:
    """Return what an operation counts while it is pending, without what it promises. O(keys)."""
    size = PIECE_BYTES + length(order.data)
    if isinstance(order.idem, str):
        size += text_bytes(order.idem) + len(order.digest)
    for key in order.keys:
        size += len(key) if key.isascii() else len(key.encode())
    return size


def size_of_terms(order: SubmitOperation) -> int:
    """Return what an operation's question, the names of its queues and its trace count. O(1)."""
    ask = order.ask
    texts = [order.announce, order.deliver, order.trace]
    if not isinstance(ask, UnsetType):
        texts += (ask.title, ask.text, *ask.choices)
    return sum(text_bytes(text) for text in texts if not isinstance(text, UnsetType))


def size_of_signal(signal: SignalKey | KeyedSignal | SignalView) -> int:
    """Return what a signal counts, without its key. O(1)."""
    value, voter = signal.value, signal.voter
    size = PIECE_BYTES if isinstance(value, UnsetType) else PIECE_BYTES + len(value)
    return size if isinstance(voter, UnsetType) else size + text_bytes(voter)
