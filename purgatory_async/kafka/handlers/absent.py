"""Requests for what the broker lacks by design, which it answers only to refuse them at once.

librdkafka looks for another coordinator, for ever and in silence, where the heartbeats of newer groups are not offered;
once it has asked, this answer is fatal to it. Java's client has one sentence for both. SaslHandshake is answered but
not offered: clients that look for it then refuse by themselves, and Java's, which does not look, hears of it.
"""

from typing import Any, Final

from purgatory_async.kafka.absent import Absence
from purgatory_async.kafka.api import Answer, Api, Handler
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.node import Node

__all__ = ["CONSUMER_GROUP_HEARTBEAT", "SASL_HANDSHAKE", "SHARE_GROUP_HEARTBEAT"]


def _refused(code: ErrorCode, absence: Absence, **fields: Any) -> Handler:
    """Make a handler that refuses, with these fields beside the error."""

    def refuse(node: Node, _: object, client: Client) -> Answer:
        """Log what is absent, and answer the error."""
        node.absences.log(absence, client)
        return {"error_code": code, "error_message": str(absence), **fields}

    return refuse


_NO_MEMBER: Final = {"member_id": None, "member_epoch": 0, "heartbeat_interval": 0, "assignment": None}

CONSUMER_GROUP_HEARTBEAT: Final = Api(
    68, 0, 1, _refused(ErrorCode.unsupported_version, Absence.NEW_GROUPS, **_NO_MEMBER)
)
SHARE_GROUP_HEARTBEAT: Final = Api(
    76, 1, 1, _refused(ErrorCode.unsupported_version, Absence.SHARE_GROUPS, **_NO_MEMBER)
)
SASL_HANDSHAKE: Final = Api(
    17, 0, 1, _refused(ErrorCode.unsupported_sasl_mechanism, Absence.SASL, mechanisms=())
)
