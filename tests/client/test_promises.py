"""Questions of a client: asked once through lost answers and restarts, answered by another, moved and forgotten."""

import datetime as dt

import httpx2
import pytest
import pytest_asyncio

from purgatory_async.client import RequestRefused
from tests.client.test_clients import Served

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

PUBLIC = "http://localhost"
ASK = {"title": "Deploy?", "choices": ["yes", "no"], "comment": "optional"}


@pytest_asyncio.fixture
async def served():
    made = Served(public_url=PUBLIC)
    yield made
    await made.aclose()


async def through(served, call):
    """Make a call whose answer is lost once."""
    served.wire.lose = 1
    asked = await served.start(call)
    await served.advance(1)
    return await asked


async def test_a_lost_answer_to_an_attach_attaches(served):
    call = served.client.attach("o", timeout="1h", keep=dt.timedelta(days=7), ask=ASK)
    asked = await through(served, call)
    assert (asked.attached, asked.keep, asked.ask["choices"]) == (True, 604_800, ["yes", "no"])
    assert served.pending == 1
    again = await served.client.attach("o", ["o"], timeout=3600, keep="168h", ask=ASK)
    assert (again.attached, again.id) == (True, "o")
    with pytest.raises(RequestRefused) as refused:
        await served.client.attach("o")
    assert refused.value.document["differs"] == ["timeout", "keep", "ask"]


async def test_a_new_one_is_not_attached(served):
    assert not (await served.client.attach("o", ["k"], data=1)).attached


async def test_a_persons_answer_is_given_once(served):
    await served.client.attach("o", ask=ASK)
    call = served.client.answer("o", "no", comment="not today", by="ann")
    answered = await through(served, call)
    assert (answered.state, answered.choice, answered.comment) == ("completed", "no", "not today")
    assert (answered.by, answered.error) == ("ann", None)
    with pytest.raises(RequestRefused, match="already-ended"):
        await served.client.answer("o", "yes")


async def test_programs_complete_and_fail(served):
    for operation_id in ("a", "b"):
        await served.client.attach(operation_id)
    completed = await served.client.complete("a", {"n": 1}, by="ci")
    failed = await served.client.fail("b", "no such build")
    assert (completed.result, completed.by, completed.choice) == ({"n": 1}, "ci", None)
    assert (failed.state, failed.error) == ("failed", "no such build")
    found = [each.id async for each in served.client.operations(state="ended")]
    assert found == ["a", "b"]
    assert [each.id async for each in served.client.operations(state="all", id_prefix="b")] == ["b"]


async def test_a_deadline_is_moved_and_taken_away(served):
    made = await served.client.submit(["k"], operation_id="o", timeout=10)
    moved = await served.client.reschedule("o", timeout="1m")
    assert moved.deadline > made.deadline
    at = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    assert dt.datetime.fromisoformat((await served.client.reschedule("o", deadline=at)).deadline) == at
    assert (await served.client.reschedule("o")).deadline is None
    with pytest.raises(ValueError, match="without a time zone"):
        await served.client.reschedule("o", deadline=at.replace(tzinfo=None))


async def test_a_link_answers_with_its_name_and_choices(served):
    await served.client.submit(["k"], operation_id="o", timeout=600, ask=ASK)
    made = await through(served, served.client.links("o", by="ann", choices=["no"], expires_in="5m"))
    assert made.expires_at < (await served.client.links("o")).expires_at
    assert made.url.startswith(f"{PUBLIC}/a/")
    async with httpx2.AsyncClient(transport=served.wire) as browser:
        replies = [await browser.post(made.url, json={"choice": choice}) for choice in ("yes", "no")]
    assert [reply.status_code for reply in replies] == [422, 200]
    ended = await served.client.status("o")
    assert (ended.choice, ended.by) == ("no", "ann")
    with pytest.raises(RequestRefused, match="already-ended"):
        await served.client.links("o")


async def test_a_link_to_a_question_without_end_has_none(served):
    await served.client.submit(["k"], operation_id="o", ask=ASK)
    first, second = [await served.client.links("o") for _ in range(2)]
    assert first == second
    assert first.expires_at is None


@pytest.mark.parametrize(
    ("order", "refused"),
    [
        ({"expires_in": dt.timedelta(seconds=0.5)}, "at least 1 second"),
        ({"choices": ["maybe"]}, "/choices/0"),
        ({"by": ""}, "/by"),
    ],
)
async def test_a_link_that_cannot_be_is_refused(served, order, refused):
    await served.client.submit(["k"], operation_id="o", ask=ASK)
    with pytest.raises(RequestRefused, match=refused):
        await served.client.links("o", **order)


