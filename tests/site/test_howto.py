"""The pages on backups, upgrades, moves and tokens, word for word on a machine with the kit and real stores."""

import json
from contextlib import closing

import pytest

from purgatory_async.client import Client
from tests.cluster.servers import Postgres, RedisServer, need_postgres, need_redis
from tests.processes import until
from tests.site.machine import HOWTO, Machine, sections

pytestmark = pytest.mark.slow

SHELL = sections((HOWTO / "runbook.md").read_text(encoding="utf-8"))["A shell"]
DATABASE = "@db.example/purgatory"  # of the URLs of several roles
REDIS = "redis://redis.example:6379/0"


def parts(name):
    return sections((HOWTO / name).read_text(encoding="utf-8"))


def client(machine, token="a-token-of-the-operator"):
    return Client(f"http://127.0.0.1:{machine.port}", token=token)


def pending(machine):
    with client(machine) as service:
        return {operation.id for operation in service.operations()}


def ask(machine, *names):
    with client(machine) as service:
        for name in names:
            service.attach(name, ask={"title": "Deploy?", "choices": ["yes", "no"]})


@pytest.fixture
def running(tmp_path):
    """Set up a machine whose service runs, and a root's shell on it."""
    opened = []

    def set_up(program="newer", **options):
        machine = Machine(tmp_path / f"m{len(opened)}", **options)
        opened.append(machine)
        machine.sh(f"cp /opt/purgatory/bin/purgatory.{program} /opt/purgatory/bin/purgatory")
        machine.sh("systemctl start purgatory")
        machine.follow(SHELL)
        return machine

    yield set_up
    for machine in opened:
        machine.__exit__()


def backed_up_and_restored(machine, section):
    """Follow a section whose first block backs up, and whose last restores; readers of what it loses get a gap."""
    ask(machine, "before", "also-before")
    with client(machine) as service:
        link = service.links("before").url.replace("8765", f"{machine.port}")
    assert machine.sh(f"curl -s -o /dev/null -w '%{{http_code}}' {link}") == "200"
    machine.follow(section, last=1)
    ask(machine, "lost")
    place = reads(machine, "now")["next"]
    assert pending(machine) == {"before", "also-before", "lost"}
    machine.follow(section, first=1)
    assert pending(machine) == {"before", "also-before"}
    assert reads(machine, place)["gap"]
    assert machine.sh(f"curl -s -o /dev/null -w '%{{http_code}}' {link}") == "404"


def reads(machine, since):
    """The answer to a reader of a key, once that is signalled."""
    with client(machine) as service:
        service.signal("a", 1)
    since = "0" if since == "now" else since
    return json.loads(machine.sh(f"ask '/v1/wait?key=a&since={since}'"))


def test_sqlite_is_backed_up_restored_and_rehearsed(running):
    machine = running()
    page = parts("backup.md")
    backed_up_and_restored(machine, page["SQLite"])
    machine.follow(page["Rehearse it"])
    machine.follow(parts("disk.md")["A ballast"])
    assert json.loads(machine.sh("curl -s $PURGATORY_URL/readyz"))["status"] == "ready"


def test_postgres_is_backed_up_and_restored(running):
    need_postgres()
    with closing(Postgres()) as server:
        server.start()
        machine = running(
            store=server.url, here={DATABASE: server.url.removeprefix("postgresql://purgatory")}
        )
        backed_up_and_restored(machine, parts("backup.md")["Postgres"])
        machine.follow(parts("postgres.md")["Roles and rights"])
        until(lambda: '"value":{}' in machine.sh("ask /v1/keys/order-42"), "the signal of a transaction")


def test_redis_is_backed_up_and_restored(running):
    need_redis()
    with closing(RedisServer()) as server:
        server.start()
        here = {REDIS: server.url, "/var/lib/redis": f"{server.folder}"}
        machine = running(store=server.url, servers={"redis-server": server}, here=here)
        backed_up_and_restored(machine, parts("backup.md")["Redis"])


def test_an_upgrade_keeps_what_waits_and_has_a_way_back(running):
    machine = running(program="earlier")
    page = parts("upgrade.md")
    machine.sh("(purgatory wait never --timeout 1h; echo ended with $?) &> waiting & disown")
    until(lambda: machine.sh("metrics purgatory_held").endswith("1.0\n"), "a wait")
    with client(machine) as service:
        service.submit(["never"], operation_id="kept")
    for part in (
        "1 Before",
        "2 Replace one",
        "3 Check",
        "The way back",
        "2 Replace one",
        "5 Raise the level",
    ):
        machine.follow(page[part])
    ask(machine, "asked")
    assert pending(machine) > {"kept", "asked"}
    machine.sh("purgatory signal never")
    until(lambda: machine.sh("cat waiting").endswith("ended with 0\n"), "its end")
    machine.sh(
        "cp /opt/purgatory/bin/purgatory.earlier /opt/purgatory/bin/purgatory; systemctl restart purgatory"
    )
    status = "systemctl show -p ExecMainStatus purgatory"
    until(lambda: machine.sh(status) == "ExecMainStatus=3\n", "the end of an earlier worker")


def test_tokens_and_secrets_are_rotated(running):
    machine = running()
    page = parts("rotate_tokens.md")
    ask(machine, "asked")
    with client(machine) as service:
        link = service.links("asked").url.replace("8765", f"{machine.port}")
    opens = f"curl -s -o /dev/null -w '%{{http_code}}' {link}"
    machine.follow(page["Under systemd"])
    machine.follow(page["By SIGHUP"])
    machine.follow(page["The link secret"], last=1)
    assert machine.sh(opens) == "200"
    machine.follow(page["The link secret"], first=1)
    assert machine.sh(opens) == "404"


def test_a_store_moves_to_postgres_with_all_that_waits(running):
    need_postgres()
    with closing(Postgres()) as server:
        server.start()
        machine = running(here={DATABASE: server.url.removeprefix("postgresql://purgatory")})
        ask(machine, "before", "also-before")
        for part, text in parts("move_to_postgres.md").items():
            if part != "The way back":
                machine.follow(text)
        assert pending(machine) == {"before", "also-before"}
