"""Requests and responses: kio reads, generated writers write."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from struct import Struct, error
from typing import Any, Final

from kio.index import UnknownAPIKey, UnknownEntity, load_request_schema, load_response_schema
from kio.serial import entity_reader
from kio.serial.readers import Reader
from kio.static.protocol import Entity

from purgatory_async.kafka.arrays import check_arrays
from purgatory_async.kafka.errors import MalformedRequestError
from purgatory_async.kafka.frames import Frame
from purgatory_async.kafka.writers import Buffer, Writer, writer_of

__all__ = [
    "API_VERSIONS",
    "Header",
    "encode",
    "encode_request",
    "read_body",
    "read_header",
    "read_response",
]

API_VERSIONS: Final = 18  # its response has the oldest header, so that any client can read it
_START: Final = Struct(">hhi")
_LENGTH_AND_CORRELATION: Final = Struct(">ii")
_LENGTH: Final = Struct(">i")
_NAME_LENGTH: Final = Struct(">h")
_NO_TAGS: Final = b"\0"


@dataclass(frozen=True, slots=True)
class Header:
    """The header of every request.

    Attributes:
        api_key: Which api.
        version: The version of the api.
        correlation_id: Returned with the response.
    """

    api_key: int
    version: int
    correlation_id: int


def read_header(frame: Frame) -> Header:
    """Read the part of the header that all versions share.

    Raises:
        MalformedRequestError: The frame is shorter.
    """
    try:
        return Header(*_START.unpack_from(frame))
    except error:
        raise MalformedRequestError(
            f"a request must have at least {_START.size} bytes, got {len(frame)}"
        ) from None


def read_body(header: Header, frame: Frame) -> tuple[Any, str]:
    """Read a request.

    Returns:
        kio's entity, and the client's name for itself.

    Raises:
        MalformedRequestError: kio has no such api or version, or the frame is not one.
    """
    schema, read_rest, read_request = _readers(header.api_key, header.version)
    try:
        rest, at = read_rest(frame, 0)
        check_arrays(schema, frame, at)
        request, _ = read_request(
            frame, at
        )  # librdkafka's Metadata 12 has bytes behind it, which Kafka ignores
    except Exception as cause:  # kio's readers raise whatever a wrong byte leads to
        raise MalformedRequestError(
            f"a request of api {header.api_key} version {header.version} must follow its schema, "
            f"got {len(frame)} bytes: {cause!r}"
        ) from cause
    return request, rest.client_id or ""


def encode(header: Header, answer: Mapping[str, Any], *, version: int | None = None) -> list[Buffer]:
    """Write a response with its length, as buffers to send one after another. O(fields).

    Args:
        header: The header of the request.
        answer: Values by kio's field names; see `purgatory_async.kafka.writers`.
        version: To write instead of the request's.
    """
    write, tags = _writer(header.api_key, header.version if version is None else version)
    parts: list[Buffer] = [b"", *tags]
    write(answer, parts.append)
    length = sum(map(len, parts)) + _LENGTH_AND_CORRELATION.size // 2
    parts[0] = _LENGTH_AND_CORRELATION.pack(length, header.correlation_id)
    return parts


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str, values: Mapping[str, Any]
) -> list[Buffer]:
    """Write a request with its length, as buffers; ``values`` as for `encode`. O(fields)."""
    write, tags = _request_writer(api_key, version)
    name = client_id.encode()
    header = _START.pack(api_key, version, correlation_id) + _NAME_LENGTH.pack(len(name)) + name
    parts: list[Buffer] = [b"", header, *tags]
    write(values, parts.append)
    parts[0] = _LENGTH.pack(sum(map(len, parts)))
    return parts


def read_response(api_key: int, version: int, frame: Frame) -> tuple[int, Any]:
    """Read a response without its length.

    Returns:
        The correlation id, and kio's entity.

    Raises:
        ConnectionError: The frame is no such response.
    """
    read_header, read = _response_readers(api_key, version)
    try:
        header, at = read_header(frame, 0)
        response, _ = read(frame, at)
    except Exception as cause:  # kio's readers raise whatever a wrong byte leads to
        raise ConnectionError(
            f"a response of api {api_key} version {version} must follow its schema, got {len(frame)} bytes: {cause!r}"
        ) from cause
    return header.correlation_id, response


@cache
def _readers(api_key: int, version: int) -> tuple[type[Entity], Reader[Any], Reader[Any]]:
    try:
        schema = load_request_schema(api_key, version)
    except (UnknownAPIKey, UnknownEntity):
        raise MalformedRequestError(f"no request has api {api_key} version {version}") from None
    return schema, entity_reader(schema.__header_schema__), entity_reader(schema)


@cache
def _writer(api_key: int, version: int) -> tuple[Writer, tuple[bytes, ...]]:
    schema = load_response_schema(api_key, version)
    return writer_of(schema), (_NO_TAGS,) if schema.__header_schema__.__flexible__ else ()


@cache
def _request_writer(api_key: int, version: int) -> tuple[Writer, tuple[bytes, ...]]:
    schema = load_request_schema(api_key, version)
    return writer_of(schema), (_NO_TAGS,) if schema.__header_schema__.__flexible__ else ()


@cache
def _response_readers(api_key: int, version: int) -> tuple[Reader[Any], Reader[Any]]:
    schema = load_response_schema(api_key, version)
    return entity_reader(schema.__header_schema__), entity_reader(schema)
