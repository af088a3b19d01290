"""Configs of topics: known names, checked values, described, altered."""

import pytest

from purgatory_async.kafka.configs.definition import LONG_MAX, MAX_VALUE_CHARACTERS, Kind
from purgatory_async.kafka.configs.described import MAX_RESOURCES
from purgatory_async.kafka.errors import ErrorCode
from tests.kafka.config_requests import (
    ALTER_CONFIGS,
    APPEND,
    BROKER,
    DELETE,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    SET,
    SUBTRACT,
    alter,
    change,
    create,
    described,
    resource,
)
from tests.kafka.socketless import SocketlessBroker

pytestmark = pytest.mark.asyncio

# Kafka 3.9's names, and the type and default of each, from its documentation.
KAFKAS = {
    "cleanup.policy": ("LIST", "delete"),
    "compression.gzip.level": ("INT", "-1"),
    "compression.lz4.level": ("INT", "9"),
    "compression.type": ("STRING", "producer"),
    "compression.zstd.level": ("INT", "3"),
    "delete.retention.ms": ("LONG", "86400000"),
    "file.delete.delay.ms": ("LONG", "60000"),
    "flush.messages": ("LONG", "9223372036854775807"),
    "flush.ms": ("LONG", "9223372036854775807"),
    "follower.replication.throttled.replicas": ("LIST", ""),
    "index.interval.bytes": ("INT", "4096"),
    "leader.replication.throttled.replicas": ("LIST", ""),
    "local.retention.bytes": ("LONG", "-2"),
    "local.retention.ms": ("LONG", "-2"),
    "max.compaction.lag.ms": ("LONG", "9223372036854775807"),
    "max.message.bytes": ("INT", "1048588"),
    "message.downconversion.enable": ("BOOLEAN", "true"),
    "message.format.version": ("STRING", "3.0-IV1"),
    "message.timestamp.after.max.ms": ("LONG", "9223372036854775807"),
    "message.timestamp.before.max.ms": ("LONG", "9223372036854775807"),
    "message.timestamp.difference.max.ms": ("LONG", "9223372036854775807"),
    "message.timestamp.type": ("STRING", "CreateTime"),
    "min.cleanable.dirty.ratio": ("DOUBLE", "0.5"),
    "min.compaction.lag.ms": ("LONG", "0"),
    "min.insync.replicas": ("INT", "1"),
    "preallocate": ("BOOLEAN", "false"),
    "remote.log.copy.disable": ("BOOLEAN", "false"),
    "remote.log.delete.on.disable": ("BOOLEAN", "false"),
    "remote.storage.enable": ("BOOLEAN", "false"),
    "retention.bytes": ("LONG", "-1"),
    "retention.ms": ("LONG", "604800000"),
    "segment.bytes": ("INT", "1073741824"),
    "segment.index.bytes": ("INT", "10485760"),
    "segment.jitter.ms": ("LONG", "0"),
    "segment.ms": ("LONG", "604800000"),
    "unclean.leader.election.enable": ("BOOLEAN", "false"),
}
REFUSED = [
    ("no.such.config", "1", "one that Kafka has for topics"),
    ("", "1", "one that Kafka has for topics"),
    ("retention.ms", "soon", "an integer from -1 to 9223372036854775807"),
    ("retention.ms", "-2", "an integer from -1"),
    ("retention.ms", "1_000", "an integer from -1"),
    ("retention.ms", "٣", "an integer from -1"),
    ("retention.ms", "1.5", "an integer from -1"),
    ("retention.ms", "", "an integer from -1"),
    ("retention.ms", None, "text of at most 4096 characters"),
    ("retention.ms", "9" * 4096, "an integer from -1 to 9223372036854775807"),
    ("retention.ms", "1" * (MAX_VALUE_CHARACTERS + 1), "text of at most 4096 characters"),
    ("max.message.bytes", "-1", "an integer from 0 to 2147483647"),
    ("max.message.bytes", "2147483648", "an integer from 0 to 2147483647"),
    ("segment.bytes", "13", "an integer from 14 to 2147483647"),
    ("min.insync.replicas", "0", "an integer from 1 to 2147483647"),
    ("compression.lz4.level", "18", "an integer from 1 to 17"),
    ("min.cleanable.dirty.ratio", "1.1", "a number from 0 to 1"),
    ("min.cleanable.dirty.ratio", "nan", "a number from 0 to 1"),
    ("preallocate", "yes", "one of true, false"),
    ("remote.storage.enable", "true", "one of false"),
    ("compression.type", "GZIP", "one of uncompressed, zstd, lz4, snappy, gzip, producer"),
    ("message.timestamp.type", "logappendtime", "one of CreateTime, LogAppendTime"),
    ("cleanup.policy", "compact,shred", "some of compact, delete"),
    ("leader.replication.throttled.replicas", "0:1,1", "of the form"),
    ("message.format.version", "newest", "of the form"),
]
READ = [
    ("retention.ms", " +0100 ", "100"),
    ("retention.bytes", str(-LONG_MAX - 1), str(-LONG_MAX - 1)),
    ("min.cleanable.dirty.ratio", ".50", "0.5"),
    ("preallocate", "TRUE", "true"),
    ("cleanup.policy", "compact , delete", "compact,delete"),
    ("cleanup.policy", "", ""),
    ("cleanup.policy", "compact,", "compact"),
    ("follower.replication.throttled.replicas", "*", "*"),
    ("leader.replication.throttled.replicas", "0:1, 1:2", "0:1,1:2"),
    ("message.format.version", "2.8-IV1", "2.8-IV1"),
]


