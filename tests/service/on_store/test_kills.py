"""Workers that are killed, stopped and started again, as processes on one file."""

import asyncio
import http.client
import itertools
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from purgatory_async.cluster.nudges import LARGEST
from purgatory_async.durable.checkpoints.checkpointing import checkpoint
from purgatory_async.durable.urls import parsed
from tests.processes import PATIENCE_S, Pending, Served, until

pytestmark = pytest.mark.slow
SIGNALS = 2000


def test_all_that_was_answered_survives_a_kill(worker, file_store):
    first = worker(file_store).ready()
    first.request("POST", "/v1/operations", {"id": "kept", "keys": ["a"]}, {"Idempotency-Key": "once"})
    first.request("POST", "/v1/operations", {"id": "due", "keys": ["a"], "timeout": 0.2})
    index = first.request("POST", "/v1/keys/b/signal", {"value": 5}).json["index"]
    first.request("POST", "/v1/queues/q/items", {"item": "leased"})
    lease = first.request("POST", "/v1/queues/q/take").json["lease"]
    first.request("POST", "/v1/queues/q/items", {"item": "kept"})
    code, _ = first.kill()
    assert code == -signal.SIGKILL
    time.sleep(0.3)
    second = worker(file_store).ready()
    assert second.request("GET", "/v1/operations/kept").json["state"] == "pending"
    assert second.request("GET", "/v1/operations/due?wait=40s").json["state"] == "expired"
    again = second.request(
        "POST", "/v1/operations", {"id": "kept", "keys": ["a"]}, {"Idempotency-Key": "once"}
    )
    assert (again.json["id"], again.headers["idempotency-replayed"]) == ("kept", "true")
    key = second.request("GET", "/v1/keys/b").json
    assert (key["index"], key["value"]) == (index, 5)
    assert second.request("POST", "/v1/queues/q/take").json["item"] == "kept"
    assert second.request("POST", f"/v1/leases/{lease}/return").status == 204
    assert second.request("POST", "/v1/queues/q/take").json["item"] == "leased"


def test_a_take_whose_worker_was_killed_is_sent_to_another(worker, file_store):
    here, there = worker(file_store).ready(), worker(file_store).ready()
    once = {"Idempotency-Key": "once"}
    here.request("POST", "/v1/queues/q/items", {"items": [{"item": 1}, {"item": 2}]})
    lease = here.request("POST", "/v1/queues/q/take", {"lease": 600}, once).json["lease"]
    here.kill()
    for each in (there, worker(file_store).ready()):
        again = each.request("POST", "/v1/queues/q/take?wait=5s", {"lease": "10m"}, once)
        assert (again.json["lease"], again.json["item"], again.json["attempts"]) == (lease, 1, 1)
        assert again.headers["idempotency-replayed"] == "true"
    assert there.request("POST", f"/v1/leases/{lease}/ack").status == 204
    assert there.request("POST", "/v1/queues/q/take", {"lease": 600}, once).json["item"] == 2


def test_all_workers_killed_at_once_find_all_again(worker, file_store):
    workers = [worker(file_store).ready() for _ in range(3)]
    indexes, leases = [], []
    for number, each in enumerate(workers):
        each.request("POST", "/v1/operations", {"id": f"later{number}", "keys": ["k"], "timeout": 600})
        indexes.append(each.request("POST", f"/v1/keys/s{number}/signal", {"value": number}).json["index"])
        each.request("POST", "/v1/queues/q/items", {"item": number})
        leases.append(each.request("POST", "/v1/queues/q/take", {"lease": 600}).json["lease"])
    workers[0].request("POST", "/v1/queues/q/items", {"item": "kept"})
    for number, each in enumerate(workers):
        each.request("POST", "/v1/operations", {"id": f"due{number}", "keys": ["k"], "timeout": 0.5})
    for each in workers:
        each.send(signal.SIGKILL)
    for each in workers:
        each.end()
    with ThreadPoolExecutor() as pool:
        list(pool.map(Served.start, workers))
    for each in workers:
        each.ready()
        for number in range(3):
            due = each.request("GET", f"/v1/operations/due{number}?wait=40s").json
            assert due["state"] == "expired"
            assert 0.5 <= due["elapsed"] <= 0.502  # in log time; by the clock it may be later
            assert each.request("GET", f"/v1/operations/later{number}").json["state"] == "pending"
            found = each.request("GET", f"/v1/keys/s{number}").json
            assert (found["index"], found["value"]) == (indexes[number], number)
    for each, lease in zip(workers, leases, strict=True):
        assert each.request("POST", f"/v1/leases/{lease}/ack").status == 204
    assert workers[2].request("POST", "/v1/queues/q/take").json["item"] == "kept"
    assert workers[1].request("POST", "/v1/queues/q/take").status == 204


def test_requests_go_on_at_another_worker_after_a_kill(worker, file_store):
    first, second = worker(file_store).ready(), worker(file_store).ready()
    first.request("POST", "/v1/operations", {"id": "a", "keys": ["a"], "timeout": 1})
    polling = first.hold("GET", "/v1/operations/a?wait=30s")
    first.kill()
    with pytest.raises((OSError, http.client.HTTPException)):
        polling.join()
    answer = second.request("GET", "/v1/operations/a?wait=30s")
    assert answer.json["state"] == "expired"


def test_an_item_lent_to_a_killed_worker_comes_back(worker, file_store):
    first, second = worker(file_store).ready(), worker(file_store).ready()
    first.request("POST", "/v1/queues/q/items", {"item": 1})
    assert first.request("POST", "/v1/queues/q/take", {"lease": 0.5}).json["item"] == 1
    first.kill()
    assert second.request("POST", "/v1/queues/q/take?wait=30s").json["item"] == 1


