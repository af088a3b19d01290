"""The page of a link: what it shows of a question, of an end and of a refusal, and that reading decides nothing."""

import re

import pytest

from purgatory_async.service.settings.settings import Settings
from tests.service.links.conftest import words

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

HOSTILE = "</p><script>alert(1)</script>\"'&amp;<b onload=x>"
POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"


async def test_the_page_shows_the_question(questions):
    path = await questions.asked(timeout="90m", text="It passed.\n\nTwice.", link={"by": "Ann"})
    reply = await questions.get(path)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert words(reply).splitlines() == [
        *("Deploy 7?", "It passed.", "", "Twice.", "For", "Ann", "Until", "2026-01-01 13:30 UTC"),
        *("Comment (optional)", "yes", "no"),
    ]


async def test_the_page_shows_no_more_than_there_is(questions):
    path = await questions.asked(text="", comment="none", choices=["ok"])
    assert words(await questions.get(path)).splitlines() == ["Deploy 7?", "ok"]


@pytest.mark.parametrize(
    ("timeout", "link", "until"),
    [("2h", {}, "14:00"), ("2h", {"expires_in": "1h"}, "13:00"), ("1h", {"expires_in": "2h"}, "13:00")],
)
async def test_it_can_be_answered_until_the_earlier_time(questions, timeout, link, until):
    path = await questions.asked(timeout=timeout, link=link)
    assert f"2026-01-01 {until} UTC" in words(await questions.get(path))


@pytest.mark.parametrize("comment", ["optional", "required"])
async def test_every_text_is_escaped(questions, comment):
    choice = HOSTILE  # has less than 64 characters
    path = await questions.asked(
        title=HOSTILE, text=HOSTILE, choices=[choice, "no"], comment=comment, link={"by": HOSTILE}
    )
    for reply in (
        await questions.get(path),
        await questions.post(path, choice="no", comment=HOSTILE * 200),
        await questions.post(path, choice="maybe", comment=HOSTILE),
    ):
        assert choice in words(reply)
        assert not re.search(rb"<(script|b|img)\b", reply.body)
        assert b"\"'&amp;" not in reply.body
    assert (await questions.post(path, choice=choice, comment=HOSTILE)).status == 303
    ended = await questions.get(path)
    assert words(ended).count("<script>") == 3
    assert not re.search(rb"<(script|b|img)\b", ended.body)


