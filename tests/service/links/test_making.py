"""``POST /v1/operations/{id}/links``: what a link offers, for how long, and why there is none."""

import pytest

from purgatory_async.durable.links.link import Link, log_name
from tests.service.links.conftest import PUBLIC, words

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


def opened(questions, path):
    """What the token of a page says."""
    return questions.client.service.links.open(path.removeprefix("/a/").encode())


async def test_a_link_leads_below_the_public_url(questions):
    name = await questions.ask()
    made = await questions.client.request("POST", f"/v1/operations/{name}/links")
    assert made.status == 201
    assert made.json.keys() == {"url", "expires_at"}
    assert made.json["url"].startswith(f"{PUBLIC}/a/")
    assert made.json["expires_at"] is None


async def test_its_token_says_what_was_asked_for(questions):
    name = await questions.ask(choices=["a", "b", "c"])
    path = await questions.link(name, by="ann", choices=["c", "a", "c"], expires_in="90s")
    service = questions.client.service
    assert opened(questions, path) == Link(
        log=log_name(service.state.epoch),
        position=1,
        choices=(0, 2),
        by="ann",
        via=None,
        expires_us=service.state.now_us() + 90_000_000,
    )


async def test_it_expires_with_its_own_time_or_its_question(questions):
    name = await questions.ask(timeout="2h")
    for order, until in (
        ({}, "2026-01-01T14:00:00Z"),
        ({"expires_in": 1}, "2026-01-01T12:00:01Z"),
        ({"expires_in": "3h"}, "2026-01-01T15:00:00Z"),
        ({"expires_in": "999d"}, "2027-01-02T12:00:00Z"),
    ):
        made = await questions.client.request("POST", f"/v1/operations/{name}/links", order)
        assert made.json["expires_at"] == until


async def test_making_a_link_changes_nothing(questions):
    name = await questions.ask()
    before = questions.position
    for _ in range(3):
        await questions.link(name)
    assert (questions.position, await questions.state(name)) == (before, "pending")


@pytest.mark.parametrize(
    ("order", "pointer"),
    [
        ({"by": ""}, "/by"),
        ({"by": "é" * 65}, "/by"),
        ({"by": "a\nb"}, "/by"),
        ({"by": None}, "/by"),
        ({"choices": []}, "/choices"),
        ({"choices": ["yes", "maybe"]}, "/choices/1"),
        ({"choices": ["YES"]}, "/choices/0"),
        ({"choices": "yes"}, "/choices"),
        ({"expires_in": "0s"}, "/expires_in"),
        ({"expires_in": "999ms"}, "/expires_in"),
        ({"expires_in": -1}, "/expires_in"),
        ({"expires_in": "soon"}, "/expires_in"),
        ({"until": "1h"}, "/until"),
    ],
)
async def test_an_order_that_breaks_a_rule_is_refused(questions, order, pointer):
    name = await questions.ask()
    refused = await questions.client.request("POST", f"/v1/operations/{name}/links", order)
    assert (refused.status, refused.slug) == (422, "invalid")
    assert refused.json["errors"][0]["pointer"] == pointer


async def test_a_name_may_have_128_bytes(questions):
    path = await questions.asked(link={"by": "é" * 64})
    assert opened(questions, path).by == "é" * 64


async def test_an_operation_without_a_question_has_no_link(questions):
    await questions.client.submit("deploys", id="plain")
    refused = await questions.client.request("POST", "/v1/operations/plain/links", {})
    assert (refused.status, refused.slug) == (422, "invalid")


async def test_an_ended_question_has_no_new_link(questions):
    name = await questions.ask()
    await questions.client.request("DELETE", f"/v1/operations/{name}")
    refused = await questions.client.request("POST", f"/v1/operations/{name}/links", {})
    assert (refused.status, refused.slug) == (409, "already-ended")
    assert refused.json["operation"]["state"] == "cancelled"


async def test_an_unknown_operation_has_no_link(questions):
    refused = await questions.client.request("POST", "/v1/operations/nowhere/links", {})
    assert (refused.status, refused.slug) == (404, "unknown-operation")


async def test_without_a_public_url_links_are_off(client):
    await client.submit("deploys", id="q", ask={"title": "Deploy?"})
    refused = await client.request("POST", "/v1/operations/q/links", {})
    assert (refused.status, refused.slug, refused.json["flag"]) == (409, "links-off", "--public-url")


async def test_a_link_offers_only_its_part_of_the_choices(questions):
    path = await questions.asked(choices=["yes", "no", "later"], link={"choices": ["later", "no"]})
    page = words(await questions.get(path))
    assert page.splitlines()[-2:] == ["no", "later"]
    assert (await questions.decide(path, choice="yes")).slug == "invalid"
    assert (await questions.decide(path, choice="later")).status == 200
