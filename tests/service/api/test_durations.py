"""One table of durations at every place of the service: queries, bodies, settings, and the description of them."""

import datetime as dt
import json
import re
from urllib.parse import quote

import pytest

from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.api.openapi import document
from purgatory_async.service.api.query_string import parse_query
from purgatory_async.service.api.routes import ROUTES
from purgatory_async.service.settings.settings import Settings, SettingsError, resolve
from tests.service.conftest import NOON
from tests.spellings import DURATIONS, NO_NUMBERS_EITHER, NOT_DURATIONS, UNBOUNDED

REFUSED = [*NOT_DURATIONS, *NO_NUMBERS_EITHER]
SETTINGS = [
    *("max_wait", "keep_for", "max_lease", "retention", "drain_delay", "header_timeout", "body_timeout"),
    *("send_timeout", "store_timeout", "journal_keep"),
]
# Each body with a duration: the request, and the pointer to it.
BODIES = [
    ("POST", "/v1/operations", {"keys": ["k"], "timeout": ...}, "/timeout"),
    ("PUT", "/v1/operations/none", {"timeout": ...}, "/timeout"),
    ("PUT", "/v1/operations/none", {"keep": ...}, "/keep"),
    ("POST", "/v1/operations/none/reschedule", {"timeout": ...}, "/timeout"),
    ("POST", "/v1/operations/none/links", {"expires_in": ...}, "/expires_in"),
    ("POST", "/v1/queues/q/items", {"item": 1, "delay": ...}, "/delay"),
    ("POST", "/v1/queues/q/items", {"items": [{"item": 1, "delay": ...}]}, "/items/0/delay"),
    ("POST", "/v1/leases/none/return", {"delay": ...}, "/delay"),
    ("POST", "/v1/queues/q/take", {"lease": ...}, "/lease"),
    ("POST", "/v1/leases/none/extend", {"lease": ...}, "/lease"),
    ("PUT", "/v1/queues/q", {"lease": ...}, "/lease"),
]


def filled(body, value):
    """A body with a value in its place."""
    return json.loads(json.dumps(body, default=lambda _: value))


@pytest.mark.parametrize(("text", "seconds"), (DURATIONS | UNBOUNDED).items())
def test_a_query_waits_as_long(text, seconds):
    for written in (text, "".join(f"%{ord(each):02x}" for each in text)):
        assert parse_query(f"key=k&wait={written}".encode(), frozenset({"key", "wait"})).wait() == seconds


@pytest.mark.parametrize("text", REFUSED)
def test_a_query_refuses_anything_else(text):
    query = parse_query(f"wait={quote(text)}".encode(), frozenset({"wait"}))
    with pytest.raises(
        Problem, match=r"'wait' must be \[0-9\]\{1,9\}\(ms\|s\|m\|h\|d\)\?, got .*; write it as"
    ):
        query.wait()


def after(moment):
    """The seconds from the present to a time of an answer."""
    return (dt.datetime.fromisoformat(moment) - NOON).total_seconds()


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
@pytest.mark.asyncio
async def test_bodies_have_it_as_text_or_as_a_number(make_client, text, seconds):
    for value in (text, seconds):
        client = make_client(max_lease="36525d")
        made = await client.request("POST", "/v1/operations", {"keys": ["k"], "timeout": value})
        assert (made.json["state"], after(made.json["deadline"])) == (
            "pending" if seconds else "expired",
            seconds,
        )
        await client.request("POST", "/v1/queues/q/items", {"item": 1, "delay": value})
        await client.request("POST", "/v1/queues/q/items", {"items": [{"item": 2, "delay": value}]})
        if not seconds:
            continue
        shown = await client.request("GET", "/v1/queues/q/items?delayed=1")
        assert [after(item["due_at"]) for item in shown.json["items"]] == [seconds, seconds]
        await client.request("POST", "/v1/queues/q/purge")
        await client.request("POST", "/v1/queues/q/items", {"item": 3})
        taken = await client.request("POST", "/v1/queues/q/take", {"lease": value})
        path = f"/v1/leases/{taken.json['lease']}"
        extended = await client.request("POST", f"{path}/extend", {"lease": value})
        queue = await client.request("PUT", "/v1/queues/q", {"lease": value})
        assert taken.json["expires_in"] == extended.json["expires_in"] == queue.json["lease"] == seconds
        await client.request("POST", f"{path}/return", {"delay": value})
        [shown] = (await client.request("GET", "/v1/queues/q/items?delayed=1")).json["items"]
        assert after(shown["due_at"]) == seconds


