"""The URL of a store: each engine's, teaching errors, and passwords in none of them."""

import sys

import pytest

from purgatory_async.cluster import PostgresLog, RedisLog, SqliteLog
from purgatory_async.durable.store_url import masked
from purgatory_async.durable.urls import log_of, parsed


@pytest.mark.parametrize(
    ("url", "kind", "target", "name"),
    [
        ("sqlite:///orders.db", SqliteLog, "orders.db", "orders"),
        ("sqlite:////tmp/a%20b.db", SqliteLog, "/tmp/a b.db", "a b"),
        ("postgresql://me:pw@h/db", PostgresLog, "postgresql://me:pw@h/db", "purgatory"),
        ("postgres://h/db?name=o&sslmode=require", PostgresLog, "postgres://h/db?sslmode=require", "o"),
        ("redis://h:1/0?wait=2&name=o", RedisLog, "redis://h:1/0?wait=2", "o"),
        ("rediss://:pw@h", RedisLog, "rediss://:pw@h", "purgatory"),
    ],
)
def test_each_engine_has_its_url(url, kind, target, name):
    store = parsed(url)
    assert (store.target, store.name, store.url) == (target, name, url)
    assert isinstance(log_of(store), kind)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory", "the store must outlive its process, got memory; give sqlite:///PATH"),
        (
            "mysql://me:hush@h/db",
            r"the store must be one of memory, sqlite:///PATH.* got 'mysql://me:\*\*\*@h",
        ),
        ("sqlite:///nowhere/log.db", "the folder of the store must exist, got nowhere$"),
        ("sqlite:////nowhere/log.db", "the folder of the store must exist, got /nowhere$"),
    ],
)
def test_a_url_of_no_store_is_refused_with_the_forms(url, message):
    with pytest.raises(ValueError, match=message) as refused:
        parsed(url)
    assert "hush" not in str(refused.value)


def test_an_absolute_path_with_three_slashes_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"four slashes: sqlite:///{tmp_path}/log.db"):
        parsed(f"sqlite://{tmp_path}/log.db")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush@h/db",
        "postgresql://me:hu@sh:/hush@h/db",
        "redis://:hush@h",
        "postgresql://h/db?user=me&password=hush&ssl=on",
        "postgresql://h/db?sslpassword=hush",
        "postgresql://me:hush/db",
        "me:hush@h",
        "postgresql://h/db?passfile=hush",
        "redis://app:x/hush@y?#hush@db/0",
        "redis:app:hush@db",
    ],
)
def test_a_password_is_masked_wherever_it_stands(url):
    assert "hush" not in masked(url)
    assert "***" in masked(url)


@pytest.mark.parametrize(
    "url", ["sqlite:////a:b/c.db", "redis://h:6379/0", "postgresql://me@h:5432/db?name=o", "redis://me@h/0"]
)
def test_a_url_without_a_password_is_shown_as_it_is(url):
    assert masked(url) == url


def test_a_store_shows_no_password():
    assert "hush" not in repr(parsed("redis://:hush@h"))


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [("postgresql://h/db", "asyncpg", "postgres"), ("redis://h", "redis", "redis")],
)
def test_a_missing_client_is_named_with_its_command(monkeypatch, url, module, extra):
    from purgatory_async import cluster  # noqa: PLC0415 - whose lazy names this test empties

    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"purgatory_async.cluster.{extra}", raising=False)
    monkeypatch.delitem(sys.modules, "purgatory_async.cluster.postgres_link", raising=False)
    monkeypatch.delitem(vars(cluster), "PostgresLog" if extra == "postgres" else "RedisLog", raising=False)
    with pytest.raises(ValueError, match=rf'run: pip install "purgatory-async\[{extra}\]"'):
        parsed(url)


def test_redis_decides_for_itself_when_it_syncs():
    with pytest.raises(
        ValueError, match="sync must be 'always' for redis://h, got 'os'; set Redis's appendfsync"
    ):
        log_of(parsed("redis://h"), sync="os")
