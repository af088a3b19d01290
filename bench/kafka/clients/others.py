"""Checks of kafkajs and of Kafka's own client in Java."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from bench.kafka.clients.confluent import prepare
from bench.kafka.clients.expect import CODECS, DELETED, VALUES, expect
from bench.kafka.clients.processes import Member, member, until
from bench.kafka.programs import JAVA, KAFKAJS, command, environment

__all__ = ["CHECKS"]

_PATIENCE_S: Final = 20.0  # two starts of a JVM included
_SESSION_MS: Final = "6000"
_Events = list[dict[str, Any]]
_Sending = tuple[str, str, str]  # acks, codec, whether idempotent
_PLAIN: Final[_Sending] = ("all", "none", "false")


def _ran(client: str, *arguments: str, given: bytes = b"") -> _Events:
    """Run a program to its end."""
    done = subprocess.run(
        [*command(client), *arguments],
        input=given,
        stdout=subprocess.PIPE,
        env=environment(),
        check=True,
        timeout=_PATIENCE_S,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _produce(client: str, address: str, topic: str, sending: _Sending = _PLAIN) -> None:
    prepare(address, topic)
    _ran(client, "produce", address, topic, *sending, given=b"\n".join(VALUES))


def _produced(client: str, sending: _Sending, address: str, topic: str) -> None:
    _produce(client, address, topic, sending)
    events = _ran(client, "consume", address, topic, str(len(VALUES)))
    expect("values", [event["value"].encode() for event in events if "value" in event], VALUES)


def _member(client: str, address: str, topic: str) -> contextlib.AbstractContextManager[Member]:
    line = (*command(client), "member", address, topic, topic, _SESSION_MS)
    return member(line, environment())


def _assigned(one: Member) -> int:
    """How many partitions a member has."""
    events = [json.loads(line) for line in one.seen if line.startswith("{")]
    return next((len(event["assigned"]) for event in reversed(events) if "assigned" in event), 0)


def _rebalance(client: str, address: str, topic: str) -> None:
    """Two members share a topic's partitions; when one leaves, the other has all."""
    prepare(address, topic)
    with _member(client, address, topic) as stays, _member(client, address, topic) as leaves:
        until(lambda: _assigned(stays) and _assigned(leaves), "rebalance", stays, leaves)
        share = _assigned(leaves)
        leaves.leave()
        until(lambda: _assigned(stays) > share, "rebalance", stays)


def _offsets(client: str, address: str, topic: str) -> None:
    """A member reads and goes; the next one goes on there."""
    _produce(client, address, topic)
    with _member(client, address, topic) as one:
        until(lambda: _values(one) == VALUES, "values", one)
        one.leave()
    _ran(client, "produce", address, topic, *_PLAIN, given=b"the last")
    with _member(client, address, topic) as two:
        until(lambda: _values(two) == [b"the last"], "the last value", two)


def _values(one: Member) -> list[bytes]:
    events = [json.loads(line) for line in one.seen if line.startswith("{")]
    return [event["value"].encode() for event in events if "value" in event]


def _delete_records(client: str, address: str, topic: str) -> None:
    _produce(client, address, topic)
    trimmed = _ran(client, "admin", address, f"trim {topic} {DELETED}")
    expect("watermarks", trimmed, [{"low": DELETED, "high": len(VALUES)}])


def _administer(client: str, address: str, topic: str) -> None:
    create, describe = f"create {topic} 2", f"topic {topic}"
    again = {KAFKAJS: {"created": False}, JAVA: {"error": "TOPIC_ALREADY_EXISTS"}}
    made = _ran(client, "admin", address, create, create, describe)
    expect("creation", made, [{"created": True}, again[client], {"partitions": 2}])
    deleted, listed = _ran(client, "admin", address, f"delete {topic}", "topics")
    expect("deletion", deleted, {"deleted": topic})
    expect("topics", topic in listed["topics"], wanted=False)


def _checks(client: str) -> Mapping[str, Callable[[str, str], None]]:
    sendings = {
        **{f"acks={acks}": (acks, "none", "false") for acks in ("0", "1", "all")},
        **{codec: ("all", codec, "false") for codec in CODECS},
        "idempotent": ("all", "none", "true"),
    }
    checks = {
        "rebalance": _rebalance,
        "offsets": _offsets,
        "delete records": _delete_records,
        "admin": _administer,
    }
    return {
        **{feature: partial(_produced, client, sending) for feature, sending in sendings.items()},
        **{feature: partial(check, client) for feature, check in checks.items()},
    }


CHECKS: Final = {client: _checks(client) for client in (KAFKAJS, JAVA)}
"""By client, then by feature."""
