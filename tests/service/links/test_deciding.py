"""``POST /a/{token}``: the one request that decides, once; what it takes, and what it refuses."""

import base64
import random

import pytest

from purgatory_async.testing import settle
from tests.service.conftest import JSON
from tests.service.links.conftest import FORM, PUBLIC, words

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


async def test_the_form_decides_and_leads_back_to_the_page(questions):
    name = await questions.ask()
    path = await questions.link(name, by="Ann")
    reply = await questions.post(path, choice="yes", comment="go\r\non")
    assert (reply.status, reply.body) == (303, b"")
    assert f"/a/{reply.headers['location']}" == path
    assert words(await questions.get(path)).splitlines() == [
        *("Answered", "The question has its answer."),
        *("Answer", "yes", "Comment", "go", "on", "By", "Ann", "At", "2026-01-01 12:00 UTC"),
    ]
    view = (await questions.client.request("GET", f"/v1/operations/{name}")).json
    assert (view["state"], view["by"]) == ("completed", "Ann")
    assert view["result"] == {"choice": "yes", "comment": "go\non"}


async def test_json_decides_and_is_answered_with_the_end(questions):
    path = await questions.asked(link={"by": "Ann"})
    reply = await questions.decide(path, choice="no", comment="not now")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json == {
        "state": "completed",
        "result": {"choice": "no", "comment": "not now"},
        "by": "Ann",
    }


async def test_a_link_without_a_name_answers_for_none(questions):
    path = await questions.asked()
    assert (await questions.decide(path, choice="no")).json["by"] is None
    assert "By" not in words(await questions.get(path))


async def test_the_answer_wakes_who_waits(questions):
    name = await questions.ask()
    held = await questions.client.held("GET", f"/v1/operations/{name}?wait=30s")
    await questions.post(await questions.link(name), choice="yes")
    assert held.json["result"] == {"choice": "yes"}


async def test_the_same_answer_again_is_replayed(questions):
    name = await questions.ask()
    path = await questions.link(name, by="Ann")
    first = await questions.decide(path, choice="yes", comment="a\nb")
    position = questions.position
    again = await questions.decide(path, choice="yes", comment="a\r\nb")
    assert (again.status, again.json) == (200, first.json)
    assert again.headers["idempotency-replayed"] == "true"
    by_form = await questions.post(path, choice="yes", comment="a\nb")
    assert (by_form.status, by_form.headers["idempotency-replayed"]) == (303, "true")
    assert "idempotency-replayed" not in first.headers
    assert await questions.state(name) == "completed"
    assert questions.position <= position + 2


@pytest.mark.parametrize(
    "other", [{"choice": "no"}, {"choice": "yes", "comment": "more"}], ids=["choice", "comment"]
)
async def test_another_answer_is_refused_with_the_first(questions, other):
    path = await questions.asked(link={"by": "Ann"})
    won = await questions.decide(path, choice="yes")
    lost = await questions.decide(path, **other)
    assert (lost.status, lost.slug) == (409, "already-ended")
    assert {name: lost.json[name] for name in ("state", "result", "by")} == won.json
    assert lost.json.keys() == {"type", "title", "status", "detail", "state", "result", "by"}
    page = await questions.post(path, **other)
    assert (page.status, page.headers["content-type"]) == (409, "text/html; charset=utf-8")
    assert words(page).splitlines()[:5] == [
        *("Answered", "It had ended before your answer came, which does not count."),
        *("The question has its answer.", "Answer", "yes"),
    ]


async def test_the_same_answer_of_another_person_is_another(questions):
    name = await questions.ask()
    ann, bob = await questions.link(name, by="Ann"), await questions.link(name, by="Bob")
    assert (await questions.decide(ann, choice="yes")).status == 200
    lost = await questions.decide(bob, choice="yes")
    assert (lost.status, lost.json["by"]) == (409, "Ann")


async def test_of_two_that_race_one_wins(questions):
    for _ in range(20):
        name = await questions.ask()
        paths = [await questions.link(name, by=by) for by in ("Ann", "Bob")]
        replies = [
            questions.client.start("POST", path, {"choice": choice})
            for path, choice in zip(paths, ("yes", "no"), strict=True)
        ]
        await settle()
        won, lost = sorted(replies, key=lambda reply: reply.status)
        assert (won.status, lost.status) == (200, 409)
        assert {member: lost.json[member] for member in won.json} == won.json


