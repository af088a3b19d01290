"""The settings of a store and of several workers: what is refused, and that no password is shown."""

from pathlib import Path

import pytest

from purgatory_async.cli import commands
from purgatory_async.durable.store_url import StoreUrl
from purgatory_async.service.app import create_app
from purgatory_async.service.settings.settings import Settings, SettingsError, resolve

SECRET = "hunter2"
STORE = "sqlite:///state.db"


def refusal(**flags):
    with pytest.raises(SettingsError) as refused:
        resolve(file={}, environment={}, flags=flags)
    return str(refused.value)


def test_the_state_is_in_memory_unless_a_store_is_given():
    settings = Settings()
    assert (str(settings.store), settings.store.in_memory) == ("memory", True)
    assert (settings.store_sync, settings.store_timeout, settings.workers) == ("always", 5.0, 1)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///state.db",
        "sqlite:////var/lib/purgatory/state of@today.db",
        f"postgresql://app:{SECRET}@db:5432/orders?name=a",
        "postgresql:///orders",
        "postgres://db/orders",
        "redis://db:6379/0?wait=1",
        f"rediss://:{SECRET}@db/0",
        "unix:///run/redis.sock?db=2",
    ],
)
def test_each_engine_has_its_url(url):
    settings = resolve(
        file={"store": "memory"}, environment={"PURGATORY_STORE": url}, flags={"workers": "64"}
    )
    assert (settings.store.url, settings.store.in_memory) == (url, False)


@pytest.mark.parametrize(
    ("url", "bound"),
    [
        ("mysql://db", "must be one of memory, sqlite:///PATH, postgresql://HOST/DATABASE, redis://"),
        ("", "must be one of memory, sqlite:///PATH"),
        ("state.db", "must be one of memory, sqlite:///PATH"),
        ("sqlite://state.db", "must be sqlite:///PATH, got"),
        ("sqlite:///", "must be sqlite:///PATH, got"),
        ("sqlite:///log.db?name=o", "must be sqlite:///PATH, got"),
        ("redis://db:none/0", "must have a host, and a port up to 65535, got"),
        (
            f"postgresql://app:{SECRET}",
            "must have a host, and a port up to 65535, got 'postgresql://app:***'",
        ),
        ("redis:///0", "must be redis://HOST:PORT/0, got"),
        ("unix://", "must be unix://PATH of a Redis server, got"),
        ("redis://db\n/0", "must be redis://HOST:PORT/0, got"),
        (7, "must be memory or a URL, got 7"),
    ],
)
def test_another_url_is_refused_with_the_form_it_needs(url, bound):
    message = refusal(store=url)
    assert message.startswith(f"store in the command line: {bound}")
    assert "\n" not in message


def test_a_setting_shows_no_password_anywhere(capsys, monkeypatch):
    monkeypatch.setenv("PURGATORY_STORE", f"postgresql://app:{SECRET}@db/a")
    assert commands.run(["config"]) == 0
    assert commands.run(["config", "--journal", "journal"]) == 2
    monkeypatch.setenv("PURGATORY_STORE", f"mysql://app:{SECRET}@db/a")
    assert commands.run(["config"]) == 2
    out, err = capsys.readouterr()
    assert "postgresql://app:***@db/a" in out
    assert "purgatory store export 'postgresql://app:***@db/a' --journal journal" in err
    assert "got 'mysql://app:***@db/a'" in err
    assert SECRET not in out + err + repr(Settings(store=StoreUrl(f"redis://:{SECRET}@db/0")))


@pytest.mark.parametrize(
    "value",
    [
        [f"postgresql://u:{SECRET}@h/db"],
        {"url": f"postgresql://u:{SECRET}@h/db"},
        {"password": SECRET},
        f"sqlite://user:{SECRET}@/x",
        f"sqlite:///x?password={SECRET}",
        f"host=db user=app password={SECRET}",
        f"db:5432:orders:app:{SECRET}",
    ],
)
@pytest.mark.parametrize("name", ["store", "port", "max_wait", "workers", "insecure"])
def test_a_malformed_value_shows_no_password(name, value):
    with pytest.raises(SettingsError) as refused:
        resolve(file={name: value}, environment={}, flags={})
    assert SECRET not in str(refused.value)
    assert "***" in str(refused.value)


def test_a_url_in_the_wrong_place_shows_no_password(capsys):
    assert commands.run(["serve", f"postgresql://app:{SECRET}@db/a"]) == 2
    err = capsys.readouterr().err
    assert "postgresql://app:***@db/a" in err
    assert SECRET not in err


def test_several_workers_need_a_store():
    assert refusal(workers="2") == (
        "workers must be 1 with the store memory, got 2; give --store sqlite:///PATH"
    )
    assert Settings(workers=2, store=STORE).workers == 2


@pytest.mark.parametrize("number", ["0", "65", "two"])
def test_the_number_of_workers_has_bounds(number):
    assert "must be an integer from 1 to 64, got" in refusal(workers=number, store=STORE)


def test_a_store_excludes_a_journal():
    message = refusal(store=STORE, journal=Path("records of today"))
    assert message == (
        "journal must be none with a store, got 'records of today'; "
        "run: purgatory store export sqlite:///state.db --journal 'records of today'"
    )


@pytest.mark.parametrize("sync", ["always", "os"])
def test_the_store_is_synced_always_or_by_the_system(sync):
    assert Settings(store_sync=sync).store_sync == sync
    assert "must be one of always, os, got 'group'" in refusal(store_sync="group")


@pytest.mark.asyncio
async def test_a_store_in_a_missing_folder_is_refused_at_once():
    with pytest.raises(SettingsError, match="store: the folder of the store must exist, got /nowhere"):
        create_app(Settings(store=StoreUrl("sqlite:////nowhere/log.db")))