async def test_all_names_types_and_defaults_are_kafkas(broker):
    configs = await described(broker)
    assert {name: (Kind(one.config_type).name, one.value) for name, one in configs.items()} == KAFKAS
    assert {(one.config_source, one.read_only, one.is_sensitive) for one in configs.values()} == {
        *[(5, False, False)],
    }
    made = await create(broker, {name: one.value for name, one in configs.items()})
    assert made.error_code is ErrorCode.none, "each default may be given"


@pytest.mark.parametrize(("name", "value", "bound"), REFUSED, ids=lambda value: str(value)[:20])
async def test_a_bad_config_is_refused_with_name_value_and_bound(broker, name, value, bound):
    for answer in (
        await create(broker, {name: value}),
        await create(broker, {name: value}, validate_only=True),
        await alter(broker, {name: value}),
        await change(broker, (name, SET, value)),
    ):
        assert answer.error_code is ErrorCode.invalid_config
        assert bound in answer.error_message
        assert name in answer.error_message
        assert repr(value)[:50] in answer.error_message
    assert [(topic.name, topic.configs) for topic in broker.node.topics] == [("t", {})]


@pytest.mark.parametrize(("name", "value", "read"), READ)
async def test_values_are_returned_as_kafka_writes_them(broker, name, value, read):
    assert (await create(broker, {name: value})).error_code is ErrorCode.none
    assert (await described(broker, name, topic="u"))[name].value == read


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_created_topic_has_its_configs(broker, version):
    made = await create(broker, {"retention.ms": "5", "cleanup.policy": "compact"}, version=version)
    assert made.error_code is ErrorCode.none
    if version >= 5:
        configs = {config.name: (config.value, config.config_source) for config in made.configs}
        assert configs.keys() == KAFKAS.keys()
        assert [configs[name] for name in ("retention.ms", "segment.ms")] == [("5", 1), ("604800000", 5)]
    assert broker.node.topics.find("u").configs == {"retention.ms": "5", "cleanup.policy": "compact"}


