"""A signal from a program without a loop: in the log as any other, once it is durable, or with a transaction."""

import asyncio
import sqlite3
from contextlib import closing, contextmanager

import msgspec
import pytest

from purgatory_async.cluster import LogDamaged, LogError, LogUnavailable, sqlite
from purgatory_async.cluster.connection import following
from purgatory_async.durable import signal
from purgatory_async.durable.checkpoints.loading import folded
from purgatory_async.durable.fold.entries import SetLevel, Tick
from purgatory_async.durable.urls import exists, opened, parsed
from tests.cluster.servers import by_engine
from tests.durable.checkpoints.conftest import append, url_on
from tests.processes import PATIENCE_S


@pytest.fixture(params=by_engine(["sqlite", "postgres", "redis"]))
def url(request, tmp_path):
    """A store at level 2."""
    url = url_on(request.param, tmp_path)
    asyncio.run(begin(url, SetLevel(level=2)))
    return url


@pytest.fixture
def file(tmp_path):
    """The file of a store at level 2."""
    asyncio.run(begin(f"sqlite:///{tmp_path}/log.db", SetLevel(level=2)))
    return tmp_path / "log.db"


async def begin(url, *entries):
    async with opened(parsed(url)) as (log, _):
        if entries:
            await append(log, *entries)


def latest(url, *keys):
    """What the newest signal of each key says, and the position of the log's end."""

    async def fold():
        async with opened(parsed(url)) as (log, _):
            await append(log, Tick())  # with which Postgres moves what was proposed
            with closing(await folded(log)) as found:
                return [said(found.signals.latest(key)) for key in keys], found.position

    return asyncio.run(fold())


def said(view):
    return None if view is None else msgspec.json.decode(msgspec.json.encode(view))


def test_a_signal_is_in_the_log_once_it_returns(url):
    signal(url, "a")
    signal(url, "b", {"text": "ä"}, amount=3, voter="v")
    signal(url, "c", None)
    (a, b, c), position = latest(url, "a", "b", "c")
    assert (a["index"], b["index"], c["index"], position) == (2, 3, 4, 5)
    assert "value" not in a
    assert (b["value"], b["voter"]) == ({"text": "ä"}, "v")
    assert c["value"] is None


def test_the_first_signal_of_a_new_store_sets_its_level(tmp_path):
    url = f"sqlite:///{tmp_path}/new.db"
    asyncio.run(begin(url))
    signal(url, "a")

    async def level():
        async with opened(parsed(url)) as (log, _):
            with closing(await folded(log)) as fold:
                return fold.level, fold.signals.latest("a").index

    assert asyncio.run(level()) == (3, 2)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (("",), {}, "key must have 1 to 512 bytes in UTF-8, got 0"),
        (("ä" * 257,), {}, "key must have 1 to 512 bytes in UTF-8, got 514"),
        (("a\n",), {}, "key must not contain control characters"),
        (("..",), {}, "key must not be a path segment"),
        (("a",), {"amount": 0}, "amount must be from 1 to 9007199254740991, got 0"),
        (("a",), {"amount": 2**53}, "amount must be from 1 to 9007199254740991"),
        (("a",), {"voter": ""}, "voter must have 1 to 512 bytes"),
        (("a", "x" * 2**20), {}, "value must be at most 1048576 bytes as JSON, got 1048578"),
    ],
)
def test_a_bad_argument_is_refused_and_nothing_happens(file, arguments, options, error):
    for store in (f"sqlite:///{file}", sqlite3.connect(file)):
        with pytest.raises(ValueError, match=error):
            signal(store, *arguments, **options)
    assert latest(f"sqlite:///{file}")[1] == 2


def test_what_is_no_json_or_no_store_is_a_type_error(file):
    with pytest.raises(TypeError):
        signal(f"sqlite:///{file}", "a", object())
    for store in (None, file, object()):
        with pytest.raises(TypeError, match="store must be a URL, a "):
            signal(store, "a")


@pytest.mark.parametrize("engine", by_engine(["sqlite", "postgres", "redis"]))
def test_a_store_that_is_missing_is_refused_and_not_created(engine, tmp_path):
    url = url_on(engine, tmp_path)
    with pytest.raises(LogError, match=r"there is no log .* purgatory store init"):
        signal(url, "a")
    assert not asyncio.run(exists(parsed(url)))
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_kind_is_refused_and_kept(tmp_path):
    file = tmp_path / "app.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders(id)")
        before = file.read_bytes()
        for store in (f"sqlite:///{file}", connection):
            with pytest.raises(LogError, match="there is no log in"):
                signal(store, "a")
        assert not connection.in_transaction
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    text = tmp_path / "text"
    text.write_text("no database" * 100)
    with pytest.raises(LogDamaged, match="is damaged: file is not a database"):
        signal(f"sqlite:///{text}", "a")


