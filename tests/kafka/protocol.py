"""The client's side of the protocol: kio writes requests and reads responses, so the broker's own writers are judged.

A request is given by keywords with kio's field names; structures are dicts, durations integers of milliseconds.
"""

import io
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from itertools import count
from struct import pack
from types import NoneType
from typing import Any, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS = 18, 19, 20, 21
INIT_PRODUCER_ID, DESCRIBE_CLUSTER = 22, 60

NUMBERS = count(1)
IMPLICIT = {"string": "", "bool": False, "records": None, "bytes": b"", "uuid": None}


def present(annotation: Any) -> Any:
    parts = get_args(annotation)
    return next(part for part in parts if part is not NoneType) if NoneType in parts else annotation


def made(schema: Any, values: dict[str, Any]) -> Any:
    """An entity of kio from plain values."""
    unknown = values.keys() - {member.name for member in fields(schema)}
    assert not unknown, f"{schema.__name__} has no {unknown}"
    return schema(**{member.name: value_of(member, values) for member in fields(schema)})


def value_of(member: Any, values: dict[str, Any]) -> Any:
    kind, wanted = member.metadata.get("kafka_type"), present(member.type)
    if member.name not in values:
        if member.default is not MISSING:
            return member.default
        if get_origin(wanted) is tuple:
            return ()
        value: Any = IMPLICIT.get(kind, 0)
    else:
        value = values[member.name]
    if get_origin(wanted) is tuple and value is not None:
        item = get_args(wanted)[0]
        return tuple(made(item, part) if is_dataclass(item) else part for part in value)
    if is_dataclass(wanted) and value is not None:
        return made(wanted, value)
    return timedelta(milliseconds=value) if kind in {"timedelta_i32", "timedelta_i64"} else value


def request_frame(
    key: int, version: int, /, correlation_id: int = 7, client_id="tester", **values: Any
) -> bytes:
    """A request without its length."""
    schema = load_request_schema(key, version)
    header = schema.__header_schema__(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation_id,
        **({"client_id": client_id} if schema.__header_schema__.__version__ else {}),
    )
    buffer = io.BytesIO()
    entity_writer(schema.__header_schema__)(buffer, header)
    entity_writer(schema)(buffer, made(schema, values))
    return buffer.getvalue()


def with_length(frame: bytes) -> bytes:
    return pack(">i", len(frame)) + frame


def response(key: int, version: int, frame: bytes) -> tuple[int, Any]:
    """The correlation id and the entity of a response without its length; all of it must be read."""
    schema = load_response_schema(key, version)
    header, at = entity_reader(schema.__header_schema__)(frame, 0)
    entity, size = entity_reader(schema)(frame, at)
    assert at + size == len(frame), f"{len(frame) - at - size} bytes left"
    return header.correlation_id, entity
