"""``purgatory store``: what its commands print, refuse and leave behind."""

import asyncio
import re
import secrets
import shutil
import signal

import pytest

from purgatory_async.cluster import LogUnavailable
from purgatory_async.durable.fold import fold, restoring
from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.durable.urls import opened, parsed
from purgatory_async.journal import read_journal
from purgatory_async.journal.schema import Outcome, Signal, Submit
from tests.cluster.reading import each, read
from tests.cluster.servers import Postgres, by_engine, need_postgres, shared
from tests.durable.checkpoints.conftest import append, some_entries, url_on
from tests.processes import purgatory, until


@pytest.fixture(params=by_engine(["sqlite", "postgres", "redis"]))
def url(request, tmp_path):
    return url_on(request.param, tmp_path)


@pytest.fixture
def made(cli, url):
    """The URL of an empty log."""
    assert cli("store", "init", url)[0] == 0
    return url


@pytest.fixture
def filled(made):
    """The URL of a log with 30 entries."""
    fill(made, *some_entries())
    return made


def fill(url, *entries):
    async def main():
        async with opened(parsed(url)) as (log, _):
            return await append(log, *entries)

    return asyncio.run(main())


def values(out):
    """The names and values that a command prints."""
    return dict(line.split(maxsplit=1) for line in out.splitlines())


def test_init_creates_a_log_once(cli, url):
    code, out, err = cli("store", "init", url)
    assert (code, err) == (0, [])
    epoch = re.search(r"epoch +(\w+)", out)[1]
    fill(url, *some_entries())
    code, out, err = cli("store", "init", url)
    assert (code, err) == (0, [])
    assert re.search(r"epoch +(\w+)", out)[1] == epoch
    assert re.search(r"position +30\n", out)


def test_restored_makes_another_epoch_and_keeps_the_rest(cli, filled):
    before = values(cli("store", "check", filled)[1])
    code, out, err = cli("store", "restored", filled)
    assert (code, err) == (0, [])
    assert "at position 30: every reader from before gets a gap; start the workers" in out
    after = values(cli("store", "check", filled)[1])
    assert after["epoch"] == re.search(r"has epoch (\w+) now", out)[1] != before["epoch"]
    assert {**after, "epoch": before["epoch"]} == before


