"""What this broker lacks by design: a client that asks for it is refused at once, and the log says why, once."""

import logging
from enum import Enum
from typing import Final

from purgatory_async.kafka.client import Client

__all__ = ["Absence", "Absences"]

_LOG: Final = logging.getLogger(__name__)


class Absence(Enum):
    """A feature that the broker lacks, and what to do without it."""

    TRANSACTIONS = "transactions", "leave transactional.id unset"
    NEW_GROUPS = "groups of KIP-848", "set group.protocol=classic"
    SHARE_GROUPS = "share groups", "read as a consumer group"
    STREAMS_GROUPS = "streams groups", "set group.protocol=classic"
    SASL = "SASL", "set security.protocol=PLAINTEXT"
    TLS = "TLS", "set security.protocol=PLAINTEXT"
    HTTP = "HTTP", "connect to it with a Kafka client"
    ACLS = "ACLs", "every client may do everything"
    TOKENS = "delegation tokens", "every client may do everything"
    USERS = "users", "every client may do everything"
    QUOTAS = "quotas", "no client is throttled"

    def __str__(self) -> str:
        """The sentence, as answers and the log have it."""
        what, instead = self.value
        return f"this broker has no {what}; {instead}"

    @classmethod
    def of_api(cls, key: int) -> "Absence | None":
        """Find what an api is part of; None if the broker might have it. O(1)."""
        return _BY_API.get(key)

    @classmethod
    def of_length(cls, length: int) -> "Absence | None":
        """Find the protocol whose first bytes were read as a frame's length; None if they are of none. O(1)."""
        start = length.to_bytes(4, signed=True)
        if start.startswith(_HANDSHAKE):
            return cls.TLS
        return cls.HTTP if start in _METHODS else None


_HANDSHAKE: Final = b"\x16\x03"  # a record of TLS; its major version has stayed 3
_METHODS: Final = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI "})
_BY_API: Final = {
    key: absence
    for absence, keys in {
        Absence.SASL: (17, 36),
        Absence.TRANSACTIONS: (24, 25, 26, 27, 28, 61, 65, 66),
        Absence.ACLS: (29, 30, 31),
        Absence.TOKENS: (38, 39, 40, 41),
        Absence.QUOTAS: (48, 49),
        Absence.USERS: (50, 51),
        Absence.NEW_GROUPS: (68, 69),
        Absence.SHARE_GROUPS: (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92),
        Absence.STREAMS_GROUPS: (88, 89),
    }.items()
    for key in keys
}


class Absences:
    """Logs what clients asked a broker for in vain: each thing once, not once a request."""

    def __init__(self) -> None:
        self._logged: Final = set[Absence]()

    def log(self, absence: Absence, client: Client) -> None:
        """Log what a client asked for, unless one has before. O(1)."""
        if absence not in self._logged:
            self._logged.add(absence)
            named = f"client {client.id!r}" if client.id else "a client"
            _LOG.warning("%s (asked for by %s at %s; logged once)", absence, named, client.host)
