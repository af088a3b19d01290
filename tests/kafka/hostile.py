"""Requests as no client sends them: valid ones of every api and version with made-up values, and then damaged."""

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from struct import pack
from types import NoneType
from typing import Any, get_args, get_origin

from kio.index import load_request_schema

from purgatory_async.kafka.requests import APIS
from tests.kafka import protocol
from tests.kafka.made_batches import batch

OFFERED = [(api.key, version) for api in APIS.values() for version in range(api.first, api.most + 1)]
HUGE = 2**31 - 1
NUMBERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 15, "error_code": 0}
EDGES = (0, 1, -1, 2)
TEXTS = ("t", "g", "", "never", "a b", "x" * 300)
LENGTHS = (HUGE, -1, -2, -HUGE - 1, 1 << 16, 0)
BATCHES = (batch(b"a"), batch(b"b", producer=(1, 0, 0)), batch(b"c")[:-3], b"", b"\0" * 80)
MAX_WAIT_MS = 20


def values_of(schema: Any, rng: random.Random) -> dict[str, Any]:
    """Made-up values for all fields of a structure."""
    return {member.name: value_of(member, rng) for member in fields(schema)}


def value_of(member: Any, rng: random.Random) -> Any:
    """A made-up value, of the field's type and within its bounds."""
    kind, wanted = member.metadata.get("kafka_type"), protocol.present(member.type)
    if NoneType in get_args(member.type) and rng.random() < 0.2:
        return None
    if get_origin(wanted) is tuple:
        (item, *_), size = get_args(wanted), rng.choice((0, 1, 1, 2))
        if is_dataclass(item):
            return [values_of(item, rng) for _ in range(size)]
        return [scalar_of(kind, item, rng) for _ in range(size)]
    return values_of(wanted, rng) if is_dataclass(wanted) else scalar_of(kind, wanted, rng)


def scalar_of(kind: str, wanted: Any, rng: random.Random) -> Any:
    """Any value of a type that has no parts."""
    if kind in NUMBERS:
        top = 1 << NUMBERS[kind]
        return rng.choice((*EDGES, *EDGES, top - 1, -top))
    made = {
        "string": lambda: rng.choice(TEXTS),
        "bool": lambda: rng.random() < 0.5,
        "bytes": lambda: rng.randbytes(rng.randrange(20)),
        "records": lambda: rng.choice(BATCHES),
        "timedelta_i32": lambda: rng.randrange(MAX_WAIT_MS),
        "timedelta_i64": lambda: rng.randrange(MAX_WAIT_MS),
    }
    return made[kind]() if kind in made else protocol.IMPLICIT.get(kind, wanted)


def valid_frame(key: int, version: int, rng: random.Random) -> bytes:
    """A request that follows its schema."""
    return protocol.request_frame(key, version, **values_of(load_request_schema(key, version), rng))


def damaged(frame: bytes, rng: random.Random) -> bytes:
    """A frame with one to three wrongs: cut, changed, longer, or with a length that cannot be."""
    data = bytearray(frame)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0:
                del data[at:]
            case 1:
                data[at : at + 4] = pack(">i", rng.choice(LENGTHS))
            case 2:
                data[at : at + 5] = b"\xff\xff\xff\xff\x07"  # the greatest compact length
            case 3:
                data[at : at + 1] = rng.randbytes(1)
            case 4:
                data[at:at] = rng.randbytes(rng.randrange(9))
            case _:
                data[:4] = pack(">hh", rng.randrange(-2, 80), rng.randrange(-2, 20))
    return bytes(data)


def frames(seed: int, rounds: int) -> Iterator[bytes]:
    """Valid and damaged requests of every api and version, the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(rounds):
        for key, version in OFFERED:
            frame = valid_frame(key, version, rng)
            yield frame
            yield damaged(frame, rng)
