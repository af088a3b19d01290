"""What the dashboard asks for: its search, and its feed."""

import asyncio

import pytest

from purgatory_async.durable.fold.entries import SubmitOperation
from purgatory_async.durable.stats import search, survey
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio


async def found(client, query=""):
    """The total, the ids on the page, and how the operation of this id ended."""
    reply = await client.request("GET", f"/ui/operations?{query}")
    assert reply.status == 200
    shown = reply.json
    return shown["total"], [operation["id"] for operation in shown["operations"]], shown["ended"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ["one", "two", "three", None]),
        ("one", ["one"]),
        ("t", ["two", "three"]),
        ("orders/", ["one", "three", None]),
        ("orders/1", ["one"]),
        ("rders", []),
        ("Orders", []),
        ("a%20b%2Fc", ["two"]),
    ],
)
async def test_a_search_is_the_start_of_an_id_or_key(client, text, ids):
    await client.submit("orders/1", id="one")
    await client.submit("x", "a b/c", id="two")
    await client.submit("x", "orders/2", id="three")
    waiting = await client.held("GET", "/v1/wait?key=orders/3&wait=9s")
    assert await found(client, f"search={text}") == (len(ids), ids, None)
    await client.signal("orders%2F3")
    assert waiting.answered


async def test_pages_cut_the_order_of_submission(client):
    ids = [f"op{number}" for number in range(120)]
    for name in ids:
        await client.submit("a", id=name)
    assert await found(client) == (120, ids[:50], None)
    assert await found(client, "first=50&search=a") == (120, ids[50:100], None)
    assert await found(client, "first=100&limit=7") == (120, ids[100:107], None)
    assert await found(client, "first=120") == (120, [], None)


async def test_an_ended_operation_is_found_by_its_id_only(client):
    await client.submit("a", id="one")
    await client.signal("a")
    assert await found(client, "search=one") == (0, [], "completed")
    assert await found(client, "search=on") == (0, [], None)


async def test_a_match_has_what_a_row_shows(client):
    await client.submit("a", "b", id="one", need="all", timeout="1m")
    await client.signal("a")
    await client.advance(1.5)
    reply = await client.request("GET", "/ui/operations?search=one")
    assert reply.json["operations"] == [
        {
            "id": "one",
            "keys": ["a", "b"],
            "need": "all",
            "waiting_for": {"all": ["b"]},
            "elapsed": 1.5,
            "expires_in": 58.5,
        }
    ]


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "first=-1", "search=%ff", "cursor=1"])
async def test_a_bad_parameter_of_a_search_is_refused(client, query):
    reply = await client.request("GET", f"/ui/operations?{query}")
    assert (reply.status, reply.slug) == (400, "bad-parameter")


async def test_a_search_lets_others_run_and_bears_with_them(client, monkeypatch):
    monkeypatch.setattr(search, "STEPS", 10)
    for number in range(100):
        client.post(SubmitOperation(id=f"op{number}", keys=("a",)))
    searching, turns = client.start("GET", "/ui/operations?search=op"), 0
    while not searching.answered:
        await asyncio.sleep(0)
        turns += 1
        if turns == 5:
            ending = [client.start("DELETE", f"/v1/operations/op{number}") for number in (1, 99)]
    await settle()
    assert {one.status for one in ending} == {200}
    assert turns > 10
    shown = searching.json
    assert shown["total"] == 99  # the last one ended before it was counted, the first one after
    assert [operation["id"] for operation in shown["operations"]][:2] == ["op0", "op2"]


async def test_the_feed_has_the_stats_and_no_workers_without_a_store(client):
    await client.submit("a", timeout="1m")
    stats = (await client.request("GET", "/v1/admin/stats")).json
    feed = (await client.request("GET", "/ui/feed")).json
    assert feed.pop("workers") is None
    assert feed.pop("may_end") is True
    assert feed.keys() == stats.keys()
    assert feed["counts"] == stats["counts"]


