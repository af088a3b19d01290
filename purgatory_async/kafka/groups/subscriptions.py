"""What a consumer says in its metadata of the topics that it reads, as Kafka's ConsumerProtocol."""

from collections.abc import Iterable
from struct import Struct, error
from typing import Final

__all__ = ["CONSUMER_PROTOCOL", "subscribed_topics"]

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of a group whose members are consumers."""

_HEAD: Final = Struct(">hi")  # version, topics
_LENGTH: Final = Struct(">H")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics in consumers' metadata; None if one has none of that form. O(bytes)."""
    topics: set[str] = set()
    try:
        for one in metadata:
            _, count = _HEAD.unpack_from(one)
            at = _HEAD.size
            for _ in range(count):
                start = at + _LENGTH.size
                at = start + _LENGTH.unpack_from(one, at)[0]
                topics.add(one[start:at].decode())
    except (error, UnicodeDecodeError):
        return None
    return frozenset(topics)
