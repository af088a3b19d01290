"""Checks of kcat, which has no verbs to administer."""

import contextlib
import re
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from bench.kafka.clients.confluent import prepare
from bench.kafka.clients.expect import CODECS, PATIENCE_S, VALUES, expect
from bench.kafka.clients.processes import Member, member, until

__all__ = ["CHECKS"]

_HALF: Final = len(VALUES) // 2
_ASSIGNED: Final = re.compile(r"assigned: (.*)")


def _kcat(address: str, *arguments: str, given: bytes = b"") -> list[bytes]:
    """Run kcat; returns the lines it printed."""
    command = ["kcat", "-q", "-b", address, *arguments]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
    return done.stdout.splitlines()


def _produce(address: str, topic: str, *options: str) -> None:
    prepare(address, topic)
    _kcat(address, "-P", "-t", topic, "-p", "0", *options, given=b"\n".join(VALUES))


def _produced(options: tuple[str, ...], address: str, topic: str) -> None:
    _produce(address, topic, *options)
    expect("values", _kcat(address, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e"), VALUES)


def _group(topic: str) -> tuple[str, ...]:
    return "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-G", topic


def _offsets(address: str, topic: str) -> None:
    """A member reads half and goes; the next one goes on there."""
    _produce(address, topic)
    for first in (0, _HALF):
        read = _kcat(address, "-c", str(_HALF), *_group(topic), topic)
        expect("values", read, VALUES[first : first + _HALF])


def _member(address: str, topic: str) -> contextlib.AbstractContextManager[Member]:
    return member(("kcat", "-b", address, *_group(topic), topic))


def _assigned(one: Member) -> int:
    """How many partitions a member has."""
    found = [assigned[1] for line in one.seen if (assigned := _ASSIGNED.search(line))]
    return found[-1].count("[") if found else 0


def _rebalance(address: str, topic: str) -> None:
    """Two members share a topic's partitions; when one leaves, the other has all."""
    prepare(address, topic)
    with _member(address, topic) as stays, _member(address, topic) as leaves:
        until(lambda: _assigned(stays) and _assigned(leaves), "rebalance", stays, leaves)
        share = _assigned(leaves)
        leaves.leave()
        until(lambda: _assigned(stays) > share, "rebalance", stays)


CHECKS: Final[Mapping[str, Callable[[str, str], None]]] = {
    **{f"acks={acks}": partial(_produced, ("-X", f"acks={acks}")) for acks in (0, 1, "all")},
    **{codec: partial(_produced, ("-z", codec)) for codec in CODECS},
    "idempotent": partial(_produced, ("-X", "enable.idempotence=true")),
    "rebalance": _rebalance,
    "offsets": _offsets,
}