async def test_values_that_contradict_each_other_are_refused(broker):
    lags = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}
    made = await create(broker, lags)
    assert made.error_code is ErrorCode.invalid_config
    assert (
        made.error_message == "min.compaction.lag.ms must be at most 9, as max.compaction.lag.ms is, got 10"
    )
    await alter(broker, {"min.compaction.lag.ms": "10"})
    assert (await change(broker, ("max.compaction.lag.ms", SET, "9"))).error_code is ErrorCode.invalid_config


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_the_sources_of_a_value_are_told(manual_clock, version):
    broker = SocketlessBroker(manual_clock, max_batch_bytes=5_000)
    broker.node.topics.create("t")
    await alter(broker, {"retention.ms": "7"})
    name = "max.message.bytes"
    configs = await described(broker, name, "retention.ms", version=version, include_synonyms=True)
    sources = {
        config.name: [(known.name, known.value, known.source) for known in config.synonyms]
        for config in configs.values()
    }
    assert (configs[name].value, configs[name].config_source) == ("5000", 4)
    assert sources == {
        name: [("message.max.bytes", "5000", 4), ("message.max.bytes", "1048588", 5)],
        "retention.ms": [("retention.ms", "7", 1), ("log.retention.ms", "604800000", 5)],
    }
    await alter(broker, {name: "6000"})
    config = (await described(broker, name, version=version))[name]
    assert (config.value, config.config_source, config.synonyms) == ("6000", 1, ())
    broker.node.close()


async def test_documentation_says_what_has_no_effect(broker):
    configs = await described(broker, include_documentation=True)
    without = {name for name, config in configs.items() if "Without effect" in config.documentation}
    assert KAFKAS.keys() - without == {
        *("cleanup.policy", "max.message.bytes", "message.timestamp.type", "min.insync.replicas"),
        *("message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "remote.storage.enable"),
    }
    assert {config.documentation for config in (await described(broker)).values()} == {None}


async def test_a_broker_describes_what_it_was_started_with(manual_clock):
    broker = SocketlessBroker(
        manual_clock, partitions=3, min_insync=2, replica_lag=0.5, idle_timeout=float("inf")
    )
    configs = await described(broker, topic="0", kind=BROKER, include_synonyms=True)
    wanted = {
        "advertised.listeners": ("PLAINTEXT://127.0.0.1:9092", 4, "STRING"),
        "node.id": ("0", 4, "INT"),
        "num.partitions": ("3", 4, "INT"),
        "min.insync.replicas": ("2", 4, "INT"),
        "replica.lag.time.max.ms": ("500", 4, "LONG"),
        "connections.max.idle.ms": (str(LONG_MAX), 4, "LONG"),
        "auto.create.topics.enable": ("true", 5, "BOOLEAN"),
        "message.max.bytes": ("1048588", 5, "INT"),
        "log.retention.ms": ("604800000", 5, "LONG"),
    }
    assert {
        name: (configs[name].value, configs[name].config_source, Kind(configs[name].config_type).name)
        for name in wanted
    } == wanted
    assert {config.read_only for config in configs.values()} == {True}
    assert [known.value for known in configs["num.partitions"].synonyms] == ["3", "1"]
    assert await described(broker, topic="", kind=BROKER) == {}, "there are no defaults for all brokers"
    broker.node.close()


async def test_what_cannot_be_described_is_refused(broker):
    asked = [resource("never"), resource("a b"), resource("1", BROKER), resource("x", 8), resource("t")]
    asked = [{**one, "configuration_keys": ["segment.ms"]} for one in asked]
    answer = await broker.ask(DESCRIBE_CONFIGS, 4, resources=[*asked, asked[-1]])
    assert [
        (result.resource_name, result.error_code.name, len(result.configs)) for result in answer.results
    ] == [
        ("never", "unknown_topic_or_partition", 0),
        ("a b", "invalid_topic_exception", 0),
        ("1", "invalid_request", 0),
        ("x", "invalid_request", 0),
        ("t", "none", 1),
    ]
    assert "must be asked for itself, 0, got '1'" in answer.results[2].error_message
    assert "must be 2 (topic) or 4 (broker), got 8" in answer.results[3].error_message


@pytest.mark.parametrize("api", [DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS])
async def test_a_request_names_so_many_resources(broker, api):
    fields = {} if api == DESCRIBE_CONFIGS else {"configs": []}
    asked = [resource("t", **fields), *(resource(f"n{number}", **fields) for number in range(MAX_RESOURCES))]
    answer = await broker.ask(api, 1, resources=asked)
    codes = [result.error_code.name for result in getattr(answer, "results", None) or answer.responses]
    assert codes == ["none", *["unknown_topic_or_partition"] * (MAX_RESOURCES - 1), "policy_violation"]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_altering_replaces_all_that_was_given(broker, version):
    await alter(broker, {"retention.ms": "5", "segment.ms": "6"}, version=version)
    answer = await alter(broker, {"segment.ms": "7"}, version=version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    assert broker.node.topics.find("t").configs == {"segment.ms": "7"}


@pytest.mark.parametrize("version", [0, 1])
async def test_configs_are_changed_one_by_one(broker, version):
    async def now(*changes):
        answer = await change(broker, *changes, version=version)
        assert answer.error_code is ErrorCode.none
        return broker.node.topics.find("t").configs

    policy = "cleanup.policy"
    assert await now(("retention.ms", SET, "5"), (policy, APPEND, "compact")) == {
        "retention.ms": "5",
        policy: "delete,compact",
    }
    assert await now(("retention.ms", DELETE, None), (policy, APPEND, "compact,delete")) == {
        policy: "delete,compact"
    }
    assert await now((policy, SUBTRACT, "delete")) == {policy: "compact"}
    assert await now((policy, SUBTRACT, "compact, delete")) == {policy: ""}
    assert await now((policy, DELETE, "ignored"), ("segment.ms", DELETE, None)) == {}


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("retention.ms", APPEND, "5")], "invalid_config", "must be a list to append or subtract, got '5'"),
        ([("no.such", DELETE, None)], "invalid_config", "got 'no.such'"),
        ([("cleanup.policy", APPEND, "shred")], "invalid_config", "some of compact, delete, got 'shred'"),
        ([("cleanup.policy", APPEND, None)], "invalid_config", "got None"),
        ([("retention.ms", 4, "5")], "invalid_request", "one of [0, 1, 2, 3], got 4"),
        ([("retention.ms", SET, "5")] * 2, "invalid_request", "got 'retention.ms' 2 times"),
        ([("segment.ms", SET, "5"), ("retention.ms", SET, "x")], "invalid_config", "got 'x'"),
    ],
)
async def test_a_wrong_change_changes_nothing(broker, changes, code, message):
    answer = await change(broker, *changes)
    assert answer.error_code.name == code
    assert message in answer.error_message
    assert broker.node.topics.find("t").configs == {}


