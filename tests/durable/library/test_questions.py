"""Questions for people: asked until they have ended, answered once, by whom they may be; and their links."""

import asyncio
import datetime as dt

import pytest

from tests.durable.library.calls import cancelled, refused, start
from tests.durable.library.carriers import PUBLIC

pytestmark = pytest.mark.asyncio

ASK = {"title": "Deploy?", "choices": ["yes", "no"], "comment": "optional"}
QUESTION = {
    "text": "It passed.\n\tAll of it.",
    "choices": ("yes", "no"),
    "comment": "required",
    "keys": ["k"],
    "timeout": "24h",
    "keep": dt.timedelta(days=2),
    "data": {"build": 7},
    "announce": "asked",
    "deliver": "done",
}


async def test_a_question_waits_for_its_answer(verbs):
    asking = await start(verbs.ask("o", "Deploy?", **QUESTION))
    shown = await verbs.status("o")
    assert shown.ask == {
        "title": "Deploy?",
        "text": "It passed.\n\tAll of it.",
        "choices": ["yes", "no"],
        "comment": "required",
    }
    assert (shown.keys, shown.keep, shown.data) == (("k",), 172_800, {"build": 7})
    assert 86_390 < shown.time_left <= 86_400
    await verbs.answer("o", "no", comment="not today", by="ann")
    ended = await asking
    assert (ended.state, ended.choice, ended.comment, ended.by) == ("completed", "no", "not today", "ann")
    assert (ended.result, ended.attached) == ({"choice": "no", "comment": "not today"}, False)
    items = [(await verbs.take(queue)).item["event"] for queue in ("asked", "done")]
    assert items == ["submitted", "ended"]


async def test_a_question_has_its_defaults_filled_in(verbs):
    asking = await start(verbs.ask("o", "Go?"))
    shown = await verbs.status("o")
    assert shown.ask == {"title": "Go?", "choices": ["ok"], "comment": "none"}
    assert (shown.keys, shown.keep, shown.deadline, shown.data) == (("o",), 604_800, None, None)
    assert "data" not in shown.document
    await verbs.answer("o", "ok")
    ended = await asking
    assert (ended.choice, ended.comment, ended.by, ended.result) == ("ok", None, None, {"choice": "ok"})


@pytest.mark.parametrize("state", ["completed", "expired", "cancelled", "failed"])
async def test_a_question_returns_whatever_its_end(verbs, state):
    asking = await start(verbs.ask("o", "Go?", timeout=0.5 if state == "expired" else 60))
    ends = {
        "completed": verbs.complete,
        "cancelled": verbs.cancel,
        "failed": lambda name: verbs.fail(name, "why"),
    }
    if state in ends:
        await ends[state]("o")
    ended = await asking
    assert (ended.state, ended.choice, ended.comment) == (state, None, None)


async def test_a_signal_may_end_a_question_without_an_answer(verbs):
    asking = await start(verbs.ask("o", "Go?", keys=["k"]))
    await verbs.signal("k", "moot")
    ended = await asking
    assert (ended.state, ended.choice, ended.result) == ("completed", None, None)


async def test_a_question_asked_by_several_has_one_answer(verbs):
    asking = [await start(verbs.ask("o", "Go?", timeout=60, announce="asked")) for _ in range(3)]
    await verbs.answer("o", "ok")
    ends = [await each for each in asking]
    assert {(each.choice, each.ended_at) for each in ends} == {("ok", ends[0].ended_at)}
    assert sorted(each.attached for each in ends) == [False, True, True]
    assert (await verbs.ask("o", "Go?", timeout="1m", announce="asked")).attached
    assert (await verbs.queue("asked")).items == 1


async def test_to_stop_waiting_leaves_the_question(verbs):
    await cancelled(await start(verbs.ask("o", "Go?")))
    assert (await verbs.status("o")).pending
    await verbs.answer("o", "ok")
    again = await verbs.ask("o", "Go?")
    assert (again.attached, again.choice) == (True, "ok")


async def test_another_question_and_a_forgotten_one_are_refused(verbs):
    await cancelled(await start(verbs.ask("o", "Go?")))
    refusal = await refused(verbs.ask("o", "Stop?"), 409, "duplicate-id")
    assert refusal.document["differs"] == ["ask"]
    assert refusal.document["operation"]["ask"]["title"] == "Go?"
    await verbs.answer("o", "ok")
    await verbs.forget("o")
    await refused(verbs.ask("o", "Go?"), 410, "forgotten")


