"""Refuse a request with an error that a test has chosen, whatever the api and its version.

The answer's shape comes from the api's own handler, asked of a node that has nothing: so nothing happens, and every
version's answer is whole. Its errors are then replaced by the chosen one.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from kio.schema.index import api_key_map

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.errors import ErrorCode
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.requests import APIS
from purgatory_async.kafka.settings import Settings

__all__ = ["API_KEYS", "Refusal", "api_key", "error_code", "refused"]

API_KEYS: Final[Mapping[str, int]] = {api_key_map[key].title().replace("_", ""): key for key in APIS}
"""The apis that the broker serves, by their names in Kafka's protocol."""

_ERROR: Final = "error_code"
_MESSAGE: Final = "error_message"


@dataclass(slots=True)
class Refusal:
    """Requests that the broker is to refuse.

    Attributes:
        api: The api's name.
        error: What they are answered with.
        left: How many are still to come.
    """

    api: str
    error: ErrorCode
    left: int


def api_key(name: str) -> int:
    """Return the number of an api.

    Raises:
        ValueError: The broker has no such api.
    """
    key = API_KEYS.get(name)
    if key is None:
        raise ValueError(f"api must be one of {', '.join(API_KEYS)}, got {name!r}")
    return key


def error_code(name: str) -> ErrorCode:
    """Return an error by its name in Kafka's protocol, such as NOT_LEADER_OR_FOLLOWER; case does not matter.

    Raises:
        ValueError: The protocol has no such error.
    """
    code = ErrorCode.__members__.get(name.lower())
    if code is None or code is ErrorCode.none:
        known = ", ".join(code.name.upper() for code in ErrorCode if code is not ErrorCode.none)
        raise ValueError(f"error must be one of {known}; got {name!r}")
    return code


async def refused(node: Node, api: Api, request: Any, client: Client, error: ErrorCode) -> Answer:
    """Make the answer that refuses a request; None if that answer would have no error. O(fields)."""
    empty = Node(Settings(auto_create=False, rebalance_delay=0.0), id=node.id, timer=node.timer)
    empty.addresses.update(node.addresses)
    try:
        answer = api.handle(empty, request, client)
        if isinstance(answer, Awaitable):
            answer = await answer
    finally:
        empty.close()
    return None if answer is None else _with_error(answer, error)


def _with_error(answer: Mapping[str, Any], error: ErrorCode) -> Mapping[str, Any] | None:
    """Replace the errors that are closest to what they concern: a partition's rather than the whole answer's."""
    deeper = {name: _each_with_error(value, error) for name, value in answer.items()}
    changed: dict[str, Any] = {name: value for name, value in deeper.items() if value is not None}
    if not changed and _ERROR in answer:
        changed[_ERROR] = error
        if _MESSAGE in answer:
            changed[_MESSAGE] = f"refused by a test: {error.name}"
    return {**answer, **changed} if changed else None


def _each_with_error(value: object, error: ErrorCode) -> list[Mapping[str, Any]] | None:
    if not isinstance(value, Sequence) or not value or not isinstance(value[0], Mapping):
        return None
    parts = cast("Sequence[Mapping[str, Any]]", value)  # an answer's lists have one type of entry
    changed = [_with_error(part, error) for part in parts]
    return None if None in changed else [part for part in changed if part is not None]