@pytest.mark.parametrize("value", [0.0, "0", "0ms", "000000000d"])
@pytest.mark.asyncio
async def test_a_lease_of_no_time_is_refused(client, value):
    for method, target, body, pointer in BODIES:
        if pointer == "/lease":
            answer = await client.request(method, target, filled(body, value))
            assert answer.json["errors"] == [
                {"pointer": pointer, "detail": f"must be above 0 seconds, got {value!r}"}
            ]


@pytest.mark.parametrize("text", [*REFUSED, *UNBOUNDED])
@pytest.mark.asyncio
async def test_bodies_refuse_anything_else(client, text):
    bound = (
        "be from 0 to 3155760000 seconds (100 years)"
        if text in UNBOUNDED
        else "follow [0-9]{1,9}(ms|s|m|h|d)?"
    )
    for method, target, body, pointer in BODIES:
        answer = await client.request(method, target, filled(body, text))
        assert (answer.status, answer.slug) == (422, "invalid")
        [fault] = answer.json["errors"]
        assert fault["pointer"] == pointer
        assert f"a {pointer.rpartition('/')[2]} must {bound}, got {text!a}" in fault["detail"]


@pytest.mark.parametrize(("text", "seconds"), [pair for pair in DURATIONS.items() if pair[1]])
def test_a_setting_is_the_same_from_every_source(text, seconds):
    for name in SETTINGS:
        for found in (
            Settings(**{name: text}),
            Settings(**{name: seconds}),
            resolve(file={name: text}, environment={}, flags={}),
            resolve(file={name: seconds}, environment={}, flags={}),
            resolve(file={}, environment={f"PURGATORY_{name.upper()}": text}, flags={}),
            resolve(file={}, environment={}, flags={name: text}),
        ):
            assert getattr(found, name) == seconds


@pytest.mark.parametrize("text", [*REFUSED, *UNBOUNDED])
def test_a_setting_refuses_anything_else(text):
    for name in SETTINGS:
        with pytest.raises(SettingsError, match=f"^{name} in the command line: .*must") as refusal:
            resolve(file={}, environment={}, flags={name: text})
        assert "[0-9]{1,9}(ms|s|m|h|d)?" in str(refusal.value)


def patterns(node, *names):
    """The patterns of durations in a document, by their place."""
    if isinstance(node, dict | list):
        for name, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from patterns(value, *names, name)
    elif names[-1] == "pattern" and "(ms|s|m|h|d)?" in node:
        yield names, node


def test_the_description_shows_the_text_beside_the_number():
    found = dict(patterns(document(ROUTES)))
    assert sorted(names[2:5:2] for names in found if names[1] == "schemas") == [
        *[
            *[("Attach", "keep"), ("Attach", "timeout")],
            ("ExtendBody", "lease"),
            *[("ItemBody", "delay"), ("LinkBody", "expires_in")],
            ("QueueBody", "lease"),
            *[("Reschedule", "timeout"), ("ReturnBody", "delay")],
        ],
        *[("Submit", "keep"), ("Submit", "timeout"), ("TakeBody", "lease")],
    ]
    assert len(found) > len(BODIES)  # and where requests wait
    for names, pattern in found.items():
        some = not {"lease", "expires_in"}.isdisjoint(names)
        for text, seconds in DURATIONS.items():
            assert (re.search(pattern, text) is not None) is (seconds > 0 or not some), (names, text)
        for each in REFUSED:
            # The end of a text is $ in JSON Schema; in Python a last newline may follow.
            assert not re.search(pattern.replace("$", r"\Z"), each.values[0]), (names, each.values)
