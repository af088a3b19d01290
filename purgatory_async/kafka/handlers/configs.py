"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: what topics and brokers are configured with."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from purgatory_async.kafka.api import Answer, Api
from purgatory_async.kafka.client import Client
from purgatory_async.kafka.configs.described import MAX_RESOURCES, Resource, broker_entries, topic_entries
from purgatory_async.kafka.configs.overrides import Overrides, changed, checked
from purgatory_async.kafka.errors import ErrorCode, ProtocolError
from purgatory_async.kafka.handlers.publishing import once_published
from purgatory_async.kafka.node import Node
from purgatory_async.kafka.topics import Topic

__all__ = ["ALTER_CONFIGS", "DESCRIBE_CONFIGS", "INCREMENTAL_ALTER_CONFIGS"]

_TOLD_S: Final = 4.0  # less than a broker waits that has passed the request on


# Describing.


def _describe_configs(node: Node, request: Any, _: Client) -> Answer:
    """Describe topics and this broker, each once."""
    wanted = {(each.resource_type, each.resource_name): each for each in request.resources}
    results = [
        _described(node, each, request, beyond=number >= MAX_RESOURCES)
        for number, each in enumerate(wanted.values())
    ]
    return {"results": results}


def _check_number(name: str, *, beyond: bool) -> None:
    if beyond:
        raise ProtocolError(
            ErrorCode.policy_violation,
            f"a request must name at most {MAX_RESOURCES} resources, got {name[:100]!r} beyond; send several requests",
        )


def _described(node: Node, wanted: Any, request: Any, *, beyond: bool) -> dict[str, Any]:
    answer = {"resource_type": wanted.resource_type, "resource_name": wanted.resource_name}
    try:
        entries = _entries(node, wanted, beyond=beyond)
    except ProtocolError as error:
        return {**answer, "error_code": error.code, "error_message": str(error), "configs": ()}
    if wanted.configuration_keys:
        named = {*wanted.configuration_keys}
        entries = [entry for entry in entries if entry["name"] in named]
    left_out = {
        **({} if request.include_synonyms else {"synonyms": ()}),
        **({} if getattr(request, "include_documentation", False) else {"documentation": None}),
    }
    return {
        **answer,
        "error_code": ErrorCode.none,
        "error_message": None,
        "configs": [{**entry, **left_out} for entry in entries],
    }


def _entries(node: Node, wanted: Any, *, beyond: bool) -> Sequence[dict[str, Any]]:
    name = wanted.resource_name
    _check_number(name, beyond=beyond)
    match wanted.resource_type:
        case Resource.TOPIC:
            return topic_entries(node.settings, node.topics.find(name).configs)
        case Resource.BROKER if not name:
            return ()  # Kafka's defaults for all brokers that can be altered; there are none
        case Resource.BROKER if name == str(node.id):
            return broker_entries(node.settings, node.id, *node.addresses[node.id])
        case Resource.BROKER:
            raise ProtocolError(
                ErrorCode.invalid_request, f"a broker must be asked for itself, {node.id}, got {name[:100]!r}"
            )
        case other:
            raise _no_such_resource(other)


def _no_such_resource(number: int) -> ProtocolError:
    known = " or ".join(f"{each.value} ({each.name.lower()})" for each in Resource)
    return ProtocolError(ErrorCode.invalid_request, f"resource_type must be {known}, got {number}")


# Altering.


def _replaced(_: Overrides, wanted: Any) -> Overrides:
    return checked((each.name, each.value) for each in wanted.configs)


def _changed(overrides: Overrides, wanted: Any) -> Overrides:
    return changed(overrides, ((each.name, each.config_operation, each.value) for each in wanted.configs))


def _altering(
    key: int, version: int, alter: Callable[[Overrides, Any], Overrides]
) -> Callable[[Node, Any, Client], Answer | Awaitable[Answer]]:
    """Make the handler of an api.

    Args:
        key: The api's.
        version: To ask the controller with.
        alter: Makes what a topic has of what it had, and a resource of the request.
    """

    def handle(node: Node, request: Any, _: Client) -> Answer | Awaitable[Answer]:
        """Alter topics' configs as the controller, or have it do so: clients send this to any broker."""
        if node.cluster.controller != node.id:
            return _passed_on(node, request, key, version)
        times = Counter((each.resource_type, each.resource_name) for each in request.resources)
        altered: dict[Topic, Overrides] = {}
        results: list[dict[str, Any]] = []
        for number, each in enumerate(request.resources):
            answer = {"resource_type": each.resource_type, "resource_name": each.resource_name}
            try:
                _check_number(each.resource_name, beyond=number >= MAX_RESOURCES)
                topic = _alterable(node, each, twice=times[each.resource_type, each.resource_name] > 1)
                altered[topic] = alter(topic.configs, each)
            except ProtocolError as error:
                results.append({**answer, "error_code": error.code, "error_message": str(error)})
            else:
                results.append({**answer, "error_code": ErrorCode.none, "error_message": None})
        if request.validate_only or not altered:
            return {"responses": results}
        node.controller.configure(altered)
        return once_published(node, _TOLD_S, "responses", results)

    return handle


def _alterable(node: Node, wanted: Any, *, twice: bool) -> Topic:
    name = wanted.resource_name
    if twice:
        raise ProtocolError(
            ErrorCode.invalid_request, f"a request must name a resource once, got {name[:100]!r} twice"
        )
    if wanted.resource_type == Resource.BROKER:
        raise ProtocolError(
            ErrorCode.invalid_config,
            f"a broker's configs must be given when it starts: cannot alter broker {name[:100]!r}; "
            "see purgatory kafka --help",
        )
    if wanted.resource_type != Resource.TOPIC:
        raise _no_such_resource(wanted.resource_type)
    return node.controller.alterable(name)


async def _passed_on(node: Node, request: Any, key: int, version: int) -> Answer:
    """Have the controller answer."""
    try:
        response = await node.ask_controller(key, version, **asdict(request))
    except (OSError, EOFError) as error:
        refusal = f"broker {node.cluster.controller}, the controller, must be within reach, got {error!r}"
        return {
            "responses": [
                {
                    "resource_type": each.resource_type,
                    "resource_name": each.resource_name,
                    "error_code": ErrorCode.request_timed_out,
                    "error_message": refusal,
                }
                for each in request.resources
            ]
        }
    return {"responses": [asdict(each) for each in response.responses]}


DESCRIBE_CONFIGS: Final = Api(32, 1, 4, _describe_configs)
ALTER_CONFIGS: Final = Api(33, 0, 2, _altering(33, 2, _replaced))
INCREMENTAL_ALTER_CONFIGS: Final = Api(44, 0, 1, _altering(44, 1, _changed))