@pytest.mark.parametrize(
    ("comment", "sent", "status"),
    [
        ("none", {}, 200),
        ("none", {"comment": ""}, 200),
        ("none", {"comment": "x"}, 422),
        ("optional", {}, 200),
        ("optional", {"comment": ""}, 200),
        ("optional", {"comment": "x" * 4096}, 200),
        ("optional", {"comment": "\r\n" * 4096}, 200),
        ("optional", {"comment": "x" * 4097}, 422),
        ("required", {}, 422),
        ("required", {"comment": ""}, 422),
        ("required", {"comment": "x"}, 200),
    ],
)
async def test_a_comment_is_as_the_question_wants_it(questions, comment, sent, status):
    path = await questions.asked(comment=comment)
    reply = await questions.decide(path, choice="yes", **sent)
    assert reply.status == status
    if status == 422:
        assert reply.json["errors"][0]["pointer"] == "/comment"
        by_form = await questions.post(path, choice="yes", **sent)
        assert by_form.status == 422
        assert words(by_form).splitlines()[1] == f"The comment {reply.json['errors'][0]['detail']}."
    else:
        assert ("comment" in reply.json["result"]) is bool(sent.get("comment"))


async def test_a_refused_form_keeps_what_was_typed(questions):
    path = await questions.asked()
    reply = await questions.post(path, choice="maybe", comment="\n typed <here>\n")
    assert (reply.status, reply.headers["content-type"]) == (422, "text/html; charset=utf-8")
    assert b">\n\n typed &lt;here&gt;\n</textarea>" in reply.body


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"", "/choice"),
        (b"comment=x", "/choice"),
        (b"choice=", "/choice"),
        (b"choice=yes+", "/choice"),
        (b"choice=YES", "/choice"),
        (b"choice=yes&choice=yes", "/choice"),
        (b"choice=yes&comment=a&comment=b", "/comment"),
        (b"choice=yes&comment=%ff", ""),
        (b"choice=yes&comment=\xff", ""),
        (b"choice=yes&comment=%4", ""),
        (b"%ff=1&choice=yes", ""),
    ],
)
async def test_a_form_that_breaks_a_rule_is_refused(questions, body, pointer):
    name = await questions.ask()
    reply = await questions.client.request("POST", await questions.link(name), body, [FORM])
    assert (reply.status, reply.headers["content-type"]) == (422, "text/html; charset=utf-8")
    assert await questions.state(name) == "pending"
    assert pointer.removeprefix("/") in words(reply).splitlines()[1]


@pytest.mark.parametrize(
    "body", [b"choice=yes&x=1&x=2", b"&&choice=yes&", b"choice=%79es&=", b"token=t&choice=yes&CHOICE=no"]
)
async def test_other_fields_of_a_form_are_ignored(questions, body):
    reply = await questions.client.request("POST", await questions.asked(), body, [FORM])
    assert reply.status == 303


@pytest.mark.parametrize(
    "media_type",
    [
        *("application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded; charset=UTF-8"),
        'application/x-www-form-urlencoded;charset="utf-8"',
    ],
)
async def test_a_form_may_name_its_charset(questions, media_type):
    reply = await questions.client.request(
        "POST", await questions.asked(), b"choice=yes", [("content-type", media_type)]
    )
    assert reply.status == 303


@pytest.mark.parametrize(
    ("body", "status", "slug"),
    [
        (b"{}", 422, "invalid"),
        (b'{"choice":7}', 422, "invalid"),
        (b'{"choice":"yes","by":"bob"}', 422, "invalid"),
        (b'{"choice":"yes","comment":null}', 422, "invalid"),
        (b'{"choice":"maybe"}', 422, "invalid"),
        (b'{"choice":"yes","choice":"no"}', 400, "malformed"),
        (b'{"choice":"\xff"}', 400, "malformed"),
        (b"choice=yes", 400, "malformed"),
        (b"", 400, "malformed"),
    ],
)
async def test_json_that_breaks_a_rule_is_refused_as_a_problem(questions, body, status, slug):
    name = await questions.ask()
    reply = await questions.client.request("POST", await questions.link(name), body, [JSON])
    assert (reply.status, reply.slug) == (status, slug)
    assert await questions.state(name) == "pending"


@pytest.mark.parametrize(
    "media_type", ["text/plain", "multipart/form-data; boundary=x", "application/xml", "x; charset=latin-1"]
)
async def test_other_types_are_refused(questions, media_type):
    reply = await questions.client.request(
        "POST", await questions.asked(), b"choice=yes", [("content-type", media_type)]
    )
    assert (reply.status, reply.slug) == (415, "unsupported-media-type")


