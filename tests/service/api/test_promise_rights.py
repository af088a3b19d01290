"""Who may ask, answer, move and forget, and what each of them sees."""

import pytest

from tests.service.access.tokens_file import bearer
from tests.service.api.promised import ASK, ONE, QUESTION

# Without tasks that compete, so one kind of loop is enough.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

AGENT, BOT = "agent wait,signal name=agent prefix=deploy-", "bot answer name=bot prefix=deploy-"
ROOT = "root admin name=root"


@pytest.fixture
def shop(tenants):
    return tenants(AGENT, BOT, ROOT, "other wait name=other").client


async def ask_as(shop, token, method, target, body=None):
    return await shop.request(method, target, body, bearer(token))


async def test_an_agent_asks_and_another_answers(shop):
    assert (await ask_as(shop, "agent", "PUT", ONE, QUESTION)).status == 202
    for verb, body in (("answer", {"choice": "approve"}), ("complete", {}), ("fail", {"error": 1})):
        assert (await ask_as(shop, "agent", "POST", f"{ONE}/{verb}", body)).slug == "forbidden"
    reply = await ask_as(shop, "bot", "POST", f"{ONE}/answer", {"choice": "approve", "by": "somebody else"})
    assert (reply.status, reply.json["by"]) == (200, "bot")
    assert (await ask_as(shop, "agent", "GET", ONE)).json["by"] == "bot"
    assert (await ask_as(shop, "bot", "POST", f"{ONE}/forget", {})).slug == "forbidden"
    assert (await ask_as(shop, "agent", "POST", f"{ONE}/forget", {})).status == 204


async def test_who_answers_sees_only_what_it_may_answer(shop):
    await ask_as(shop, "root", "PUT", "/v1/operations/x", {"keys": ["outside"], "ask": ASK})
    await ask_as(shop, "root", "PUT", ONE, {"keys": ["deploy-77", "outside"], "ask": ASK})
    for target in ("/v1/operations/x", ONE):
        for method, verb, body in (("GET", "", None), ("POST", "/answer", {"choice": "approve"})):
            assert (await ask_as(shop, "bot", method, target + verb, body)).status == 404
    held = shop.start("GET", "/v1/operations/deploy-1?wait=9", headers=bearer("bot"))
    await shop.advance(0)
    assert held.status == 404


async def test_admin_may_say_who_answers(shop):
    await ask_as(shop, "agent", "PUT", ONE, QUESTION)
    assert (await ask_as(shop, "root", "POST", f"{ONE}/complete", {"by": "ann"})).json["by"] == "ann"
    await ask_as(shop, "agent", "PUT", f"{ONE}b", QUESTION)
    assert (await ask_as(shop, "root", "POST", f"{ONE}b/complete", {})).json["by"] == "root"


async def test_the_id_of_another_owner_is_taken_and_nothing_more(shop):
    await ask_as(shop, "agent", "PUT", ONE, QUESTION)
    for _ in range(2):
        reply = await ask_as(shop, "other", "PUT", ONE, QUESTION)
        assert (reply.status, reply.slug) == (409, "duplicate-id")
        assert not reply.json.keys() & {"operation", "differs"}
        await ask_as(shop, "root", "POST", f"{ONE}/complete", {})
        await ask_as(shop, "agent", "POST", f"{ONE}/forget", {})


async def test_a_queue_that_hears_needs_what_a_put_there_needs(shop):
    body = {"announce": "deploy-asks"}
    assert (await ask_as(shop, "agent", "PUT", ONE, body)).status == 202
    assert (await ask_as(shop, "agent", "PUT", f"{ONE}b", {"deliver": "elsewhere"})).slug == "forbidden"
    refused = await ask_as(shop, "other", "PUT", "/v1/operations/o", body)
    assert (refused.slug, refused.json["detail"]) == (
        "forbidden",
        "the token must have the scope signal or admin",
    )


async def test_only_its_maker_moves_a_deadline(shop):
    await ask_as(shop, "agent", "PUT", ONE, QUESTION)
    assert (await ask_as(shop, "other", "POST", f"{ONE}/reschedule", {"timeout": 1})).status == 404
    assert (await ask_as(shop, "bot", "POST", f"{ONE}/reschedule", {"timeout": 1})).status == 403
    assert (await ask_as(shop, "agent", "POST", f"{ONE}/reschedule", {"timeout": 1})).status == 200
    assert (await ask_as(shop, "root", "POST", f"{ONE}/reschedule", {"timeout": 2})).status == 200
