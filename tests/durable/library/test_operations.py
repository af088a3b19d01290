"""Operations: submitted or attached to, shown whole, completed, failed, cancelled, moved and forgotten."""

import datetime as dt

import pytest

from purgatory_async.client import Operation
from tests.durable.library.calls import every, later, refused

pytestmark = pytest.mark.asyncio

ASK = {"title": "Deploy?", "choices": ["yes", "no"], "comment": "optional"}
WHOLE = {
    "need": "all",
    "timeout": 60,
    "data": {"n": [1, None, "é"]},
    "keep": 3600,
    "ask": ASK,
    "announce": "asked",
    "deliver": "done",
}


def seconds_between(earlier, later):
    times = [dt.datetime.fromisoformat(text) for text in (earlier, later)]
    return (times[1] - times[0]).total_seconds()


async def test_a_submission_is_shown_with_all_that_it_has(verbs):
    made = await verbs.submit(["a", "b", "a"], operation_id="o", **WHOLE)
    assert isinstance(made, Operation)
    assert (made.id, made.keys, made.need, made.state) == ("o", ("a", "b"), "all", "pending")
    assert (made.data, made.ask, made.keep) == (WHOLE["data"], ASK, 3600)
    assert (made.announce, made.deliver, made.waiting_for) == ("asked", "done", {"all": ["a", "b"]})
    assert (made.signals, made.result, made.error, made.left_out) == ((), None, None, 0)
    assert (made.ended_at, made.kept_until, made.by, made.via, made.owner) == (None,) * 5
    assert (made.gap, made.attached, made.pending) == (False, False, True)
    assert seconds_between(made.submitted_at, made.deadline) == 60
    assert 0 <= made.elapsed < 60
    assert made.document["id"] == "o"
    shown = await verbs.status("o")
    assert shown.elapsed >= made.elapsed
    assert {**shown.document, "elapsed": 0} == {**made.document, "elapsed": 0}


async def test_a_submission_of_nothing_gets_an_id_which_it_watches(verbs):
    made = await verbs.submit()
    assert made.keys == (made.id,)
    assert (made.need, made.deadline, made.time_left) == ("any", None, None)
    assert await verbs.signal(made.id) == 1
    ended = await verbs.status(made.id)
    assert (ended.state, ended.result, ended.by) == ("completed", None, None)


async def test_a_key_may_be_any_text_that_is_no_path(verbs):
    keys = ("a/../b", "a b?c#d%2F", "\N{SNOWMAN}", "-x")
    await verbs.submit(keys, operation_id="o", need="all")
    for key in keys:
        await verbs.signal(key)
    ended = await verbs.status("o")
    assert [signal["key"] for signal in ended.signals] == list(keys)
    assert ended.state == "completed"


@pytest.mark.parametrize("timeout", [0.2, dt.timedelta(milliseconds=200), "200ms"])
async def test_an_operation_expires_after_its_timeout_in_any_form(verbs, timeout):
    made = await verbs.submit(["k"], timeout=timeout)
    assert seconds_between(made.submitted_at, made.deadline) == 0.2
    assert 0 < made.time_left <= 0.2
    ended = await verbs.follow(made.id)
    assert (ended.state, ended.time_left, ended.by) == ("expired", None, None)
    assert seconds_between(ended.submitted_at, ended.ended_at) >= 0.2
    assert ended.elapsed >= 0.2


async def test_a_timeout_of_zero_ends_at_once(verbs):
    assert (await verbs.submit(["k"], timeout=0)).state == "expired"


