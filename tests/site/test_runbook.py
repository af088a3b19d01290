"""The runbook, word for word: each section in the trouble that it is for, on a machine with the kit."""

import json
import os
import re
import signal
from contextlib import closing
from datetime import timedelta

import pytest
import yaml

from purgatory_async.client import Client
from purgatory_async.durable.documents.problems import Kind
from purgatory_async.service.contract.http_problems import HttpKind
from tests.cluster.servers import Postgres, need_postgres
from tests.disks import fill, small_file_system
from tests.pages import links
from tests.processes import until
from tests.site.machine import HOWTO, KIT, Machine, sections

PAGE = (HOWTO / "runbook.md").read_text(encoding="utf-8")
PARTS = sections(PAGE)
RULES = [
    rule
    for group in yaml.safe_load((KIT / "prometheus/alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
# What a healthy service with something in it has to show.
QUIET = [
    *("PurgatoryRestarting", "PurgatoryNearLimit", "PurgatoryRefusing", "PurgatoryLoopBlocked"),
    *("PurgatoryExpiringLate", "PurgatoryGaps", "PurgatoryItemsWait", "PurgatoryDeadItems"),
    *("PurgatoryQuestionWaits", "PurgatoryNearFileLimit", "Stuck clients", "Too many waiters"),
]
IN_TROUBLE = [
    *("A shell", "Change a setting", "PurgatoryDown", "PurgatoryWorkerDown", "PurgatoryFailing"),
    *("PurgatoryStoreAway", "PurgatoryJournal", "A full disk", "A damaged store"),
]


def anchor(heading):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_each_alert_has_its_section_and_names_it():
    for rule in RULES:
        assert rule["alert"] in PARTS
        named = f".github/site/howto/runbook.md#{anchor(rule['alert'])}"
        assert rule["annotations"]["runbook"] == named
    assert {part for part in PARTS if part.startswith("Purgatory")} == {rule["alert"] for rule in RULES}


def test_each_section_of_an_alert_has_the_same_parts():
    for rule in RULES:
        for part in ("**Users see**", "**Look**", "**Do**"):
            assert part in PARTS[rule["alert"]], rule["alert"]


def test_each_block_of_the_runbook_is_run_by_a_test():
    assert {part for part, text in PARTS.items() if "```sh" in text} == {*QUIET, *IN_TROUBLE}


def test_each_refusal_with_429_or_503_has_its_row():
    rows = PARTS["Which limit refuses"]
    for kind in (*Kind, *HttpKind):
        assert (f"`{kind.slug}`" in rows) == (kind.status in {429, 503}), kind


@pytest.mark.parametrize("page", sorted(HOWTO.glob("*.md")), ids=lambda page: page.name)
def test_a_link_of_a_howto_leads_to_a_heading(page):
    for link in links(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        path, _, wanted = link.partition("#")
        leads = page.parent / path if path else page
        assert leads.exists(), link
        if wanted:
            headings = re.findall(r"^#+ (.+)$", leads.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert wanted in map(anchor, headings), link


@pytest.fixture
def machine(tmp_path):
    """Set up a machine, and a root's shell on it, once what is in `begin` has happened."""
    opened = []

    def set_up(begin="systemctl start purgatory", **options):
        made = Machine(tmp_path / f"m{len(opened)}", **options)
        opened.append(made)
        made.sh(begin)
        made.follow(PARTS["A shell"])
        return made

    yield set_up
    for made in opened:
        made.__exit__()


def client(machine, token="a-token-of-the-operator"):
    return Client(f"http://127.0.0.1:{machine.port}", token=token)


@pytest.mark.slow
def test_a_quiet_service_shows_what_the_runbook_shows(machine):
    here = machine()
    with client(here) as admin, client(here, "a-token-of-the-shop") as shop:
        admin.attach("deploy-77", ask={"title": "Deploy 77?", "choices": ["yes", "no"]})
        shop.submit(["orders/7"], operation_id="order")
        shop.submit(["orders/7"])
        admin.set_queue("mail", max_attempts=1)
        admin.put("mail", {"to": "ann"})
        admin.give_back(admin.take("mail", timeout=0))
        admin.put("mail", {"to": "bob"})
        for part in QUIET:
            here.follow(PARTS[part])
        assert shop.status("order").state == "pending"
    here.follow(PARTS["Change a setting"])


@pytest.mark.slow
def test_a_refused_start_a_silent_worker_and_a_fault(machine):
    spoil = "sed -i 's/ wait,/ wiat,/' /etc/purgatory/tokens; systemctl start purgatory"
    here = machine(spoil, flags="--workers 2")
    here.follow(PARTS["PurgatoryDown"])
    number = here.sh("log | grep '\"worker started\"' | jq -r 'select(.worker == 2) | .pid'")
    os.kill(int(number.split()[-1]), signal.SIGSTOP)
    here.follow(PARTS["PurgatoryWorkerDown"])
    # No request of a sound service fails: its record is written by hand, as `Application` writes it.
    record = {"message": "request failed", "request_id": "r-1", "path": "/v1/keys/a", "level": "error"}
    record["exception"] = "Traceback (most recent call last):\n  ...\nZeroDivisionError"
    with here.log.open("a") as log:
        log.write(json.dumps(record) + "\n")
    here.follow(PARTS["PurgatoryFailing"])


@pytest.mark.slow
def test_a_store_that_stops_is_seen_and_started(machine):
    need_postgres()
    with closing(Postgres()) as server:
        server.start()
        here = machine(store=server.url, flags="--store-timeout 500ms", servers={"postgresql": server})
        here.sh("ready; systemctl stop postgresql; purgatory signal a")
        until(lambda: here.sh("log | grep 'the store does not serve'"), "a line in the log")
        here.follow(PARTS["PurgatoryStoreAway"])
        assert len(here.sh("log | grep 'the store does not serve'").splitlines()) == 1


@pytest.mark.slow
def test_a_full_disk_of_the_store_heals_by_the_ballast(machine, tmp_path):
    with small_file_system(tmp_path / "disk", "16m") as disk:
        here = machine(state=disk, flags="--store-timeout 500ms")
        steps = PARTS["A full disk"].split("4. Put the ballast back.")
        here.follow(steps[1])
        fill(disk)
        here.sh(f"purgatory put mail {'x' * 100_000}; purgatory put mail {'x' * 100_000}")
        until(lambda: '"full"' in here.sh("ask /readyz"), "a full disk")
        here.follow(steps[0])
        told = here.sh("log | grep 'the store does not serve'").splitlines()
        assert ["its disk is full" in each for each in told] == [True]


@pytest.mark.slow
def test_a_full_disk_of_the_journal_heals_by_the_ballast(machine, tmp_path):
    with small_file_system(tmp_path / "disk", "16m") as disk:
        disk.chmod(0o755)
        begin = "fallocate -l 4M /var/lib/purgatory-journal/ballast; systemctl start purgatory"
        here = machine(
            begin,
            store="",
            flags="--journal /var/lib/purgatory-journal --journal-sync always",
            here={"/var/lib/purgatory-journal": f"{disk}"},
        )
        fill(disk)
        signal_a = "curl -s -X POST -H @credential $PURGATORY_URL/v1/keys/a/signal"
        here.sh('echo "Authorization: Bearer $PURGATORY_TOKEN" > credential')
        until(lambda: "No space left" in here.sh(signal_a), "a refusal")
        here.follow(PARTS["PurgatoryJournal"])
        told = here.sh("log | grep 'No space left'").splitlines()
        assert len(told) == 1


@pytest.mark.slow
def test_a_damaged_store_is_kept_and_restored(machine):
    here = machine()
    with client(here) as service:
        service.submit(["a"], operation_id="kept", timeout=timedelta(days=1))
        here.sh("sqlite3 /var/lib/purgatory/purgatory.db '.backup /var/lib/purgatory/backup.db'")
        for number in range(20):
            service.signal("b", number)
    here.sh("systemctl stop purgatory")
    database = here.state / "purgatory/purgatory.db"
    database.write_bytes(re.sub(rb'"b"', b'"c"', database.read_bytes()))
    here.sh("systemctl start purgatory")
    until(lambda: "=3" in here.sh("systemctl show -p ExecMainStatus purgatory"), "its end")
    here.follow(PARTS["A damaged store"])
    with client(here) as service:
        assert service.status("kept").state == "pending"
