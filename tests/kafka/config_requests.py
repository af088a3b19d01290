"""Requests about configs, as a test writes them."""

from typing import Any

from tests.kafka.protocol import CREATE_TOPICS

DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(name: str = "t", kind: int = TOPIC, **fields: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, **fields}


async def create(
    broker, configs: dict[str, Any], topic: str = "u", *, version: int = 7, **fields: Any
) -> Any:
    """The answer for one topic of one partition."""
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": given(configs)}
    return (await broker.ask(CREATE_TOPICS, version, topics=[wanted], timeout=1_000, **fields)).topics[0]


def given(configs: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in configs.items()]


async def alter(broker, configs: dict[str, Any], topic: str = "t", *, version: int = 2, **fields: Any) -> Any:
    """Replace all that a topic is given itself; the answer for it."""
    wanted = resource(topic, configs=given(configs))
    return (await broker.ask(ALTER_CONFIGS, version, resources=[wanted], **fields)).responses[0]


async def change(
    broker, *changes: tuple[str, int, Any], topic: str = "t", version: int = 1, **fields: Any
) -> Any:
    """Change some configs of a topic; the answer for it."""
    configs = [
        {"name": name, "config_operation": operation, "value": value} for name, operation, value in changes
    ]
    wanted = resource(topic, configs=configs)
    return (await broker.ask(INCREMENTAL_ALTER_CONFIGS, version, resources=[wanted], **fields)).responses[0]


async def described(
    broker, *names: str, topic: str = "t", version: int = 4, kind: int = TOPIC, **fields: Any
):
    """The configs of a resource, by name."""
    wanted = resource(topic, kind, configuration_keys=names or None)
    (result,) = (await broker.ask(DESCRIBE_CONFIGS, version, resources=[wanted], **fields)).results
    assert (result.error_code, result.error_message) == (0, None)
    return {config.name: config for config in result.configs}
