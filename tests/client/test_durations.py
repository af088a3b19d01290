"""The clients take seconds, a `timedelta` or text wherever they take a time."""

import datetime as dt
from dataclasses import replace
from math import ceil

import pytest

from purgatory_async.client import Policy, RequestRefused
from purgatory_async.client._bodies import asked
from tests.client.driving import PENDING, Line, answer
from tests.client.test_clients import served
from tests.client.test_talk import LEASED, LINK, QUEUE
from tests.spellings import DURATIONS, NO_NUMBERS_EITHER, NOT_DURATIONS

# Each call that sends a time in a body: how it is made, an answer to it, and the members that lead to the time.
SENT = {
    "submit": (lambda verbs, time: verbs.submit(asked(timeout=time)), answer(202, PENDING), ["timeout"]),
    "keep": (lambda verbs, time: verbs.attach("o", asked(keep=time)), answer(202, PENDING), ["keep"]),
    "reschedule": (lambda verbs, time: verbs.reschedule("o", time, None), answer(200, PENDING), ["timeout"]),
    "links": (lambda verbs, time: verbs.links("o", None, None, time), answer(201, LINK), ["expires_in"]),
    "put": (lambda verbs, time: verbs.put("q", 1, time), answer(201, {"delivered": False}), ["delay"]),
    "put batch": (
        lambda verbs, time: verbs.put_batch("q", [{"item": 1}, {"item": 2, "delay": time}]),
        answer(201, {"items": []}),
        ["items", 1, "delay"],
    ),
    "take": (lambda verbs, time: verbs.take("q", time, 0), answer(200, LEASED), ["lease"]),
    "take batch": (
        lambda verbs, time: verbs.take_batch("q", 2, time, 0),
        answer(200, {"leases": []}),
        ["lease"],
    ),
    "give back": (lambda verbs, time: verbs.end_lease("l", "return", time), answer(204), ["delay"]),
    "extend": (lambda verbs, time: verbs.extend("l", time), answer(200, {"expires_in": 1}), ["lease"]),
    "set queue": (lambda verbs, time: verbs.set_queue("q", {"lease": time}), answer(200, QUEUE), ["lease"]),
}
POLLED = {
    "follow": (lambda verbs, time: verbs.follow("o", time), answer(200, {**PENDING, "state": "expired"})),
    "watch": (
        lambda verbs, time: verbs.watch("k", 3, time),
        answer(200, {"key": "k", "index": 9, "value": 1}),
    ),
    "take": (lambda verbs, time: verbs.take("q", None, time), answer(200, LEASED)),
    "take batch": (lambda verbs, time: verbs.take_batch("q", 2, None, time), answer(200, {"leases": []})),
}
TIMES = ["poll", "slack", "patience", "first_delay", "max_delay"]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
@pytest.mark.parametrize(("call", "reply", "members"), SENT.values(), ids=SENT)
def test_a_body_has_text_as_it_is_and_a_timedelta_in_seconds(call, reply, members, text, seconds):
    for time, sent in ((text, text), (dt.timedelta(seconds=seconds), seconds), (seconds, seconds)):
        line = Line(reply)
        line.run(call(line.verbs, time))
        found = line.request.body
        for member in members:
            found = found[member]
        assert found == sent


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
@pytest.mark.parametrize(("call", "reply"), POLLED.values(), ids=POLLED)
def test_a_poll_lasts_as_long_in_any_of_the_three(call, reply, text, seconds):
    for time in (text, dt.timedelta(seconds=seconds), seconds):
        line = Line(reply, poll="1h")
        line.run(call(line.verbs, time))
        assert line.waits == [f"{min(ceil(seconds * 1000), 3_600_000)}ms"]


@pytest.mark.parametrize("text", [*NOT_DURATIONS, *NO_NUMBERS_EITHER])
@pytest.mark.parametrize("call", [call for call, _ in POLLED.values()], ids=POLLED)
def test_text_that_is_no_duration_is_refused_before_a_poll(call, text):
    line = Line()
    with pytest.raises(ValueError, match=r"timeout must follow .*; write it as 250ms, 30s"):
        line.run(call(line.verbs, text))


@pytest.mark.parametrize("call", [call for call, _ in POLLED.values()], ids=POLLED)
def test_a_negative_timedelta_is_refused_before_a_poll(call):
    line = Line()
    with pytest.raises(
        ValueError, match=r"timeout must be 0 or more seconds.*got datetime\.timedelta\(days=-1\)"
    ):
        line.run(call(line.verbs, dt.timedelta(days=-1)))


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_a_policy_has_seconds_whatever_it_was_given(name, text, seconds):
    for time in (text, dt.timedelta(seconds=seconds), seconds):
        assert getattr(Policy(**{name: time}), name) == seconds
        assert replace(Policy(), **{name: time}) == Policy(**{name: seconds})


def test_a_policys_bad_time_is_refused_by_its_name():
    with pytest.raises(ValueError, match="max_delay must follow"):
        Policy(max_delay="soon")


@served
async def test_the_service_reads_all_three_alike(each):
    client = each.client
    ways = [("90s", dt.timedelta(seconds=90), 90.0), ("1500ms", dt.timedelta(seconds=1.5), 1.5)]
    for way in ways:
        made = [await client.submit(["k"], timeout=time) for time in way]
        assert {operation.time_left for operation in made} == {way[2]}
        await client.put("q", 1)
        for time in way:
            lease = await client.take("q", lease=time)
            assert (lease.expires_in, await client.extend(lease, time)) == (way[2], way[2])
            await client.give_back(lease)


@served
async def test_a_body_that_the_service_refuses_is_refused_by_it(each):
    with pytest.raises(RequestRefused, match="timeout: a timeout must follow") as refusal:
        await each.client.submit(["k"], timeout="soon")
    assert (refusal.value.status, refusal.value.slug) == (422, "invalid")
    with pytest.raises(RequestRefused, match="/items/1/delay"):
        await each.client.put_batch("q", [{"item": 1}, {"item": 2, "delay": dt.timedelta(seconds=-1)}])