@pytest.mark.parametrize("url", ["memory", "memory:"])
def test_a_store_in_memory_cannot_be_signalled(url):
    with pytest.raises(
        ValueError, match="the store must outlive its process, got memory; give sqlite:///PATH"
    ):
        signal(url, "order-1")


@pytest.mark.parametrize("url", ["memory", "sqlite://log.db", "mysql://h/db"])
def test_a_url_that_is_none_of_a_store_is_refused(url):
    with pytest.raises(ValueError, match="the store must"):
        signal(url, "a")


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/db", "redis://127.0.0.1:1"])
def test_an_engine_that_is_away_is_unavailable(url):
    with pytest.raises(LogUnavailable):
        signal(url, "a")


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_url_of_postgres_in_a_loop_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"await asyncio.to_thread\(signal, ...\)") as caught:
        signal("postgresql://me:hush@127.0.0.1:1/db", "a")
    assert "hush" not in str(caught.value)


# In a transaction of the application.


def test_a_signal_counts_with_the_transaction_of_its_connection(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders(id)")
        with connection:
            connection.execute("INSERT INTO orders VALUES (42)")
            signal(connection, "order-42", "paid")
        connection.execute("INSERT INTO orders VALUES (43)")
        signal(connection, "order-43")
        connection.rollback()
        signal(connection, "order-44")  # begins a transaction, as an INSERT does
        assert connection.in_transaction
        connection.rollback()
    (first, *others), position = latest(f"sqlite:///{file}", "order-42", "order-43", "order-44")
    assert (first["value"], first["index"]) == ("paid", 2)
    assert (others, position) == ([None, None], 3)


def test_a_connection_that_commits_by_itself_commits_the_signal(file):
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        signal(connection, "a")
        assert not connection.in_transaction
        connection.execute("BEGIN")
        signal(connection, "b")
        connection.execute("ROLLBACK")
    assert latest(f"sqlite:///{file}", "b")[0] == [None]
    assert latest(f"sqlite:///{file}", "a")[0][0]["index"] == 2


def test_the_settings_of_a_connection_do_not_matter(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = lambda _, row: {"row": row}
        for key in ("a", "b"):
            with connection:
                signal(connection, key)
    assert [each["index"] for each in latest(f"sqlite:///{file}", "a", "b")[0]] == [2, 3]


def test_two_transactions_take_turns(file):
    with (
        closing(sqlite3.connect(file, timeout=0)) as first,
        closing(sqlite3.connect(file, timeout=0)) as second,
    ):
        signal(first, "a")
        with pytest.raises(LogUnavailable, match="database is locked") as caught:
            signal(second, "b")
        assert caught.value.cause == "locked"
        first.commit()
        signal(second, "b")
        second.commit()
    assert [each["index"] for each in latest(f"sqlite:///{file}", "a", "b")[0]] == [2, 3]


def test_a_transaction_that_has_read_an_older_state_is_refused(file):
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM purgatory_log").fetchall()
        signal(f"sqlite:///{file}", "a")
        with pytest.raises(LogUnavailable):
            signal(connection, "b")
        connection.execute("ROLLBACK")
    assert latest(f"sqlite:///{file}", "a", "b")[0][1] is None


def test_a_database_in_memory_is_refused():
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(ValueError, match="must be a connection to a file"),
    ):
        signal(connection, "a")


def test_a_copy_of_a_store_that_no_worker_opened_is_refused(file, tmp_path):
    with closing(sqlite3.connect(file)) as connection, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        connection.backup(copy)
    (tmp_path / "copy.db.lock").write_bytes((tmp_path / "log.db.lock").read_bytes())
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        for store in (f"sqlite:///{tmp_path}/copy.db", copy):
            with pytest.raises(LogDamaged, match="was replaced while in use"):
                signal(store, "a")


class Driver:
    """A connection to Postgres by DB-API, made of psycopg's interface and another driver."""

    def __init__(self, url):
        from asyncpg import connect  # noqa: PLC0415 - needs an extra

        self.loop = asyncio.new_event_loop()
        self.connection = self.loop.run_until_complete(connect(url))

    def cursor(self):
        return self

    def execute(self, query, arguments=()):
        for number in range(1, len(arguments) + 1):
            query = query.replace("%s", f"${number}", 1)
        self.loop.run_until_complete(self.connection.fetch(query, *arguments))

    def commit(self):
        self.execute("COMMIT")

    def close(self):
        """Close a cursor."""

    def disconnect(self):
        self.loop.run_until_complete(self.connection.close())
        self.loop.close()


@contextmanager
def driver(store):
    connection = Driver(store.target)
    try:
        yield connection
    finally:
        connection.disconnect()


@pytest.mark.parametrize("url", by_engine(["postgres"]), indirect=True)
def test_a_signal_counts_with_the_commit_of_a_driver(url):
    store = parsed(url)
    with driver(store) as connection:
        connection.execute("BEGIN")
        signal(connection, "a", {"n": 1}, amount=2, voter="v", name=store.name)
        assert latest(url, "a")[0] == [None]
        connection.commit()
        connection.execute("BEGIN")
        signal(connection, "b", name=store.name)
        connection.execute("ROLLBACK")
        with pytest.raises(Exception, match=r'function x"_signal.* does not exist'):
            signal(connection, "b", name='x"')
    (a, b), _ = latest(url, "a", "b")
    assert (a["value"], a["voter"], b) == ({"n": 1}, "v", None)


@pytest.mark.parametrize("url", by_engine(["postgres"]), indirect=True)
def test_what_postgres_refuses_of_a_value_is_a_value_error(url):
    with pytest.raises(ValueError, match="u0000"):
        signal(url, "a", "\0")


@pytest.mark.parametrize("url", by_engine(["redis"]), indirect=True)
@pytest.mark.parametrize("text", [False, True])
def test_a_client_of_redis_signals_and_keeps_its_connection(url, text):
    import redis  # noqa: PLC0415 - needs an extra

    store = parsed(url)
    with closing(redis.Redis.from_url(store.target, decode_responses=text)) as client:
        for number in range(3):
            signal(client, "a", number, name=store.name)
        assert client.info("clients")["connected_clients"] < 6
        with pytest.raises(LogError, match="there is no log nowhere"):
            signal(client, "a", name="nowhere")
    assert latest(url, "a")[0][0]["value"] == 2


@pytest.mark.parametrize("url", by_engine(["redis"]), indirect=True)
def test_a_client_of_redis_that_repeats_doubles_nothing(url, monkeypatch):
    import redis  # noqa: PLC0415 - needs an extra

    store = parsed(url)
    read = redis.Connection.read_response
    left = [1]

    def lost(connection, *arguments, **options):
        answer = read(connection, *arguments, **options)
        if isinstance(answer, list) and len(answer) == 2 and left and left.pop():  # that of an append
            raise redis.ConnectionError("lost")
        return answer

    again = redis.retry.Retry(redis.backoff.NoBackoff(), 3)
    with closing(redis.Redis.from_url(store.target, retry=again)) as client:
        monkeypatch.setattr(redis.Connection, "read_response", lost)
        with pytest.raises(LogUnavailable, match="lost"):
            signal(client, "a", name=store.name)
        monkeypatch.undo()
    assert latest(url, "a")[1] == 3


def test_what_is_awaited_is_no_store():
    class Awaited:
        """As of aiosqlite, psycopg and redis.asyncio."""

        def cursor(self):
            """Return a cursor."""

        async def commit(self):
            """Commit."""

        async def execute_command(self):
            """Execute."""

    with pytest.raises(TypeError, match="got Awaited"):
        signal(Awaited(), "a")


# Followers.


@pytest.mark.asyncio
async def test_a_follower_is_nudged_and_does_not_wait_for_its_poll(file, monkeypatch):
    monkeypatch.setattr(sqlite, "POLL_S", 3600.0)
    async with opened(parsed(f"sqlite:///{file}")) as (log, head), following(log, head.position) as reads:
        coming = asyncio.ensure_future(anext(reads))
        await append(log, Tick())
        assert [entry.position for entry in await coming] == [2]
        coming = asyncio.ensure_future(anext(reads))  # its next read is in an hour
        await asyncio.to_thread(signal, f"sqlite:///{file}", "a")
        async with asyncio.timeout(PATIENCE_S):
            assert [entry.position for entry in await coming] == [3]


@pytest.mark.asyncio
async def test_a_follower_finds_what_a_transaction_committed_by_itself(file):
    async with opened(parsed(f"sqlite:///{file}")) as (log, head), following(log, head.position) as reads:
        with closing(sqlite3.connect(file)) as connection, connection:
            signal(connection, "a")
        assert [entry.position for entry in await anext(reads)] == [2]
        assert log.end_now() == 2
        await append(log, Tick())
        assert [entry.position for entry in await anext(reads)] == [3]