async def test_a_body_has_at_most_64_kib(questions):
    path = await questions.asked()
    fits = b"choice=maybe&x=" + b"x" * (65536 - 15)
    assert (await questions.client.request("POST", path, fits, [FORM])).status == 422
    longer = await questions.client.request("POST", path, [*([b"x" * 4096] * 16), b"x"], [FORM])
    assert (longer.status, words(longer).splitlines()[0]) == (413, "The comment is too long")
    announced = await questions.client.request(
        "POST", path, b'{"choice":"yes"}', [JSON, ("content-length", "65537")]
    )
    assert (announced.status, announced.slug) == (413, "too-large")


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "https://evil.example", "http://holds.example.org", "https://holds.example.org:8443"),
        *("https://holds.example.org.evil.example", "http://localhost", "https://example.org", ""),
    ],
)
async def test_a_page_of_another_origin_decides_nothing(questions, origin):
    name = await questions.ask()
    path = await questions.link(name)
    page = await questions.post(path, ("origin", origin), choice="yes")
    assert (page.status, words(page).splitlines()[0]) == (403, "Not sent from this page")
    problem = await questions.decide(path, ("origin", origin), choice="yes")
    assert (problem.status, problem.slug) == (403, "cross-origin")
    assert await questions.state(name) == "pending"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_request_of_another_site_decides_nothing(questions, site):
    name = await questions.ask()
    reply = await questions.post(await questions.link(name), ("sec-fetch-site", site), choice="yes")
    assert (reply.status, await questions.state(name)) == (403, "pending")


@pytest.mark.parametrize("origin", ["https://holds.example.org", "HTTPS://Holds.Example.Org:443"])
@pytest.mark.parametrize("host", ["localhost:8765", "holds.example.org"])
async def test_the_page_of_the_public_url_may_decide(questions, origin, host):
    headers = ("origin", origin), ("host", host), ("sec-fetch-site", "same-origin")
    assert (await questions.post(await questions.asked(), *headers, choice="yes")).status == 303


async def test_the_public_url_opens_nothing_else_to_its_pages(questions):
    name = await questions.ask()
    refused = await questions.client.request(
        "POST", f"/v1/operations/{name}/links", {}, [("origin", "https://holds.example.org")]
    )
    assert (refused.status, refused.slug) == (403, "cross-origin")


async def test_forged_links_decide_nothing(questions):
    drawn = random.Random(31)
    name = await questions.ask(choices=["yes"])
    path = await questions.link(name)
    token = path.removeprefix("/a/")
    before, content = questions.position, base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for _ in range(2_000):
        forged = bytearray(content)
        for _ in range(drawn.randint(1, 4)):
            forged[drawn.randrange(len(forged))] ^= drawn.randint(1, 255)
        text = base64.urlsafe_b64encode(bytes(forged)).rstrip(b"=").decode()
        assert text == token or (await questions.decide(f"/a/{text}", choice="yes")).status == 404
    assert (questions.position, await questions.state(name)) == (before, "pending")


async def test_answers_go_on_while_the_service_drains(questions):
    path = await questions.asked()
    questions.client.service.drain()
    assert (await questions.get(path)).status == 200
    assert (await questions.post(path, choice="yes")).status == 303


async def test_a_rotated_secret_keeps_the_links_of_the_old_one(make_client, tmp_path, questions):
    old, new = "old-" + "0" * 32, "new-" + "1" * 32
    path = tmp_path / "secrets"
    path.touch(mode=0o600)
    path.write_text(old)
    asked = type(questions)(make_client(public_url=PUBLIC, link_secret=path))
    links = asked.client.service.links
    first = await asked.asked()
    path.write_text(f"{new}\n{old}\n")
    links.reload()
    second = await asked.asked()
    assert [(await asked.get(each)).status for each in (first, second)] == [200, 200]
    path.write_text(new)
    links.reload()
    assert [(await asked.get(each)).status for each in (first, second)] == [404, 200]


async def test_the_owner_whose_token_made_the_link_is_shown(tenants):
    shop = tenants("ann wait", "ops admin name=ops", public_url=PUBLIC)
    await shop.submit("ann", keys=["a"], id="q", ask={"title": "Deploy?"})
    made = await shop.ask("ops", "POST", "/v1/operations/q/links", {"by": "Bob"})
    path = made.json["url"].removeprefix(PUBLIC)
    reply = await shop.client.request("POST", path, {"choice": "ok"})
    assert reply.json["by"] == "Bob"
    view = (await shop.ask("ops", "GET", "/v1/operations/q")).json
    assert (view["by"], view["via"]) == ("Bob", "ops")