async def test_the_wheel_counts_operations_and_its_own_timers_apart(client):
    for timeout in ("1m", "60m", None):
        await client.submit("a", timeout=timeout, id=f"op{timeout}")
    taking = [await client.held("POST", f"/v1/queues/q{place}/take?wait=9s") for place in range(5)]
    wheel = (await client.request("GET", "/ui/feed")).json["wheel"]
    assert (wheel["entries"], wheel["operations"]) == (7, 2)
    await client.request("DELETE", "/v1/operations/op60m")
    await client.advance(survey.PERIOD)
    wheel = (await client.request("GET", "/ui/feed")).json["wheel"]
    assert (wheel["entries"], wheel["operations"]) == (6, 1)
    await client.advance(9)
    assert all(one.answered for one in taking)


async def questions(client, query=""):
    """The total and the operations of a page of questions."""
    reply = await client.request("GET", f"/ui/questions?{query}")
    assert reply.status == 200
    return reply.json["total"], reply.json["operations"]


async def ask(client, name, **ask):
    """Ask a question that may be answered with yes or no."""
    await client.submit(
        "a", id=name, timeout="1m", ask={"title": f"{name}?", "choices": ["yes", "no"], **ask}
    )


async def test_questions_are_listed_whatever_else_is_pending(client):
    for number in range(30):
        await client.submit("a", id=f"op{number}")
        if number % 10 == 9:
            await ask(client, f"q{number}", text="Say\nso.", comment="optional")
    assert await questions(client, "limit=1") == (3, (await questions(client))[1][:1])
    total, found = await questions(client, "first=1")
    assert (total, [each["id"] for each in found]) == (3, ["q19", "q29"])
    asked = {"title": "q19?", "text": "Say\nso.", "choices": ["yes", "no"], "comment": "optional"}
    assert (found[0]["ask"], found[0]["state"]) == (asked, "pending")


async def test_ended_questions_begin_with_the_last_end(client):
    for name in ("one", "two", "three", "four"):
        await ask(client, name)
    await client.request("POST", "/v1/operations/three/answer", {"choice": "no", "by": "ann"})
    await client.advance(1)
    await client.request("DELETE", "/v1/operations/one")
    await client.advance(1)
    await client.request("POST", "/v1/operations/four/complete", {"result": 7})
    total, found = await questions(client, "state=ended")
    assert (total, [each["id"] for each in found]) == (3, ["four", "one", "three"])
    assert (found[2]["result"], found[2]["by"]) == ({"choice": "no"}, "ann")
    assert [each["id"] for each in (await questions(client, "state=all"))[1]] == [
        "two",
        "four",
        "one",
        "three",
    ]
    assert [each["id"] for each in (await questions(client, "state=cancelled"))[1]] == ["one"]


async def test_a_page_of_questions_has_no_data_and_no_signals(client):
    ask = {"title": "Go?"}
    await client.submit("a", "b", id="one", need="all", data={"for": "programs"}, ask=ask)
    await client.signal("a", value=7)
    [found] = (await questions(client))[1]
    assert ("data" in found, found["signals"], found["waiting_for"]) == (False, [], {"all": ["b"]})


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "first=-1", "state=open", "search=a"])
async def test_a_bad_parameter_of_the_questions_is_refused(client, query):
    reply = await client.request("GET", f"/ui/questions?{query}")
    assert (reply.status, reply.slug) == (400, "bad-parameter")


@pytest.mark.parametrize(("scopes", "may"), [("read", False), ("read,answer", True), ("admin", True)])
async def test_the_page_learns_whether_its_token_may_answer(tenants, scopes, may):
    shop = tenants(f"ann {scopes}")
    assert (await shop.ask("ann", "GET", "/ui/questions")).json["may_answer"] is may


async def test_a_match_that_is_a_question_has_its_title(client):
    await client.submit("a", id="one")
    await ask(client, "two")
    found = (await client.request("GET", "/ui/operations")).json["operations"]
    assert [each.get("title") for each in found] == [None, "two?"]
