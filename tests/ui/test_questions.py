"""The view of questions: a person answers in it, once, and knows what became of each."""

from contextlib import closing

import pytest

from purgatory_async.client import Client

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.ui.test_ending import stop

pytestmark = pytest.mark.slow

TO = "\u2013"  # an en dash
COMMENT = "Comment (optional)"
HOSTILE = "<img src=x onerror=alert(1)>\"'</textarea><script>alert(2)</script>"
LONG = {
    "title": "Deploy " + "wxyz" * 48,
    "text": "The build passed.\n\n" + "0123456789" * 60 + "\n" + "Two lines, and <b>no markup</b>.\n" * 200,
    "choices": ["yes", "no", "W" * 64, "later, when the other one is there"],
    "comment": "optional",
}


def ask(client, name, **asked):
    question = {"title": f"{name}?", "choices": ["yes", "no"], "comment": "optional", **asked}
    return client.attach(name, ask=question, timeout="1h", keep="1h")


def card(page, title):
    """One question of the list."""
    return page.locator("#questions li").filter(has=page.get_by_role("heading", name=title, exact=True))


def titles(page):
    return page.get_by_role("region", name="Questions").get_by_role("heading", level=3)


def choose(page, title, choice):
    card(page, title).get_by_role("button", name=choice, exact=True).click()


def confirm(page, choice):
    page.get_by_role("dialog").get_by_role("button", name=choice, exact=True).click()


def facts(region):
    return dict(zip(*(region.locator(tag).all_inner_texts() for tag in ("dt", "dd")), strict=True))


def sent(page):
    """Note what changes something on the service, and its body."""
    requests = []
    page.on("request", lambda each: each.method != "GET" and requests.append((each.url, each.post_data)))
    return requests


def faults(page):
    """What axe finds: the rule, and the first element that breaks it."""
    found = Axe().run(page).response["violations"]
    return [(fault["id"], fault["nodes"][0]["html"]) for fault in found]


def test_an_answer_is_confirmed_and_counts_at_once(service, client, visit):
    ask(client, "one", text="It passed.\n\tTwice.")
    ask(client, "two")
    client.submit(["a"], operation_id="no-question")
    visited = visit(service.address, clock=True)
    page, requests = visited.page, sent(visited.page)
    expect(titles(page)).to_have_text(["one?", "two?"])
    expect(card(page, "one?").get_by_text("It passed.")).to_have_text("It passed.\n\tTwice.")
    expect(card(page, "one?")).to_contain_text("expires in 59 m")
    card(page, "one?").get_by_label(COMMENT).fill("go\non")
    choose(page, "one?", "no")
    dialog = page.get_by_role("dialog", name="Give this answer?")
    for words in ("one?", "go\non", "It counts at once, and cannot be undone."):
        expect(dialog).to_contain_text(words)
    assert (requests, client.status("one").state) == ([], "pending")
    stop(page)
    confirm(page, "no")
    expect(page.locator("#said")).to_have_text("Answered: no")  # without a timer
    page.clock.resume()
    answered = client.status("one")
    assert (answered.choice, answered.comment) == ("no", "go\non")
    assert [url for url, _ in requests] == [f"{service.address}/v1/operations/one/answer"]
    assert client.status("two").state == "pending"
    page.get_by_role("searchbox").focus()
    page.mouse.move(0, 0)
    expect(titles(page)).to_have_text(["two?"])
    assert visited.errors == visited.dialogs == []


@pytest.mark.parametrize("way", ["Not yet", "Escape"])
def test_what_is_not_confirmed_is_not_sent(service, client, visit, way):
    ask(client, "one")
    page = visit(service.address).page
    requests = sent(page)
    choose(page, "one?", "yes")
    if way == "Escape":
        page.keyboard.press(way)
    else:
        confirm(page, way)
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(card(page, "one?").get_by_role("button", name="yes")).to_be_focused()
    assert (requests, client.status("one").state) == ([], "pending")


def test_two_presses_are_one_answer(service, client, visit):
    ask(client, "one")
    page = visit(service.address).page
    requests, held, released = sent(page), [], []
    # A request may come only after it was released.
    page.route("**/answer", lambda route: route.continue_() if released else held.append(route))
    choose(page, "one?", "yes")
    page.locator("#sure").evaluate("button => { button.click(); button.click(); }")
    expect(card(page, "one?").get_by_role("button", name="yes")).to_be_disabled()
    card(page, "one?").get_by_role("button", name="no", exact=True).click(force=True)
    expect(page.get_by_role("dialog")).to_be_hidden()
    released.append(True)
    for route in held:
        route.continue_()
    expect(page.locator("#said")).to_have_text("Answered: yes")
    assert len(requests) == 1


