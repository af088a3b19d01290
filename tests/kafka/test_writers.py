"""The generated writers write what kio writes, for every version of every api that is served."""

import io
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_origin
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from purgatory_async.kafka.requests import APIS
from purgatory_async.kafka.writers import varint, writer_of
from tests.kafka.protocol import made, present

SERVED = [(api.key, version) for api in APIS.values() for version in range(api.first, api.most + 1)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NUMBER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 31}


def numbers(kind: str) -> st.SearchStrategy[int]:
    bits = NUMBER_BITS[kind]
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


VALUES = {
    **{kind: numbers(kind) for kind in NUMBER_BITS},
    "bool": st.booleans(),
    "bytes": st.binary(max_size=200),
    "error_code": st.sampled_from(list(ErrorCode)),
    "string": st.text(max_size=150),
    "uuid": st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number)),
    "records": st.lists(st.binary(max_size=100), max_size=3),
    "datetime_i64": st.integers(0, 2**40),
}


@st.composite
def answers(draw, schema) -> dict[str, Any]:
    """Values for an entity as a handler gives them; no tagged field has its default, for kio would not write it."""
    answer = {}
    for member in fields(schema):
        tagged = "tag" in member.metadata
        if tagged and draw(st.booleans()):
            continue
        wanted, kind = present(member.type), member.metadata.get("kafka_type")
        if get_origin(wanted) is tuple:
            item = get_args(wanted)[0]
            of_item = answers(item) if is_dataclass(item) else VALUES[kind]
            value = draw(st.lists(of_item, max_size=2))
        else:
            value = draw(answers(wanted) if is_dataclass(wanted) else VALUES[kind])
        if wanted is not member.type and not tagged and draw(st.integers(0, 4)) == 0:
            value = -1 if kind == "datetime_i64" else None
        if not tagged or as_kio(member, value) != member.default:
            answer[member.name] = value
    return answer


def as_kio(member: Any, value: Any) -> Any:
    """A field's value in an entity of kio."""
    wanted, kind = present(member.type), member.metadata.get("kafka_type")
    if value is None:
        return None
    if kind == "records":
        return b"".join(value)
    if kind == "datetime_i64":
        return None if value == -1 else EPOCH + timedelta(milliseconds=value)
    if kind == "timedelta_i32":
        return timedelta(milliseconds=value)
    if get_origin(wanted) is tuple:
        item = get_args(wanted)[0]
        return tuple(for_kio(item, part) if is_dataclass(item) else part for part in value)
    return for_kio(wanted, value) if is_dataclass(wanted) else value


def for_kio(schema: Any, answer: dict[str, Any]) -> Any:
    """The same values as an entity of kio."""
    members = {member.name: member for member in fields(schema)}
    return schema(**{name: as_kio(members[name], value) for name, value in answer.items()})


@pytest.mark.parametrize(("key", "version"), SERVED)
@settings(max_examples=4)
@given(data=st.data())
def test_kio_writes_the_same_and_reads_it(key, version, data):
    schema = load_response_schema(key, version)
    answer = data.draw(answers(schema))
    parts: list[Any] = []
    writer_of(schema)(answer, parts.append)
    written, wanted, by_kio = b"".join(parts), for_kio(schema, answer), io.BytesIO()
    entity_writer(schema)(by_kio, wanted)
    assert written == by_kio.getvalue()
    assert entity_reader(schema)(written, 0) == (wanted, len(written))


def test_an_omitted_field_has_the_schemas_default():
    schema = load_response_schema(1, 12)
    written: list[Any] = []
    part = {"partition_index": 3, "error_code": ErrorCode.none, "high_watermark": 5, "records": ()}
    answer = {"error_code": ErrorCode.none, "responses": [{"topic": "t", "partitions": [part]}]}
    writer_of(schema)(answer, written.append)
    read, _ = entity_reader(schema)(b"".join(written), 0)
    buffer = io.BytesIO()
    entity_writer(schema)(
        buffer,
        made(
            schema,
            {
                **answer,
                "responses": [
                    {"topic": "t", "partitions": [{**part, "records": b"", "aborted_transactions": None}]}
                ],
            },
        ),
    )
    assert b"".join(written) == buffer.getvalue()
    assert read.responses[0].partitions[0].last_stable_offset == -1


def test_a_missing_field_without_default_is_an_error():
    with pytest.raises(KeyError, match="responses"):
        writer_of(load_response_schema(1, 12))({"error_code": ErrorCode.none}, [].append)


@pytest.mark.parametrize(
    ("value", "written"), [(0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001")]
)
def test_variable_length_integers_carry_seven_bits_a_byte(value, written):
    assert varint(value).hex() == written


@pytest.mark.parametrize(("version", "name"), [(9, ""), (11, ""), (12, None)])
def test_a_null_string_is_empty_where_there_is_no_null(version, name):
    schema = load_response_schema(3, version)
    topic = {"error_code": ErrorCode.none, "name": None, "partitions": ()}
    written: list[Any] = []
    writer_of(schema)({"brokers": (), "topics": [topic]}, written.append)
    read, _ = entity_reader(schema)(b"".join(written), 0)
    assert read.topics[0].name == name