async def test_the_page_has_no_script_and_loads_only_its_style(questions):
    path = await questions.asked()
    page = (await questions.get(path)).body.decode()
    assert re.findall(r"(?:href|src|action|formaction)=\S+", page) == ['href="style.css">']
    assert not re.search(r"<script|<style|\bon[a-z]+=|javascript:|style=", page)
    style = await questions.get("/a/style.css")
    assert (style.status, style.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert not re.search(rb"@import|url\(|image-set", style.body)


async def test_every_answer_has_the_headers_that_keep_it_safe(questions):
    path = await questions.asked()
    for reply in (
        await questions.get(path),
        await questions.get(path[:-1]),
        await questions.get("/a/style.css"),
        await questions.post(path, choice="maybe"),
        await questions.post(path, choice="yes"),
        await questions.post(path, choice="no"),
        await questions.get(path),
    ):
        assert reply.headers["content-security-policy"] == POLICY
        assert reply.headers["referrer-policy"] == "same-origin"
        assert reply.headers["x-robots-tag"] == "noindex"
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"


async def test_head_has_the_headers_of_get_and_no_body(questions):
    path = await questions.asked()
    for each in (path, path[:-1], "/a/style.css"):
        whole, head = [await questions.client.request(method, each) for method in ("GET", "HEAD")]
        assert (head.status, head.body, head.headers) == (whole.status, b"", whole.headers)


async def test_reading_decides_nothing_however_often(questions):
    name = await questions.ask()
    path = await questions.link(name)
    before = questions.position
    prefetch = [("purpose", "prefetch"), ("sec-purpose", "prefetch;prerender")]
    for number in range(2_000):
        method = ("GET", "HEAD")[number % 2]
        headers = (
            prefetch if number % 3 else [("sec-fetch-site", "cross-site"), ("origin", "https://mail.example")]
        )
        reply = await questions.client.request(method, f"{path}?choice=yes&n={number % 7}", headers=headers)
        assert reply.status == 200
    assert (questions.position, await questions.state(name)) == (before, "pending")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_are_refused(questions, method):
    path = await questions.asked()
    reply = await questions.client.request(method, path)
    assert (reply.status, reply.slug, reply.headers["allow"]) == (
        *(405, "method-not-allowed"),
        "GET, HEAD, POST",
    )


async def test_a_trailing_slash_is_not_found_and_a_query_ignored(questions):
    path = await questions.asked()
    assert (await questions.get(f"{path}/")).slug == "not-found"
    assert (await questions.get(f"{path}?utm_source=mail&x=%ff&&=")).status == 200
    assert (await questions.client.request("POST", f"{path}?x", {"choice": "yes"})).status == 200


async def test_wrong_cut_and_foreign_links_have_one_page(questions, make_client):
    path = await questions.asked()
    stranger = type(questions)(make_client(public_url="https://holds.example.org/team"))
    foreign = await stranger.asked()
    forged = path[:-2] + ("AA" if path[-2:] != "AA" else "BB")
    wrong = ["/a/", "/a/x", "/a/style", path[:-1], path[:-20], f"{path}A", f"{path}%00", forged, foreign]
    pages = [await questions.get(each) for each in wrong]
    assert {reply.status for reply in pages} == {404}
    assert len({(reply.body, *sorted(reply.headers.items())) for reply in pages}) == 1
    assert words(pages[0]).startswith("No such link")


async def test_a_link_of_another_history_is_foreign(questions, monkeypatch):
    path = await questions.asked()
    monkeypatch.setattr(questions.client.service.state, "epoch", "another")
    assert (await questions.get(path)).status == 404


async def test_an_expired_link_is_gone_before_its_question(questions):
    name = await questions.ask(timeout="1h")
    path = await questions.link(name, expires_in="60s")
    await questions.client.advance(59.9)
    assert (await questions.get(path)).status == 200
    await questions.client.advance(0.1)
    for reply in (await questions.get(path), await questions.post(path, choice="yes")):
        assert (reply.status, words(reply).splitlines()[0]) == (410, "The link has expired")
    refused = await questions.decide(path, choice="yes")
    assert (refused.status, refused.slug) == (410, "link-expired")
    assert await questions.state(name) == "pending"


async def test_a_link_without_a_time_outlives_the_deadline(questions):
    path = await questions.asked(timeout="1h")
    await questions.client.advance(3600)
    assert words(await questions.get(path)).splitlines() == [
        *("Expired", "The time ran out before an answer came.", "At", "2026-01-01 13:00 UTC")
    ]


async def test_a_reschedule_moves_the_end_of_a_link(questions):
    name = await questions.ask(timeout="1h")
    path = await questions.link(name)
    moved = await questions.client.request("POST", f"/v1/operations/{name}/reschedule", {"timeout": "3h"})
    assert moved.status == 200
    assert "2026-01-01 15:00 UTC" in words(await questions.get(path))
    await questions.client.advance(2 * 3600)
    assert (await questions.decide(path, choice="yes")).status == 200


async def test_a_kept_end_is_shown_as_long_as_it_is_kept(questions):
    ask = {"title": "Deploy?"}
    await questions.client.submit("deploys", id="kept", keep="7d", ask=ask)
    path = await questions.link("kept")
    await questions.decide(path, choice="ok")
    await questions.client.advance(7 * 86_400 - 1)
    assert words(await questions.get(path)).startswith("Answered")
    await questions.client.advance(1)
    assert (await questions.get(path)).status == 410


async def test_a_forgotten_question_is_gone(questions):
    path = await questions.asked(timeout="1h")
    await questions.client.advance(3600 + Settings().retention + 1)
    reply = await questions.get(path)
    assert (reply.status, words(reply).splitlines()[0]) == (410, "The question is gone")
    refused = await questions.decide(path, choice="yes")
    assert (refused.status, refused.slug) == (410, "forgotten")


async def test_a_later_question_with_the_same_id_is_another(questions):
    name = await questions.ask(timeout="1s")
    path = await questions.link(name)
    await questions.client.advance(Settings().retention + 2)
    await questions.client.submit("deploys", id=name, ask={"title": "Deploy 8?"})
    for reply in (await questions.get(path), await questions.post(path, choice="yes")):
        assert (reply.status, b"Deploy 8" in reply.body) == (410, False)
    assert await questions.state(name) == "pending"


async def test_an_end_shows_nothing_of_the_question(questions):
    ask = {"title": "Pay SECRET?", "text": "to SECRET", "choices": ["yes", "SECRET"]}
    await questions.client.submit("SECRET", id="SECRET", data="SECRET", ask=ask)
    path = await questions.link("SECRET", by="ann")
    assert (await questions.post(path, choice="yes")).status == 303
    for reply in (
        await questions.get(path),
        await questions.post(path, choice="SECRET"),
        await questions.decide(path, choice="SECRET"),
    ):
        assert b"SECRET" not in reply.body


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ("DELETE", ["Cancelled", "The question was withdrawn."]),
        ("signal", ["Completed", "The question ended without a choice."]),
        ("complete", ["Completed", "The question ended without a choice."]),
    ],
)
async def test_another_end_is_shown_as_what_it_is(questions, how, lines):
    name = await questions.ask()
    path = await questions.link(name)
    if how == "DELETE":
        await questions.client.request("DELETE", f"/v1/operations/{name}")
    elif how == "signal":
        await questions.client.signal("deploys", value={"choice": "yes"})
    else:
        await questions.client.request("POST", f"/v1/operations/{name}/complete", {"result": {"secret": 7}})
    page = words(await questions.get(path))
    assert page.splitlines()[:2] == lines
    assert "secret" not in page


@pytest.mark.parametrize("path", ["/a/{}", "/a/{}/", "/x/a/{}", "/%61/{}", "//a/{}", "/a%2F{}"])
async def test_the_log_never_has_the_token(make_client, path):
    client = make_client(public_url="https://holds.example.org/team", access_log=True, base_path="/team")
    token = "A" * 70
    await client.request("GET", path.format(token))
    await client.request("POST", f"/team{path.format(token)}", {"choice": "yes"})
    logged = client.log.getvalue()
    client.log.truncate(0)
    client.log.seek(0)
    assert logged.count('"path": ') == 2
    assert token not in logged
    assert "/a/-" in logged
