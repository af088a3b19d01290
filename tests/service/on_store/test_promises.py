"""What a store promises of questions: an answer is durable before it is given, counts once, and is kept as long."""

import asyncio
import random
from contextlib import closing

import pytest

from purgatory_async.durable.fold.checkpoint import digest
from tests.cluster.faulty import REQUEST
from tests.service.api.promised import ONE, QUESTION, post, put
from tests.service.on_store.scripts import Player, drawn

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

PUBLIC = "https://holds.example.org"
CHOICE = {"choice": "approve"}


@pytest.fixture
def linked(tmp_path):
    """Settings of a service that makes links."""
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("0123456789abcdef0123456789abcdef")
    return {"public_url": PUBLIC, "link_secret": str(secret)}


def logged(members):
    """The state of the question as the store alone says it; None before it is asked."""
    with closing(members.store.folded()) as fold:
        found = fold.operations.by_id.get("deploy-77")
        return None if found is None else found.state


@pytest.mark.parametrize(
    ("verb", "body", "state"),
    [
        ("", None, "pending"),
        ("/answer", CHOICE, "completed"),
        ("/complete", {"result": 1}, "completed"),
        ("/fail", {"error": "no"}, "failed"),
        ("/reschedule", {"timeout": 0}, "expired"),
        ("by link", CHOICE, "completed"),
    ],
)
async def test_a_change_is_answered_once_the_store_has_it(members, linked, verb, body, state):
    here = await members.start(**linked)
    target = f"{ONE}{verb}"
    if verb:
        await put(here)
    if verb == "by link":
        target = (await post(here, "links", {})).json["url"].removeprefix(PUBLIC)
    here.link.losses.extend([REQUEST] * 99)
    change = here.start("POST" if verb else "PUT", target, body or QUESTION)
    await asyncio.sleep(1)
    assert not change.answered
    assert logged(members) == ("pending" if verb else None)
    here.link.losses.clear()
    await change.over
    assert change.status in {200, 202}
    # All workers may be killed now.
    assert logged(members) == state


async def test_what_came_before_the_submission_counts_after_a_restart(members):
    here = await members.start()
    first = (await here.signal("approvals", value=1))["index"]
    place = (await here.request("GET", "/v1/wait?key=approvals&since=0")).json["next"]
    await here.signal("approvals", value=2)
    members.trim(here)
    there = await members.start()
    for name, since in (("by index", first), ("by place", place)):
        body = {"keys": ["approvals"], "since": since}
        reply = await put(there, body, f"/v1/operations/{name.replace(' ', '-')}")
        assert (reply.status, reply.json["state"], "gap" in reply.json) == (201, "completed", False)
        assert [signal["value"] for signal in reply.json["signals"]] == [2]


async def test_what_has_keep_outlives_what_drops_all_else(members):
    body = {**QUESTION, "keep": "10m"}
    here = await members.start(retention=1, max_bytes=30_000)
    await put(here, body)
    answered = await post(here, "answer", {**CHOICE, "by": "ann"})
    for number in range(40):
        await here.submit("a", id=f"o{number}", data="x" * 1000)
        await post(here, "complete", {}, f"/v1/operations/o{number}")
    members.trim(here)
    there = await members.start(retention=1, max_bytes=30_000)
    await asyncio.sleep(590)
    assert (await there.request("GET", "/v1/operations/o39")).status in {404, 410}
    for member in (here, there):
        again = await put(member, body)
        assert (again.status, again.json) == (200, answered.json)
    await asyncio.sleep(20)
    await there.submit("a")  # what is kept for too long leaves with the next entry
    assert (await put(there, body)).slug == "forgotten"


@pytest.mark.parametrize("seed", range(5))
async def test_scripts_give_one_digest_at_every_worker(members, seed):
    workers = [await members.start() for _ in range(2)]
    players = [Player(member) for member in workers]
    for number, step in enumerate(drawn(random.Random(seed), 120, timed=True)):
        players[number % 2].send(*step)
        await asyncio.sleep(0.1)
    for player in players:
        await player.answers()
    members.trim(workers[0])
    workers.append(await members.start())
    await asyncio.gather(*(member.service.state.caught_up() for member in workers))
    with closing(members.store.folded()) as whole:
        assert {digest(member.service.fold) for member in workers} == {digest(whole)}
        assert whole.level == 3