def test_restored_forgets_what_the_lock_file_of_sqlite_remembers(cli, tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    fill(url, *some_entries())
    shutil.copy(tmp_path / "log.db", tmp_path / "backup")
    fill(url, *some_entries())
    shutil.copy(tmp_path / "backup", tmp_path / "log.db")
    assert cli("store", "check", url)[0] == 4
    assert cli("store", "restored", url)[0] == 0
    assert values(cli("store", "check", url)[1])["position"] == "30"


def test_check_prints_the_state_and_changes_nothing(cli, filled):
    code, out, err = cli("store", "check", filled)
    assert (code, err) == (0, [])
    found = values(out)
    assert {
        name: found[name] for name in ("position", "level", "checkpoint", "pending", "ended", "keys")
    } == {
        "position": "30",
        "level": "1",
        "checkpoint": "0",
        "pending": "10",
        "ended": "10",
        "keys": "10",
    }
    assert cli("store", "check", filled)[1] == out


def test_check_after_a_checkpoint_gives_the_same_digest(cli, filled):
    before = values(cli("store", "check", filled)[1])
    code, out, err = cli("store", "checkpoint", filled)
    assert (code, err) == (0, [])
    assert re.fullmatch(r"saved checkpoint 30: 30 entries more, \d+ bytes, \d+\.\d s\n", out)
    after = values(cli("store", "check", filled)[1])
    assert (after["checkpoint"], after["pending"], after["epoch"]) == (
        "30",
        before["pending"],
        before["epoch"],
    )


@pytest.mark.parametrize(
    "command", [["check"], ["checkpoint"], ["level"], ["export", "--journal", "j"]], ids=str
)
def test_a_damaged_entry_is_one_line_and_exit_code_4(cli, filled, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(filled, b"damage", SignalKey(key="k"))
    code, out, [line] = cli("store", *command, filled)
    assert (code, out) == (4, "")
    assert line.startswith(
        "purgatory: entry 31 is damaged: an entry must be JSON of a known kind, got b'damage'"
    )


def test_a_damaged_checkpoint_is_one_line_and_exit_code_4(cli, filled):
    async def spoil():
        async with opened(parsed(filled)) as (log, _):
            await log.save(30, each([b'{"k":"head"}\n']), keep=100)

    asyncio.run(spoil())
    code, out, [line] = cli("store", "check", filled)
    assert (code, out) == (4, "")
    assert line.startswith("purgatory: checkpoint 30 is damaged: ")


@pytest.mark.parametrize(
    "command", [["check"], ["checkpoint"], ["level"], ["export", "--journal", "j"]], ids=str
)
def test_a_log_that_is_missing_is_not_created(cli, url, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        code, out, [line] = cli("store", *command, url)
        assert (code, out) == (2, "")
        assert line.startswith("purgatory: there is no log at ")
        assert "run: purgatory store init" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "postgresql://me:hush@127.0.0.1:1/db"],
        ["check", "redis://:hush@127.0.0.1:1"],
        ["init", "postgresql://me:hush@127.0.0.1:1/db?name=X"],
        ["init", "redis://:hush@127.0.0.1:1", "--grant", "web"],
        ["init", "mysql://me:hush@h"],
        ["init", "sqlite:////nowhere/log.db"],
        ["init"],
        ["level", "sqlite:///log.db", "0"],
        ["export", "sqlite:///log.db"],
        ["check", "sqlite:///log.db?hush@"],
    ],
    ids=str,
)
def test_a_refusal_is_one_line_without_the_password(cli, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, [line] = cli("store", *arguments)
    assert (code, out) == (2, "")
    assert line.startswith("purgatory: ")
    assert ":hush" not in line
    assert list(tmp_path.iterdir()) == []


def test_the_url_can_be_in_the_environment(cli, filled, monkeypatch):
    monkeypatch.setenv("PURGATORY_STORE", filled)
    assert values(cli("store", "check")[1])["position"] == "30"


def test_a_level_is_raised_once_and_never_lowered(cli, filled, monkeypatch):
    assert cli("store", "level", filled) == (0, "1\n", [])
    code, _, [line] = cli("store", "level", filled, "4")
    assert (code, line) == (2, "purgatory: level must be at most 3 for this program, got 4; upgrade it first")
    assert cli("store", "level", filled, "2") == (0, "the log is at level 2, before at 1\n", [])
    assert cli("store", "level", filled, "2") == (0, "the log is at level 2\n", [])
    assert values(cli("store", "check", filled)[1])["position"] == "31"
    assert cli("store", "checkpoint", filled)[0] == 0
    code, _, [line] = cli("store", "level", filled, "1")
    assert code == 2
    assert "level must be at least the log's, 2, got 1" in line
    for module in (fold, restoring):
        monkeypatch.setattr(module, "LEVEL", 1)  # an older program
    code, _, [line] = cli("store", "check", filled)
    assert code == 2
    assert "checkpoint 31: a checkpoint's level must be at most 1, got 2; upgrade" in line


def test_grants_are_enough_for_a_worker_and_no_more(cli):
    need_postgres()
    server, role = shared(Postgres), f"web_{secrets.token_hex(4)}"
    url = f"{server.url}?name=log_{secrets.token_hex(6)}"
    code, out, _ = cli("store", "init", url)
    assert code == 0
    assert re.search(r"GRANT SELECT, UPDATE ON \S+_head TO \"ROLE\";", out)
    asyncio.run(sql(server.url, f"CREATE ROLE {role} LOGIN", "REVOKE ALL ON SCHEMA public FROM PUBLIC"))
    worker = parsed(url.replace("purgatory@", f"{role}@"))

    async def work():
        async with opened(worker) as (log, _):
            await append(log, *some_entries())
            await sql(
                worker.target, f"SELECT {worker.name}_signal('k1')", f"SELECT {worker.name}_put('q', '1')"
            )
            assert len(await read(log, 32)) == 32
            await log.save(30, each([b"state"]), keep=0)
            await log.save(31, each([b"state"]), keep=0)
            return await log.end()

    with pytest.raises(LogUnavailable):
        asyncio.run(sql(worker.target, f"SELECT * FROM {worker.name}_head"))
    code, out, err = cli("store", "init", url, "--grant", role)
    assert (code, err) == (0, [])
    assert f"{role} may run workers on " in out
    assert asyncio.run(work()) == 32
    with pytest.raises(LogUnavailable, match="must be owner of table"):
        asyncio.run(sql(worker.target, f"DROP TABLE {worker.name}_log"))


async def sql(url, *statements):
    """Run statements as a role."""
    from purgatory_async.cluster.postgres_admin import connected  # noqa: PLC0415 - needs an extra

    async with connected(parsed(url).target) as connection:
        for statement in statements:
            await connection.execute(statement)


def test_export_writes_a_journal_and_continues_it(cli, filled, tmp_path):
    code, out, err = cli("store", "export", filled, "--journal", str(tmp_path / "journal"))
    assert (code, err) == (0, [])
    assert out == f"exported 41 records up to position 30 to {tmp_path / 'journal'}\n"
    fill(filled, SignalKey(key="k1"))
    out = cli("store", "export", filled, "--journal", str(tmp_path / "journal"))[1]
    assert re.match(
        "exported [23] records up to position 31 ", out
    )  # end and signal; sizes if a second has passed
    kinds = [type(record) for record in read_journal(tmp_path / "journal")]
    assert [kinds.count(kind) for kind in (Submit, Signal, Outcome)] == [20, 11, 11]


def wait_for_records(directory, holds):
    until(lambda: directory.exists() and holds(list(read_journal(directory))), "a record")


@pytest.mark.slow
def test_a_killed_following_export_misses_and_doubles_nothing(made, tmp_path):
    journal = tmp_path / "journal"
    total = 0
    for number in range(3):
        entries = [entry.replace(b'"o', b'"%d-' % number) for entry in some_entries(60)]
        with purgatory("store", "export", made, "--journal", str(journal), "--follow") as process:
            fill(made, *entries)
            enough = total + 90 + 8 * number
            wait_for_records(journal, lambda records, enough=enough: len(records) > enough)
            process.kill()
        total += 120
    with purgatory("store", "export", made, "--journal", str(journal), "--follow") as process:
        fill(made, SignalKey(key="last"))
        wait_for_records(journal, lambda records: any(getattr(each, "key", "") == "last" for each in records))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert re.fullmatch(rf"exported \d+ records up to position {3 * 90 + 1} to \S+\n", out)
    records = list(read_journal(journal))
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert len({record.run_id for record in records}) == 1
    submitted = [record.op_id for record in records if isinstance(record, Submit)]
    ended = [record.op_id for record in records if isinstance(record, Outcome)]
    assert (len(submitted), len(set(submitted)), len(ended), len(set(ended))) == (180, 180, 90, 90)