async def test_a_deadline_is_an_instant_and_a_past_one_ends_at_once(verbs):
    at = dt.datetime(2100, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    made = await verbs.submit(["k"], operation_id="o", deadline=at)
    assert made.deadline == "2099-12-31T22:00:00Z"
    past = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    assert (await verbs.submit(["k"], deadline=past)).state == "expired"
    assert (await verbs.attach("p", ["k"], deadline=past)).state == "expired"


async def test_an_amount_and_voters_are_counted(verbs):
    amount = await verbs.submit(["k"], need={"amount": 5}, operation_id="amount")
    voters = await verbs.submit(["k"], need={"voters": 2}, operation_id="voters")
    assert (amount.waiting_for, voters.waiting_for) == ({"amount": 5}, {"voters": 2})
    assert await verbs.signal("k", 1, amount=3, voter="a") == 0
    assert (await verbs.status("amount")).waiting_for == {"amount": 2}
    assert await verbs.signal("k", 2, amount=2, voter="a") == 1
    assert (await verbs.status("voters")).waiting_for == {"voters": 1}
    assert await verbs.signal("k", voter="b") == 1
    ended = await verbs.status("voters")
    assert [(each.get("voter"), each.get("value")) for each in ended.signals] == [("a", 2), ("b", None)]


async def test_signals_beyond_a_megabyte_are_shown_if_asked_for(verbs):
    keys = [f"k{number:02}" for number in range(12)]
    await verbs.submit(keys, operation_id="o", need="all")
    for key in keys:
        await verbs.signal(key, "x" * 100_000)
    shown = await verbs.status("o")
    assert shown.left_out + len(shown.signals) == 12
    assert shown.left_out > 0
    assert [signal["key"] for signal in shown.signals] == keys[shown.left_out :]
    whole = await verbs.status("o", full=True)
    assert (whole.left_out, len(whole.signals)) == (0, 12)


async def test_signals_kept_after_since_count_in_the_submission(verbs):
    for value in (1, 2):
        await verbs.signal("k", value)
    place = (await verbs.read("k")).index
    await verbs.signal("k", 3)
    expected = {0: [1], "0": [1], place: [3], str(place): [3]}
    for since, values in expected.items():
        made = await verbs.submit(["k"], since=since, timeout=0)
        assert (made.state, made.gap) == ("completed", False)
        assert [signal["value"] for signal in made.signals] == values
    assert (await verbs.submit(["k"], since="now")).pending
    assert (await verbs.submit(["k"])).pending


async def test_a_since_of_another_history_is_a_gap(verbs):
    await verbs.signal("k", 1)
    for since in (2**40, "0123456789abcdef-1"):
        made = await verbs.submit(["k"], since=since)
        assert (made.pending, made.gap) == (True, True)
        assert (await verbs.status(made.id)).gap


async def test_equal_submissions_attach_and_others_say_what_differs(verbs):
    first = await verbs.attach("o", ["a"], since=0, **WHOLE)
    assert (first.attached, first.state) == (False, "pending")
    again = {**WHOLE, "timeout": "1m", "keep": dt.timedelta(hours=1), "data": {"n": [1.0, None, "é"]}}
    second = await verbs.attach("o", ["a", "a"], **again)
    assert second.attached
    assert (second.submitted_at, second.deadline) == (first.submitted_at, first.deadline)
    other = await refused(verbs.attach("o", ["b"], need="any", timeout=61), 409, "duplicate-id")
    assert other.document["operation"]["id"] == "o"
    members = ["keys", "need", "timeout", "keep", "ask", "announce", "deliver", "data"]
    assert sorted(other.document["differs"]) == sorted(members)
    assert other.detail == (
        "the operation 'o' must have the same body to attach to it, got another "
        + ", ".join(other.document["differs"])
    )
    assert [(item.item["event"]) for item in await every(verbs.items("asked"))] == ["submitted"]


async def test_an_attachment_shows_an_end_and_none_that_is_forgotten(verbs):
    await verbs.attach("o", keep="1d")
    assert (await verbs.complete("o", {"n": 1}, by="ci")).state == "completed"
    again = await verbs.attach("o", ["o"], keep="24h")
    assert (again.attached, again.state, again.result, again.by) == (True, "completed", {"n": 1}, "ci")
    assert seconds_between(again.ended_at, again.kept_until) == 86_400
    for _ in range(2):
        assert await verbs.forget("o") is None
    gone = await refused(verbs.attach("o", keep="1d"), 410, "forgotten")
    assert gone.detail.startswith("the operation 'o' ended and is forgotten")
    assert (await refused(verbs.status("o"), 410, "forgotten")).detail == gone.detail
    assert not (await verbs.submit(operation_id="o")).attached


async def test_a_taken_id_is_refused(verbs):
    await verbs.submit(["k"], operation_id="o")
    refusal = await refused(verbs.submit(["k"], operation_id="o"), 409, "duplicate-id")
    assert refusal.detail == "the id 'o' is taken until its operation is forgotten"
    assert "operation" not in refusal.document


@pytest.mark.parametrize("result", [None, 0, "", [1, {"a": None}], {"x": 1.5}])
async def test_a_result_is_any_json(verbs, result):
    await verbs.submit(operation_id="o")
    ended = await verbs.complete("o", result)
    assert (ended.result, ended.document["result"]) == (result, result)
    assert (ended.choice, ended.comment, ended.error) == (None, None, None)


async def test_an_end_without_a_result_has_none(verbs):
    await verbs.submit(operation_id="o")
    assert "result" not in (await verbs.complete("o")).document


async def test_the_answer_that_ended_it_may_be_repeated_and_no_other(verbs):
    for name in "abc":
        await verbs.submit(operation_id=name, ask=ASK)
    ends = {
        "a": lambda: verbs.complete("a", {"n": 1}, by="ci"),
        "b": lambda: verbs.fail("b", ["no", "build"], by="ci"),
        "c": lambda: verbs.answer("c", "no", comment="not today", by="ann"),
    }
    for end in ends.values():
        one, two = await end(), await end()
        assert {**one.document, "elapsed": 0} == {**two.document, "elapsed": 0}
    others = {
        "a": [lambda: verbs.complete("a", {"n": 2}, by="ci"), lambda: verbs.complete("a", {"n": 1}, by="me")],
        "b": [lambda: verbs.fail("b", ["no"], by="ci"), lambda: verbs.complete("b")],
        "c": [lambda: verbs.answer("c", "yes"), lambda: verbs.answer("c", "no", by="ann")],
    }
    for name, calls in others.items():
        for call in calls:
            refusal = await refused(call(), 409, "already-ended")
            assert refusal.document["operation"]["state"] == (await verbs.status(name)).state
    assert (await verbs.status("b")).error == ["no", "build"]


async def test_a_cancelled_operation_stays_cancelled(verbs):
    await verbs.submit(operation_id="o")
    assert [(await verbs.cancel("o")).state for _ in range(2)] == ["cancelled", "cancelled"]
    refusal = await refused(verbs.complete("o"), 409, "already-ended")
    assert refusal.detail == "the operation 'o' is cancelled: cannot answer it"
    await verbs.submit(operation_id="p")
    await verbs.complete("p", 1)
    assert (await verbs.cancel("p")).state == "completed"


async def test_a_deadline_is_moved_and_taken_away(verbs):
    made = await verbs.submit(operation_id="o", timeout=0.2)
    moved = await verbs.reschedule("o", timeout="1h")
    assert seconds_between(made.deadline, moved.deadline) > 3598
    at = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    assert (await verbs.reschedule("o", deadline=at)).deadline == "2100-01-01T00:00:00Z"
    assert (await verbs.reschedule("o")).deadline is None
    await later(0.3)
    assert (await verbs.status("o")).pending
    assert (await verbs.reschedule("o", timeout=0)).state == "expired"
    refusal = await refused(verbs.reschedule("o", timeout=5), 409, "already-ended")
    assert refusal.detail == "the operation 'o' is expired: cannot reschedule it"


async def test_only_what_has_ended_is_forgotten(verbs):
    await verbs.submit(operation_id="o")
    refusal = await refused(verbs.forget("o"), 409, "pending")
    assert refusal.document["operation"]["state"] == "pending"
    assert refusal.detail == "the operation 'o' is pending: cannot forget it; cancel it first"


async def test_an_end_is_kept_for_the_retention_or_its_keep(carrier):
    verbs = await carrier.open(retention=1.5)
    for name, keep in (("short", None), ("long", 3600), ("none", 0)):
        await verbs.submit(operation_id=name, keep=keep)
        await verbs.complete(name)
    assert (await verbs.status("short")).kept_until is not None
    await later(0.5)
    await verbs.submit()  # in a log time passes with the next entry
    await refused(verbs.status("none"), 410, "forgotten")
    assert (await verbs.status("short")).state == "completed"
    await later(1.5)
    await verbs.submit()
    assert (await verbs.status("long")).state == "completed"
    await refused(verbs.status("short"), 410, "forgotten")
    await refused(verbs.attach("short"), 410, "forgotten")


async def test_queues_hear_of_the_beginning_and_the_end(verbs):
    await verbs.submit(["k"], operation_id="o", announce="asked", deliver="done")
    assert (await verbs.take("asked")).item == {"operation": "o", "event": "submitted"}
    assert await verbs.take("done") is None
    await verbs.fail("o", "why")
    assert (await verbs.take("done")).item == {"operation": "o", "event": "ended", "state": "failed"}


async def test_what_never_was_is_unknown_to_every_verb(verbs):
    calls = {
        "status": verbs.status("o"),
        "follow": verbs.follow("o"),
        "cancel": verbs.cancel("o"),
        "complete": verbs.complete("o"),
        "fail": verbs.fail("o", 1),
        "answer": verbs.answer("o", "ok"),
        "reschedule": verbs.reschedule("o", timeout=1),
        "forget": verbs.forget("o"),
        "links": verbs.links("o"),
    }
    for call in calls.values():
        refusal = await refused(call, 404, "unknown-operation")
        assert refusal.detail == "no operation has the id 'o'"


async def test_a_full_state_refuses_submissions(carrier):
    verbs = await carrier.open(max_pending=2)
    for name in "ab":
        await verbs.submit(operation_id=name)
    refusal = await refused(verbs.submit(operation_id="c"), 503, "overloaded")
    assert refusal.detail == "the service holds 2 operations, its limit; retry later"
    assert (await verbs.attach("a")).attached
    await verbs.complete("a")
    assert (await verbs.submit(operation_id="c")).pending


async def test_a_kept_answer_needs_room_in_the_budget(carrier):
    verbs = await carrier.open(max_bytes=20_000)
    await verbs.submit(operation_id="a", keep="1d")
    await verbs.complete("a", "x" * 5_000)
    refusal = await refused(verbs.submit(operation_id="b", keep="1d", data="x" * 10_000), 503, "overloaded")
    assert refusal.document["budget"] == "max_bytes"
    assert refusal.document["limit"] == 20_000
    assert (await verbs.status("a")).result == "x" * 5_000