def test_a_stopped_worker_lines_its_takers_up_again(worker, file_store):
    first, second = worker(file_store).ready(), worker(file_store).ready()
    taking = first.hold("POST", "/v1/queues/q/take?wait=40s")
    first.send(signal.SIGSTOP)
    try:

        def left():
            second.request("POST", "/v1/keys/time/signal")
            return second.counts()["takers"] == 0

        until(left, "the taker's leave")
    finally:
        first.send(signal.SIGCONT)
    until(lambda: second.counts()["takers"] == 1, "the taker's return")
    second.request("POST", "/v1/queues/q/items", {"item": 1})
    assert taking.join().json["item"] == 1


def test_of_two_workers_one_submits_an_id(worker, file_store):
    workers = [worker(file_store).ready(), worker(file_store).ready()]
    for number in range(20):
        statuses = [
            each.join().status
            for each in [
                Pending(each, "POST", "/v1/operations", {"id": f"o{number}", "keys": ["a"]})
                for each in workers
            ]
        ]
        assert sorted(statuses) == [202, 409]


def test_a_stop_leaves_operations_pending(worker, file_store):
    first = worker(file_store).ready()
    first.request("POST", "/v1/operations", {"id": "a", "keys": ["a"]})
    polling = first.hold("GET", "/v1/operations/a?wait=40s")
    taking = first.hold("POST", "/v1/queues/q/take?wait=40s")
    code, _ = first.stop()
    assert code == 0
    assert [(each.join().status, each.join().slug) for each in (polling, taking)] == [(503, "draining")] * 2
    second = worker(file_store).ready()
    assert second.request("GET", "/v1/operations/a").json["state"] == "pending"
    assert second.counts()["takers"] == 0


def ask(workers, *request):
    """Ask the workers until one answers; return its success."""
    for each in itertools.cycle(workers):
        with suppress(OSError, http.client.HTTPException):
            reply = each.request(*request)
            if reply.status in {200, 204}:
                return reply
    raise AssertionError("unreachable")


def follow(workers, last, got):
    """Note the values of all signals up to the last one."""
    since = "0"
    while not got or got[-1] != last:
        reply = ask(workers, "GET", f"/v1/wait?prefix=a&since={since}&wait=1s&limit=5")
        since = f"{reply.headers['x-purgatory-epoch']}-{reply.headers['x-purgatory-index']}"
        if reply.status == 200:
            assert not reply.json["gap"]
            got += [signal["value"] for signal in reply.json["signals"]]


def signal_all(workers):
    for number in range(SIGNALS):
        target = f"/v1/keys/a{number % 7}/signal"
        ask(workers, "POST", target, {"value": number}, {"Idempotency-Key": str(number)})


def test_a_follower_sees_each_signal_once_through_kills(worker, file_store):
    workers = [worker(file_store, "--keep-signals", str(SIGNALS)).ready() for _ in range(2)]
    got = []
    follower = threading.Thread(target=follow, args=(workers, SIGNALS - 1, got), daemon=True)
    signaller = threading.Thread(target=signal_all, args=(workers,), daemon=True)
    follower.start()
    signaller.start()
    kills = 0
    while signaller.is_alive():
        victim = random.choice(workers)
        victim.kill()
        victim.start().ready()
        kills += 1
    follower.join(PATIENCE_S)
    assert got == list(range(SIGNALS))
    assert kills > 1


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one", "two"])
def test_a_drain_leaves_operations_pending(worker, file_store, flags):
    first = worker(file_store, *flags).ready()
    first.request("POST", "/v1/operations", {"id": "a", "keys": ["a"]})
    polling = first.hold("GET", "/v1/operations/a?wait=40s")
    taking = first.hold("POST", "/v1/queues/q/take?wait=40s")
    assert first.request("POST", "/v1/admin/drain").json["released"] == 2
    assert [(each.join().status, each.join().slug) for each in (polling, taking)] == [(503, "draining")] * 2
    assert first.request("GET", "/v1/operations/a").json["state"] == "pending"
    assert first.stop()[0] == 0
    second = worker(file_store, *flags).ready()
    assert second.request("GET", "/v1/operations/a").json["state"] == "pending"
    assert second.counts()["takers"] == 0
    polling = second.hold("GET", "/v1/operations/a?wait=40s")
    second.request("POST", "/v1/keys/a/signal")
    assert polling.join().json["state"] == "completed"


def test_a_worker_behind_the_oldest_entry_loads_its_state(worker, file_store):
    here, other = worker(file_store).ready(), worker(file_store).ready()
    other.request("POST", "/v1/operations", {"id": "a", "keys": ["a"]})
    targets = ("/v1/operations/a?", "/v1/keys/a?index=0&", "/v1/wait?key=a&", "/v1/keys/b?index=0&")
    by_id, by_key, once, later = [here.hold("GET", f"{target}wait=40s") for target in targets]
    here.send(signal.SIGSTOP)
    try:
        for value in range(3):  # too long for a nudge, which would bring them
            other.request("POST", "/v1/keys/a/signal", {"value": [value, "x" * LARGEST]})
        asyncio.run(checkpoint(parsed(file_store), keep=0))
    finally:
        here.send(signal.SIGCONT)
    assert by_id.join().json["state"] == "completed"
    assert by_key.join().json["value"][0] == 2
    assert (once.join().status, once.join().slug) == (503, "gap")
    assert not later.over
    other.request("POST", "/v1/keys/b/signal", {"value": 3})
    assert later.join().json["value"] == 3
