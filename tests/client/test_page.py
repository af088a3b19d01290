"""The clients' page lists every method, and its programs do what it says against a service."""

import asyncio
import datetime as dt
import re
from contextlib import suppress
from functools import partial

import httpx2
import pytest

from purgatory_async.client import AsyncClient, AsyncVerbs, Client
from purgatory_async.testing import settle
from tests.client.queues_in_memory import QueuesInMemory
from tests.client.test_clients import public
from tests.client.test_over_sockets import running
from tests.ports import free_port
from tests.processes import PATIENCE_S, Served, until
from tests.source_tree import ROOT

PAGE = (ROOT / "purgatory_async" / "client" / "README.md").read_text(encoding="utf-8")


def test_the_page_lists_every_method():
    table = PAGE[PAGE.index("| for | methods") :].partition("\n\n")[0]
    methods = [line.split("|")[2].partition("(")[0] for line in table.splitlines()[2:]]
    listed = re.findall("`(\\w+)`", "".join(methods))
    assert sorted(listed) == sorted(name for name in public(AsyncClient) if not name.startswith("__"))


@pytest.fixture
def programs():
    """The functions of the page's programs, by name."""
    names = {"__name__": "shown"}
    for code in re.findall("```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(code, names)
    return names


@pytest.fixture(scope="module")
def served():
    port = free_port()
    with Served("--public-url", f"http://127.0.0.1:{port}", port=port) as started:
        yield started


@pytest.mark.slow
def test_the_pages_asker_does_what_a_person_says(programs, served):
    said = []
    with Client(served.address) as client:
        for build, answer in enumerate(("yes", "no", None)):
            with running(partial(programs["deploy"], served.address, build)) as result:
                until(lambda build=build: list(client.operations(id_prefix=f"deploy-{build}")))
                if answer is None:
                    client.cancel(f"deploy-{build}")
                else:
                    client.answer(f"deploy-{build}", answer, by="ann")
                said.append(result())
    assert said == ["deploying build 0, as ann says", "build 1 stays: no", "build 2 stays: cancelled"]


@pytest.mark.asyncio
async def test_the_pages_worker_sends_what_is_urgent_first(programs):
    sent, store = [], QueuesInMemory()
    programs["print"] = sent.append
    for queue, name in (("mail", "ann"), ("urgent", "bob")):
        store.put(queue, {"to": name})
    store.work = partial(AsyncVerbs.work, store)
    working = asyncio.create_task(programs["send_mails"](store))
    await settle()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert sent == ["to bob, attempt 1", "to ann, attempt 1"]
    assert len(store.acknowledged) == 2


@pytest.mark.slow
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_the_pages_bot_sends_a_link_to_a_question(programs, served):
    sent = asyncio.Queue()
    programs["print"] = sent.put_nowait
    bot = asyncio.create_task(programs["send_links"](served.address, "ann"))
    async with AsyncClient(served.address) as client, asyncio.timeout(PATIENCE_S):
        asking = asyncio.create_task(client.ask("o", "Go?", announce="questions"))
        title, url = (await sent.get()).split()
        async with httpx2.AsyncClient() as browser:
            assert (await browser.post(url, json={"choice": "ok"})).status_code == 200
        answer = await asking
    assert (title, answer.choice, answer.by) == ("Go?", "ok", "ann")
    bot.cancel()
    with suppress(asyncio.CancelledError):
        await bot


@pytest.mark.slow
def test_the_page_moves_a_deadline_by_a_day(programs, served):
    with Client(served.address) as client:
        client.submit(operation_id="moved", timeout=60)
        deadline = programs["postpone"](served.address, "moved")
        found = client.status("moved")
    assert found.deadline == deadline
    submitted, due = map(dt.datetime.fromisoformat, (found.submitted_at, deadline))
    assert due - submitted > dt.timedelta(hours=23)