async def test_a_question_may_have_a_deadline(verbs):
    at = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    await cancelled(await start(verbs.ask("o", "Go?", deadline=at)))
    assert (await verbs.status("o")).deadline == "2100-01-01T00:00:00Z"
    past = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    assert (await verbs.ask("p", "Go?", deadline=past)).state == "expired"


ANSWERS = [
    pytest.param(
        "none", {"choice": "maybe"}, "/choice: must be one of 'yes', 'no', got 'maybe'", id="choice"
    ),
    pytest.param(
        "none",
        {"choice": "yes", "comment": "c"},
        "/comment: must be left out of an answer to 'Deploy?', which takes none",
        id="a comment that is not wanted",
    ),
    pytest.param(
        "required",
        {"choice": "yes"},
        "/comment: must be given to 'Deploy?', which requires one",
        id="a comment that is missing",
    ),
    pytest.param(
        "required",
        {"choice": "yes", "comment": ""},
        "/comment: must be given to 'Deploy?', which requires one",
        id="an empty comment",
    ),
    pytest.param(
        "optional",
        {"choice": "yes", "comment": "c" * 4_097},
        "/comment: must have at most 4096 code points, got 4097",
        id="a comment too long",
    ),
    pytest.param(
        "none", {"choice": "yes", "by": "x" * 129}, "/by: must have 1 to 128 code points, got 129", id="by"
    ),
]


@pytest.mark.parametrize(("comment", "answer", "detail"), ANSWERS)
async def test_an_answer_that_does_not_fit_is_refused(verbs, comment, answer, detail):
    await verbs.submit(operation_id="o", ask={**ASK, "comment": comment})
    refusal = await refused(verbs.answer("o", **answer), 422, "invalid")
    assert refusal.detail == detail
    assert [f"{each['pointer']}: {each['detail']}" for each in refusal.document["errors"]] == [detail]
    await verbs.complete("o")
    if "by" not in answer:
        assert (await refused(verbs.answer("o", **answer), 422, "invalid")).detail == detail


async def test_what_asks_nothing_takes_no_answer_and_no_link(verbs):
    await verbs.submit(operation_id="o")
    refusal = await refused(verbs.answer("o", "ok"), 422, "invalid")
    assert refusal.detail == "the body: the operation has no ask: cannot answer 'ok'; complete it"
    await refused(verbs.links("o"), 422, "invalid")


async def test_a_link_is_good_for_as_long_as_its_question(verbs):
    made = await verbs.submit(operation_id="o", timeout=600, ask=ASK)
    link = await verbs.links("o")
    assert link.url.startswith(f"{PUBLIC}/a/")
    assert link.expires_at == made.deadline
    assert await verbs.links("o") == link
    short = await verbs.links("o", by="ann", choices=["no"], expires_in="5m")
    assert short.url != link.url
    assert short.expires_at < link.expires_at
    await verbs.reschedule("o")
    assert (await verbs.links("o")).expires_at is None
    await verbs.answer("o", "yes")
    refusal = await refused(verbs.links("o"), 409, "already-ended")
    assert refusal.document["operation"]["result"] == {"choice": "yes"}


@pytest.mark.parametrize(
    ("order", "pointer"),
    [
        ({"expires_in": dt.timedelta(seconds=0.5)}, "/expires_in"),
        ({"choices": ["maybe"]}, "/choices/0"),
        ({"choices": []}, "/choices"),
        ({"by": ""}, "/by"),
        ({"by": "é" * 65}, "/by"),
    ],
)
async def test_a_link_that_cannot_be_is_refused(verbs, order, pointer):
    await verbs.submit(operation_id="o", ask=ASK)
    refusal = await refused(verbs.links("o", **order), 422, "invalid")
    assert refusal.document["errors"][0]["pointer"] == pointer


async def test_without_a_public_url_there_are_no_links(carrier):
    verbs = await carrier.open(public_url=None)
    await verbs.submit(operation_id="o", ask=ASK)
    refusal = await refused(verbs.links("o"), 409, "links-off")
    assert refusal.document["flag"] == "--public-url"


async def test_two_answers_at_once_are_one_and_a_refusal(verbs):
    await verbs.submit(operation_id="o", ask=ASK)
    calls = [verbs.answer("o", choice, by=choice) for choice in ("yes", "no")]
    won, lost = sorted(
        await asyncio.gather(*calls, return_exceptions=True), key=lambda found: isinstance(found, Exception)
    )
    assert won.choice == won.by
    assert (lost.status, lost.slug) == (409, "already-ended")
    assert lost.document["operation"]["by"] == won.by