async def test_choices_of_a_link_are_no_single_text(served):
    with pytest.raises(TypeError, match=r"choices must be an iterable of choices.*\['yes'\]"):
        await served.client.links("o", choices="yes")


async def test_what_was_read_is_forgotten(served):
    await served.client.attach("o", keep="1d")
    await served.client.complete("o")
    for _ in range(2):
        await served.client.forget("o")
    with pytest.raises(RequestRefused, match="forgotten"):
        await served.client.attach("o", keep="1d")


async def test_queues_and_earlier_signals_reach_an_operation(served):
    await served.client.signal("k", 1)
    ended = await served.client.submit(["k"], operation_id="o", since=0, announce="asks", deliver="done")
    assert (ended.state, ended.gap, ended.announce) == ("completed", False, "asks")
    items = [(await served.client.take(queue)).item for queue in ("asks", "done")]
    assert [item["event"] for item in items] == ["submitted", "ended"]


async def test_a_question_is_asked_and_waits_for_its_answer(served):
    call = served.client.ask(
        "o",
        "Deploy?",
        text="It passed.",
        choices=("yes", "no"),
        comment="required",
        keys=["k"],
        timeout="24h",
        data={"build": 7},
        announce="asks",
        deliver="done",
    )
    asking = await served.start(call)
    shown = await served.client.status("o")
    assert shown.ask == {**ASK, "text": "It passed.", "comment": "required"}
    assert (shown.keys, shown.keep, shown.time_left, shown.data) == (("k",), 604_800, 86_400, {"build": 7})
    await served.advance(10)
    await served.client.answer("o", "no", comment="not today", by="ann")
    ended = await asking
    assert (ended.state, ended.choice, ended.comment, ended.by) == ("completed", "no", "not today", "ann")
    assert not ended.attached
    items = [(await served.client.take(queue)).item["event"] for queue in ("asks", "done")]
    assert items == ["submitted", "ended"]


async def test_a_question_asked_again_has_its_first_answer(served):
    first, second = [await served.start(served.client.ask("o", "Go?", timeout=60)) for _ in range(2)]
    assert served.pending == 1
    await served.client.answer("o", "ok")
    third = served.client.ask("o", "Go?", timeout=60)
    assert (await served.client.attach("o", timeout="1m", keep="7d", ask={"title": "Go?"})).attached
    assert [(await each).choice for each in (first, second, third)] == ["ok"] * 3
    with pytest.raises(RequestRefused, match="duplicate-id"):
        await served.client.ask("o", "Stop?", timeout=60)
    await served.client.forget("o")
    with pytest.raises(RequestRefused, match="forgotten"):
        await served.client.ask("o", "Go?", timeout=60)


@pytest.mark.parametrize("state", ["expired", "cancelled", "failed"])
async def test_a_question_returns_whatever_its_end(served, state):
    asking = await served.start(served.client.ask("o", "Go?", timeout=5))
    if state == "cancelled":
        await served.client.cancel("o")
    elif state == "failed":
        await served.client.fail("o", "no such build")
    await served.advance(5)
    ended = await asking
    assert (ended.state, ended.choice, ended.comment) == (state, None, None)


async def test_to_stop_waiting_leaves_the_question(served):
    asking = await served.start(served.client.ask("o", "Go?"))
    asking.cancel()
    await served.advance(0)
    assert asking.cancelled()
    assert (await served.client.status("o")).pending
    await served.client.answer("o", "ok")
    assert (await served.client.ask("o", "Go?")).attached


async def test_choices_of_a_question_are_no_single_text(served):
    with pytest.raises(TypeError, match=r"choices must be an iterable of choices.*\['yes'\]"):
        await served.client.ask("o", "Go?", choices="yes")


async def test_a_question_may_have_a_deadline_in_place_of_a_timeout(served):
    at = dt.datetime(2100, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    asking = await served.start(served.client.ask("o", "Go?", deadline=at, keep=dt.timedelta(days=1)))
    shown = await served.client.status("o")
    assert (shown.deadline, shown.keep) == ("2099-12-31T22:00:00Z", 86_400)
    for call in (served.client.submit, served.client.attach):
        with pytest.raises(RequestRefused, match="deadline"):
            await call(operation_id="both", timeout=1, deadline=at)
    await served.client.answer("o", "ok")
    await asking
