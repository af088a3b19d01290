"""Workers as processes on a SQLite file, whose disk is full or read-only."""

import pytest

from tests.disks import failing_file_system, fill, remount, small_file_system
from tests.processes import until

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path):
    """A file system of two megabytes."""
    with small_file_system(tmp_path / "disk", "2m") as where:
        yield where


def pending(worker):
    listed = worker.request("GET", "/v1/operations?key=never&limit=1000").json["operations"]
    return {operation["id"] for operation in listed}


def changed(worker, target, body=None):
    """Make a change, and again while a busy disk takes longer than the store's timeout."""
    until(lambda: worker.request("POST", target, body).status != 503, "the change")


def test_a_full_disk_refuses_changes_and_loses_none(worker, disk):
    store = f"sqlite:///{disk}/log.db"
    first = worker(store, "--store-timeout", "500ms").ready()
    polling = first.hold("GET", "/v1/keys/a?index=0&wait=40s")
    filler = fill(disk)
    answers = []

    def refused():
        order = {"id": f"o{len(answers)}", "keys": ["never"], "data": "x" * 20_000}
        answers.append(first.request("POST", "/v1/operations", order))
        return answers[-1].status != 202

    until(refused, "a refusal")
    assert (answers[-1].status, answers[-1].slug) == (503, "store-unavailable")
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 10
    until(lambda: first.request("GET", "/readyz").status == 503, "not ready")
    assert first.request("GET", "/readyz").json["reasons"] == ["store"]
    assert first.request("GET", "/healthz").status == 200
    assert not polling.over
    filler.unlink()
    first.ready()
    changed(first, "/v1/keys/a/signal", {"value": 1})
    assert polling.join().json["value"] == 1
    submitted = [f"o{number}" for number in range(len(answers))]
    kept = pending(first)
    assert set(submitted[:-1]) <= kept <= set(submitted)  # the one that was refused may have happened
    assert first.stop()[0] == 0
    assert pending(worker(store).ready()) == kept


def test_a_worker_waits_for_a_disk_that_is_read_only(worker, disk):
    store = f"sqlite:///{disk}/log.db"
    first = worker(store).ready()
    first.request("POST", "/v1/operations", {"id": "kept", "keys": ["never"]})
    first.stop()
    remount(disk, "ro")
    second = worker(store, "--store-timeout", "500ms")
    assert second.request("GET", "/readyz").json["reasons"] == ["store"]
    for method, target in (("POST", "/v1/keys/a/signal"), ("GET", "/v1/operations/kept")):
        answer = second.request(method, target)
        assert (answer.status, answer.slug) == (503, "store-unavailable")
    remount(disk, "rw")
    second.ready()
    assert pending(second) == {"kept"}
    changed(second, "/v1/keys/a/signal")


def test_a_disk_that_turns_read_only_loses_no_answer(worker, tmp_path):
    with failing_file_system(tmp_path / "disk") as disk:
        store = f"sqlite:///{disk.where}/log.db"
        first = worker(store, "--store-timeout", "500ms").ready()
        submitted = {f"o{number}" for number in range(20)}
        for name in submitted:
            changed(first, "/v1/operations", {"id": name, "keys": ["never"]})
        disk.fail()
        answer = first.request("POST", "/v1/keys/never/signal")
        assert (answer.status, answer.slug) == (503, "store-unavailable")
        until(lambda: first.request("GET", "/readyz").json.get("reasons") == ["store"], "not ready")
        assert first.stop()[0] == 0
        disk.mount_again()
        second = worker(store).ready()
        assert pending(second) == submitted
        second.stop()
