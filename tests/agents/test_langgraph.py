"""The LangGraph thread of the examples: it waits while no process of it runs, and its effect happens once."""

import signal
import sqlite3
from contextlib import closing

import pytest

from tests.agents.running import EXAMPLES, need, press
from tests.processes import until

pytestmark = pytest.mark.slow

THREAD = "refund-42"
KILLED = -signal.SIGKILL
# Its commands, which die at a moment of the killer's choice.
DYING = """
import asyncio, os, signal, sys
import langgraph_approval as approval
approval.LEASE_S = 1.0
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def dying(function, before):
    async def call(*arguments, **named):
        if before:
            die()
        answer = await function(*arguments, **named)
        die()
        return answer
    return call
verb, where, moment, *arguments = sys.argv[1:]
carrier = approval.AsyncClient if where.startswith("http") else approval.Durable
moments = {
    "before the question": (carrier, "attach", True),
    "after the question": (carrier, "attach", False),
    "after the interrupt": (carrier, "links", True),
    "before the effect": (approval, "pay", True),
    "after the effect": (approval, "pay", False),
    "before the end": (carrier, "acknowledge", True),
}
if moment in moments:
    owner, name, before = moments[moment]
    setattr(owner, name, dying(getattr(owner, name), before))
asyncio.run(approval.main(verb, where, *arguments))
"""


@pytest.fixture(autouse=True)
def sdk():
    need("langgraph", "aiosqlite", "msgspec", "structlog")


class Approval:
    """The example's commands over a carrier, in the scene's folder."""

    def __init__(self, scene, carrier):
        self.scene = scene
        self.links = "already-ended" if carrier == "service" else "links-off"
        self._where = scene.served.address if carrier == "service" else scene.store

    def run(self, verb, *arguments, dies="never"):
        return self.scene.start("-c", DYING, verb, self._where, dies, *arguments)

    def ask(self, dies="never"):
        return self.run("ask", THREAD, "900", dies=dies).end()

    def answer(self, choice):
        """Answer by a link."""
        made = self.scene.served.request("POST", f"/v1/operations/{THREAD}/links", {"by": "Ann"})
        press(made.json["url"], choice)

    def payments(self):
        with closing(sqlite3.connect(self.scene.folder / "threads.db")) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE name = 'payments'").fetchall()
            return database.execute("SELECT * FROM payments").fetchall() if tables else []

    def done(self, worker, outcome):
        """Wait until a worker has finished the thread, and nothing is left in the queue."""
        assert worker.says(f"{THREAD}: ") == outcome
        until(lambda: self.scene.left("threads") == 0, "an empty queue")


@pytest.fixture(params=["service", "sqlite"])
def approval(request, stage):
    return Approval(stage(), request.param)


@pytest.mark.parametrize(("choice", "payments"), [("yes", [(THREAD, 900)]), ("no", [])])
def test_another_process_goes_on_with_the_answer(approval, choice, payments):
    assert approval.ask()[0] == 0
    approval.answer(choice)
    approval.done(approval.run("work"), choice)
    assert approval.payments() == payments


def test_a_thread_that_waits_is_asked_about_once(approval):
    worker = approval.run("work")
    for _ in range(2):
        assert approval.ask()[0] == 0
    approval.answer("yes")
    approval.done(worker, "yes")
    assert approval.ask() == (0, [approval.links])
    assert approval.payments() == [(THREAD, 900)]


def test_an_interrupt_expires(approval):
    assert approval.ask()[0] == 0
    reschedule = f"/v1/operations/{THREAD}/reschedule"
    assert approval.scene.served.request("POST", reschedule, {"timeout": "1ms"}).status == 200
    approval.done(approval.run("work"), "expired")
    assert approval.payments() == []


@pytest.mark.parametrize("moment", ["before the question", "after the question", "after the interrupt"])
def test_an_asker_may_be_killed_anywhere(approval, moment):
    assert approval.ask(dies=moment)[0] == KILLED
    if moment == "before the question":
        assert approval.ask()[0] == 0  # to ask again is the caller's part
    approval.answer("yes")
    approval.done(approval.run("work"), "yes")
    assert approval.payments() == [(THREAD, 900)]


@pytest.mark.parametrize(
    "moment", ["after the question", "before the effect", "after the effect", "before the end"]
)
def test_a_worker_may_be_killed_anywhere(approval, moment):
    assert approval.ask()[0] == 0
    approval.answer("yes")
    assert approval.run("work", dies=moment).end()[0] == KILLED
    approval.done(approval.run("work"), "yes")
    assert approval.payments() == [(THREAD, 900)]


def test_of_two_workers_one_may_be_killed(approval):
    assert approval.ask()[0] == 0
    first = approval.run("work", dies="before the effect")
    approval.answer("yes")
    second = approval.run("work")
    approval.done(second, "yes")
    first.kill()
    assert approval.payments() == [(THREAD, 900)]


def test_a_thread_waits_in_postgres_as_well(stage):
    approval = Approval(stage("postgres"), "postgres")
    assert approval.ask()[0] == 0
    assert approval.run("work", dies="after the effect").process.poll() is None
    approval.answer("yes")
    approval.done(approval.run("work"), "yes")
    assert approval.payments() == [(THREAD, 900)]


def test_the_example_starts_as_its_docstring_says(stage):
    scene = stage()
    program = (EXAMPLES / "langgraph_approval.py", "ask", scene.served.address, THREAD, "900")
    code, (link,) = scene.start(*program).end()
    assert code == 0
    press(link, "yes")
    worker = scene.start(EXAMPLES / "langgraph_approval.py", "work", scene.served.address)
    assert worker.says(f"{THREAD}: ") == "yes"