@pytest.mark.parametrize("api", [ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS])
async def test_what_cannot_be_altered_is_refused(broker, api):
    asked = [resource(*of) for of in [("never",), ("0", BROKER), ("", BROKER), ("x", 8), ("t",), ("t",)]]
    answer = await broker.ask(api, 1, resources=[{**one, "configs": []} for one in asked])
    refusals = {(result.resource_name, result.resource_type): result for result in answer.responses}
    assert {of: result.error_code.name for of, result in refusals.items()} == {
        ("never", 2): "unknown_topic_or_partition",
        ("0", BROKER): "invalid_config",
        ("", BROKER): "invalid_config",
        ("x", 8): "invalid_request",
        ("t", 2): "invalid_request",
    }
    assert "must be given when it starts" in refusals["0", BROKER].error_message
    assert "got 't' twice" in refusals["t", 2].error_message


async def test_only_validating_alters_nothing(broker):
    configs = {"retention.ms": "5"}
    assert (await alter(broker, configs, validate_only=True)).error_code is ErrorCode.none
    answer = await change(broker, ("retention.ms", SET, "5"), validate_only=True)
    assert answer.error_code is ErrorCode.none
    assert broker.node.topics.find("t").configs == {}


async def test_the_brokers_own_topic_is_not_altered(replicated):
    answer = await alter(replicated, {"retention.ms": "5"}, topic="__cluster_metadata")
    assert answer.error_code is ErrorCode.invalid_topic_exception
