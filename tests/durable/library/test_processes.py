"""Applications with a `Durable` and a service, each a process, on one store."""

from contextlib import ExitStack

import pytest

from tests.durable.checkpoints.conftest import url_on
from tests.durable.library.application import Application
from tests.processes import PATIENCE_S, Served, until

pytestmark = pytest.mark.slow
ASK = {"title": "Go?", "choices": ["yes", "no"]}


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def store(request, tmp_path):
    return url_on(request.param, tmp_path)


@pytest.fixture
def started():
    """Start processes, which are killed at the end."""
    with ExitStack() as stack:
        yield stack.enter_context


def same_digest(served, *applications):
    """Wait until all are at one position; they have one digest then."""

    def compared():
        found = [application.call("digest") for application in applications]
        stats = served.request("GET", "/v1/admin/stats?digest=1")
        found.append(
            [
                stats.headers["x-purgatory-epoch"],
                int(stats.headers["x-purgatory-position"]),
                stats.json["digest"],
            ]
        )
        places = {tuple(each[:2]) for each in found}
        return found if len(places) == 1 else None

    assert len({each[2] for each in until(compared, "one position")}) == 1


def takers_of(queue, application):
    """How many wait in line, as an application sees it; None while there is no such queue."""
    found = application.call("queue", queue)
    return None if found == ["refused", 404, "unknown-queue"] else found["takers"]


def test_two_applications_and_a_service_have_one_state(store, started):
    here, there = started(Application(store, owner="ann")).ready(), started(Application(store)).ready()
    served = started(Served("--store", store, "--jitter", "0")).ready()
    asking = here.start("ask", "a", **ASK)
    assert there.call("follow", "b") == ["refused", 404, "unknown-operation"]
    until(lambda: served.request("GET", "/v1/operations/a").status == 200, "the question")
    held = served.hold("GET", "/v1/operations/a?wait=40s")
    everywhere = [here.start("follow", "a"), there.start("follow", "a"), there.start("ask", "a", **ASK)]
    assert served.request("POST", "/v1/operations/a/answer", {"choice": "yes", "by": "bob"}).status == 200
    for each in (asking, *everywhere[:2]):
        assert each.result(PATIENCE_S)["by"] == "bob"
    assert everywhere[2].result(PATIENCE_S) == ["refused", 409, "duplicate-id"]  # it is ann's
    assert held.join().json["result"] == {"choice": "yes"}
    there.call("attach", "c", ask=ASK)
    held = served.hold("GET", "/v1/operations/c?wait=40s")
    waiting = here.start("follow", "c")
    assert there.call("answer", "c", "no")["by"] is None
    assert (held.join().json["state"], waiting.result(PATIENCE_S)["result"]) == (
        "completed",
        {"choice": "no"},
    )
    assert here.call("answer", "c", "yes") == ["refused", 409, "already-ended"]
    assert served.request("POST", "/v1/operations/c/answer", {"choice": "yes"}).slug == "already-ended"
    for number in range(50):
        each = (here, there)[number % 2]
        each.start("submit", ["k"], operation_id=f"s-{number}", timeout=600)
        served.request("POST", "/v1/keys/k/signal", {"value": number})
    same_digest(served, here, there)
    assert "ERROR" not in here.leave() + there.leave()
    assert served.stop()[0] == 0


def test_a_process_that_was_killed_holds_nothing_back(store, started):
    here, there = started(Application(store)).ready(), started(Application(store)).ready()
    here.call("put", "q", 1)
    lease = here.call("take", "q", lease=2)
    lines = [here.start("take", "empty", timeout=None) for _ in range(3)]
    asking = here.start("ask", "a", **ASK)
    here.call("submit", operation_id="due", timeout=1)
    until(lambda: takers_of("empty", there) == 3, "its takers")
    until(lambda: there.call("operations", id_prefix="a"), "its question")
    here.kill()
    assert not any(each.done() for each in (*lines, asking))
    assert there.call("follow", "due")["state"] == "expired"
    again = there.call("take", "q", timeout=None)  # once the lease is over
    assert (again["item"], again["attempts"], again["id"] == lease["id"]) == (1, 2, False)
    until(lambda: takers_of("empty", there) is None, "the end of its lines, and so of the queue")
    there.call("put", "empty", 2)
    assert there.call("take", "empty")["item"] == 2
    assert there.call("answer", "a", "yes")["result"] == {"choice": "yes"}
    third = started(Application(store)).ready()
    assert third.call("ask", "a", **ASK)["result"] == {"choice": "yes"}
