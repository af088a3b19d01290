"""Applications with a `Durable` beside a service, all on one store: one state, and links that the service opens."""

import asyncio

import pytest
import pytest_asyncio

from purgatory_async.durable.fold.checkpoint import digest
from tests.durable.library.calls import later, refused, start
from tests.service.on_store.members import Members as Services

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

PUBLIC = "https://holds.example.org"
ASK = {"title": "Go?", "choices": ["yes", "no"]}


@pytest_asyncio.fixture
async def services(members, monkeypatch):
    """Services on the store of the applications."""
    async with Services(monkeypatch) as made:
        made.store = members.store
        yield made


@pytest.fixture
def linked(tmp_path):
    """Settings with which links are made."""
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("0123456789abcdef0123456789abcdef")
    return {"public_url": PUBLIC, "link_secret": str(secret)}


async def test_a_link_made_here_is_opened_by_a_service_with_its_secret(members, services, linked):
    here, served = await members.open(owner="ann", **linked), await services.start(**linked)
    await here.attach("o", ask=ASK)
    asking = await start(here.ask("o", ASK["title"], choices=ASK["choices"], keep=None))
    link = await here.links("o", by="bob", choices=["yes"], expires_in="1h")
    path = link.url.removeprefix(PUBLIC)
    page = await served.request("GET", path)
    assert (page.status, b"Go?" in page.body) == (200, True)
    assert (await served.request("POST", path, {"choice": "yes"})).status == 200
    ended = await asyncio.wait_for(asking, 1)
    assert (ended.choice, ended.by, ended.document["via"]) == ("yes", "bob", "ann")


async def test_a_link_of_another_secret_opens_nothing(members, services, linked, tmp_path):
    served = await services.start(**linked)
    (tmp_path / "secret").write_text("another secret, also of 32 characters")
    here = await members.open(**linked)
    await here.attach("o", ask=ASK)
    path = (await here.links("o")).url.removeprefix(PUBLIC)
    assert (await served.request("POST", path, {"choice": "yes"})).status == 404
    assert (await here.status("o")).pending


async def test_without_a_public_url_there_are_no_links(members):
    here = await members.open()
    await here.attach("o", ask=ASK)
    await refused(here.links("o"), 409, "links-off")


async def test_a_service_and_applications_give_one_digest(members, services):
    here, there, served = await members.open(), await members.open(owner="ann"), await services.start()
    for number in range(10):
        await here.attach(f"a{number}", ["k"], ask=ASK, announce="q")
        await there.submit(["k"], need={"amount": 3}, timeout=number)
        await served.request("POST", "/v1/keys/k/signal", {"value": number})
    taking = await start(there.take("r", timeout=30))
    await served.request("POST", "/v1/queues/r/items", {"item": 7})
    assert (await asyncio.wait_for(taking, 1)).item == 7
    await later(20)
    await asyncio.gather(here.caught_up(), there.caught_up(), served.service.state.caught_up())
    folds = here.keeper.fold, there.keeper.fold, served.service.fold
    assert len({fold.position for fold in folds}) == 1
    assert len({digest(fold) for fold in folds}) == 1