def test_the_keyboard_alone_answers(service, client, visit):
    ask(client, "one")
    page = visit(service.address).page
    card(page, "one?").get_by_label(COMMENT).focus()
    page.keyboard.type("no\n thanks")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(card(page, "one?").get_by_role("button", name="no", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Not yet")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_have_text("Answered: no")
    assert client.status("one").comment == "no\n thanks"


def test_a_comment_that_is_wanted_is_asked_for_first(service, client, visit):
    ask(client, "one", comment="required")
    ask(client, "two", comment="none")
    page = visit(service.address).page
    choose(page, "one?", "yes")
    expect(card(page, "one?").get_by_label("Comment")).to_be_focused()
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(card(page, "two?").get_by_role("textbox")).to_have_count(0)


def test_a_comment_being_typed_survives_what_happens_around_it(service, client, visit):
    for number in range(13):
        ask(client, f"q{number:02}")
    page = visit(service.address).page
    field = card(page, "q03?").get_by_label(COMMENT)
    field.press_sequentially("it has")
    for other in ("q00", "q01", "q13"):
        ask(client, other)
        client.answer(other, "yes")
    expect(card(page, "q00?")).to_contain_text("completed")  # the list was drawn anew
    field.press_sequentially(" data")
    expect(field).to_be_focused()
    page.get_by_role("searchbox").focus()
    expect(titles(page).first).to_have_text("q02?")
    expect(field).to_have_value("it has data")
    page.get_by_role("button", name="Next questions").click()
    expect(titles(page)).to_have_text(["q12?"])
    page.get_by_role("button", name="Ended questions").click()
    expect(titles(page)).to_have_text(["q13?", "q01?", "q00?"])
    page.get_by_role("button", name="Ended questions").click()
    expect(field).to_have_value("it has data")
    card(page, "q03?").get_by_role("link", name="q03").click()
    expect(page.get_by_role("region", name="Operation q03").get_by_label(COMMENT)).to_have_value(
        "it has data"
    )


def test_an_answer_that_came_too_late_shows_what_ended_it(service, client, visit):
    ask(client, "one")
    page = visit(service.address).page
    card(page, "one?").get_by_label(COMMENT).fill("mine")
    choose(page, "one?", "yes")
    client.answer("one", "no", comment="not now", by="bob")
    confirm(page, "yes")
    expect(page.locator("#trouble")).to_contain_text("is completed: cannot answer it")
    expect(card(page, "one?")).to_contain_text("not now")
    shown = facts(card(page, "one?"))
    assert "2" in shown.pop("Ended")
    assert shown == {"State": "completed", "Answer": "no", "Comment": "not now", "By": "bob"}
    expect(card(page, "one?").get_by_label(COMMENT)).to_have_value("mine")
    assert client.status("one").choice == "no"


def test_a_later_question_with_the_same_id_is_not_answered(service, client, visit):
    client.submit(["a"], operation_id="one", ask={"title": "Deploy?"})
    page = visit(service.address).page
    expect(titles(page)).to_have_text(["Deploy?"])
    page.route("**/ui/questions?*", lambda route: route.abort())  # as if it slept
    choose(page, "Deploy?", "ok")
    client.cancel("one")
    client.forget("one")
    client.submit(["a"], operation_id="one", ask={"title": "Delete?"})
    confirm(page, "ok")
    expect(page.locator("#trouble")).to_contain_text("another operation has this id now")
    assert client.status("one").state == "pending"


def test_ended_questions_show_what_became_of_them(service, client, visit):
    for name in ("answered", "completed", "failed", "cancelled", "pending"):
        ask(client, name)
    client.answer("answered", "no", comment="not\nyet \u202e", by="ann")
    client.complete("completed", result={"n": [1, 2]})
    client.fail("failed", {"no": "body"})
    client.cancel("cancelled")
    page = visit(service.address).page
    expect(titles(page)).to_have_text(["pending?"])
    toggle = page.get_by_role("button", name="Ended questions")
    toggle.click()
    expect(toggle).to_have_attribute("aria-pressed", "true")
    expect(titles(page)).to_have_text(["cancelled?", "failed?", "completed?", "answered?"])
    assert page.locator("#questions button").count() == 0
    shown = {name: facts(card(page, f"{name}?")) for name in ("answered", "completed", "failed", "cancelled")}
    assert all("2" in each.pop("Ended") for each in shown.values())
    assert shown == {
        "answered": {"State": "completed", "Answer": "no", "Comment": "not\nyet \\u{202e}", "By": "ann"},
        "completed": {"State": "completed", "Result": '{"n":[1,2]}'},
        "failed": {"State": "failed", "Error": '{"no":"body"}'},
        "cancelled": {"State": "cancelled"},
    }


def test_pages_reach_every_question(service, client, visit):
    for number in range(23):
        ask(client, f"q{number:02}")
    page = visit(service.address).page
    region = page.get_by_role("region", name="Questions")
    following, previous = (
        page.get_by_role("button", name=f"{which} questions") for which in ("Next", "Previous")
    )
    expect(region.get_by_text(f"1{TO}10 of 23")).to_be_visible()
    expect(previous).to_be_disabled()
    following.click()
    expect(region.get_by_text(f"11{TO}20 of 23")).to_be_visible()
    following.click()
    expect(titles(page)).to_have_text(["q20?", "q21?", "q22?"])
    expect(following).to_be_disabled()
    previous.click()
    expect(titles(page).first).to_have_text("q10?")
    for number in range(18):
        client.cancel(f"q{number:02}")
    expect(region.get_by_text(f"1{TO}5 of 5")).to_be_visible()


def test_the_detail_of_a_question_answers_it(service, client, visit):
    ask(client, "one")
    page = visit(f"{service.address}/ui/#operation=one", whole=True).page
    region = page.get_by_role("region", name="Operation one")
    expect(region).to_contain_text("an answer")
    expect(region.get_by_role("button", name="Complete")).to_have_count(0)
    region.get_by_role("button", name="yes").click()
    confirm(page, "yes")
    expect(region).to_contain_text("completed")
    assert facts(region)["Answer"] == "yes"
    expect(region.get_by_role("button", name="yes")).to_be_disabled()


@pytest.mark.parametrize(
    ("text", "result"), [("", None), ('{"n": [1, 2.50]}', {"n": [1, 2.5]}), (" null ", None)]
)
def test_an_operation_is_completed_with_a_json_value(service, client, visit, text, result):
    client.submit(["a"], operation_id="one")
    page = visit(service.address, clock=True).page
    row = page.get_by_role("row", name="one")
    row.get_by_role("button", name="Complete").click()
    field = page.get_by_role("textbox", name="Result, as JSON")
    field.fill("so be it")
    confirm(page, "Complete")
    expect(page.get_by_role("alert").filter(has_text="This is not JSON")).to_be_visible()
    expect(field).to_be_focused()
    field.fill(text)
    confirm(page, "Complete")
    requests = sent(page)
    page.clock.run_for(5000)
    service.until_state("one", "completed")
    assert client.status("one").result == result
    assert [body for _, body in requests] == [f'{{"result":{text.strip()}}}' if text else None]


def test_what_a_question_says_is_never_markup(service, client, visit):
    joined = "\u0645\u06cc\u200c\u0634\u0648\u062f \U0001f468\u200d\U0001f469"
    ask(client, "one", title=HOSTILE, text=HOSTILE, choices=[HOSTILE[:64], joined])
    visited = visit(service.address)
    page = visited.page
    expect(titles(page)).to_have_text([HOSTILE])
    expect(page.locator("#questions .text")).to_have_text(HOSTILE)
    expect(page.locator("#operations .waits")).to_have_text(f"an answer: {HOSTILE}")
    expect(page.locator("#questions button").last).to_have_text(joined)
    page.get_by_label(COMMENT).fill(HOSTILE)
    page.locator("#questions button").first.click()
    expect(page.locator("#sure")).to_have_text(HOSTILE[:64])
    confirm(page, HOSTILE[:64])
    expect(page.locator("#said")).to_have_text(f"Answered: {HOSTILE[:64]}")
    assert client.status("one").comment == HOSTILE
    page.get_by_role("button", name="Ended questions").click()
    expect(page.locator("#questions dd").nth(2)).to_have_text(HOSTILE)
    assert page.locator("body img, body script").count() == 0
    assert visited.dialogs == visited.errors == []


@pytest.mark.parametrize("scopes", ["read", "read,answer", "admin"])
def test_a_token_is_offered_what_it_may_do(serve, tmp_path, visit, scopes):
    admin, token = "admin-0123456789abcdef", "token-0123456789abcdef"
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text(f"{admin} admin name=root\n{token} {scopes} name=ann\n")
    service = serve("--tokens", str(path))
    with closing(Client(service.address, token=admin)) as client:
        ask(client, "one")
        client.submit(["a"], operation_id="two")
        page = visit(service.address).page
        page.get_by_label("Token", exact=True).fill(token)
        page.keyboard.press("Enter")
        expect(titles(page)).to_have_text(["one?"])
        may = scopes != "read"
        expect(page.get_by_text("To answer, the token needs the scope answer.")).to_be_visible(
            visible=not may
        )
        expect(card(page, "one?").get_by_role("button")).to_have_count(2 * may)
        expect(card(page, "one?").get_by_label(COMMENT)).to_be_visible(visible=may)
        row = page.get_by_role("row", name="two")
        expect(row.get_by_role("button", name="Complete")).to_have_count(int(may))
        expect(row.get_by_role("button", name="Cancel")).to_have_count(int(scopes == "admin"))
        if may:
            choose(page, "one?", "yes")
            confirm(page, "yes")
            expect(page.locator("#said")).to_have_text("Answered: yes")
            assert client.status("one").by == "ann"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_320_pixels_and_axe_finds_nothing(service, client, visit, scheme):
    ask(client, "long", **LONG)
    ask(client, "short")
    ask(client, "ended", **LONG)
    client.answer("ended", "W" * 64, comment="w" * 4096, by="Ann" * 40)
    page = visit(service.address, color_scheme=scheme, viewport={"width": 320, "height": 640}).page
    expect(titles(page)).to_have_count(2)

    def _check():
        for width in (320, 400, 641, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") == width
        assert faults(page) == []
        page.set_viewport_size({"width": 320, "height": 640})
        assert faults(page) == []

    _check()
    page.get_by_label(COMMENT).first.fill("w" * 4096)
    card(page, LONG["title"]).get_by_role("button", name="W" * 64).click()
    _check()
    confirm(page, "Not yet")
    page.get_by_role("button", name="Ended questions").click()
    expect(titles(page)).to_have_text([LONG["title"]])
    _check()


@pytest.mark.parametrize("scopes", ["answer", "signal"])
def test_a_token_that_may_not_list_opens_a_question_by_its_id(serve, tmp_path, visit, scopes):
    admin, token = "admin-0123456789abcdef", "token-0123456789abcdef"
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text(f"{admin} admin name=root\n{token} {scopes} name=ann\n")
    service = serve("--tokens", str(path))
    with closing(Client(service.address, token=admin)) as client:
        ask(client, "one")
        page = visit(service.address, viewport={"width": 320, "height": 640}).page
        page.get_by_label("Token", exact=True).fill(token)
        page.keyboard.press("Enter")
        expect(page.get_by_text("Nothing is listed: the token must have the scope read")).to_be_visible()
        expect(page.locator("#figures")).to_be_hidden()
        page.get_by_label("Id of the question").fill("one")
        page.keyboard.press("Enter")
        region = page.get_by_role("region", name="Operation one")
        expect(region.get_by_role("heading", name="Operation one")).to_be_focused()
        if scopes == "signal":
            expect(region).to_contain_text("the token must have the scope")
        else:
            expect(region.get_by_role("button")).to_have_text(["yes", "no", "Close"])
            region.get_by_label(COMMENT).fill("go on")
            region.get_by_role("button", name="yes").click()
            confirm(page, "yes")
            expect(region).to_contain_text("completed")
            answered = client.status("one")
            assert (answered.choice, answered.comment, answered.by) == ("yes", "go on", "ann")
            region.get_by_role("button", name="Close").click()
            expect(page.get_by_label("Id of the question")).to_be_focused()
            page.keyboard.press("Enter")
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        page.get_by_label("Token", exact=True).fill("wrong-0123456789abcdef")
        page.keyboard.press("Enter")
        expect(page.locator("#trouble")).to_be_visible()
        expect(region).to_be_hidden()
        page.get_by_label("Token", exact=True).fill(admin)
        page.keyboard.press("Enter")
        expect(region).to_contain_text("one?")
        region.get_by_role("button", name="Back to the list").click()
        expect(region).to_be_hidden()
        expect(page.get_by_label("Id of the question")).to_be_hidden()
