"""The commands for questions: their requests, their output and their exit codes."""

import json
import signal
import urllib.request

import httpx2
import pytest

from purgatory_async.client import Client
from tests.cli.faked import OPERATION, ended, problem
from tests.ports import free_port
from tests.processes import PATIENCE_S, Served, purgatory
from tests.processes import ended as run

URL = "https://example.org/a/token"
ASK = ("ask", "o", "Deploy?")
HOSTILE = "\x1b[2J\n"


def answer(state, **members):
    return httpx2.Response(200, json={**ended(state), "result": None, **members})


def asking(*later, attached=False, link=None):
    """Answer a PUT with a pending question, a request for a link with one or `link`, then each GET with the next."""
    left = iter(later)

    def reply(request):
        if request.method == "PUT":
            return httpx2.Response(
                202, json=OPERATION, headers={"X-Purgatory-Attached": "true"} if attached else {}
            )
        if request.url.path.endswith("links"):
            return link or httpx2.Response(201, json={"url": URL, "expires_at": None})
        found = next(left)
        if isinstance(found, BaseException):
            raise found
        return found

    return reply


def sent(faked):
    return [(each.method, each.url.path.removeprefix("/v1/operations")) for each in faked.requests]


def test_a_question_is_put_under_its_id_and_waited_for(faked, cli):
    faked.reply = asking(answer("completed", result={"choice": "é"}, by="Ann"))
    code, out, err = cli(*ASK, "--timeout", "24h")
    assert (code, out) == (6, '{"choice": "\\u00e9"}\n')
    assert err == ["asked o; it expires in 1 m 10 s", "completed by Ann after 20.0 s"]
    assert sent(faked) == [("PUT", "/o"), ("GET", "/o")]
    body = json.loads(faked.requests[0].content)
    question = {"title": "Deploy?", "comment": "none"}
    assert body == {"ask": question, "keep": 604_800, "need": "any", "timeout": 86_400}


def test_a_question_has_all_that_is_given(faked, cli):
    faked.reply = answer("completed")
    terms = ["--text", "b\n", "--choice", "yes", "--choice", "no", "--comment", "required"]
    cli(*ASK, *terms, "--keep", "1d", "--announce", "questions")
    question = {"title": "Deploy?", "text": "b\n", "choices": ["yes", "no"], "comment": "required"}
    assert faked.body["ask"] == question
    assert (faked.body["timeout"], faked.body["keep"], faked.body["announce"]) == (None, 86_400, "questions")


def test_a_question_that_has_ended_is_answered_at_once(faked, cli):
    faked.reply = answer("completed", result=7)
    assert cli(*ASK, "--link") == (6, "7\n", ["completed after 20.0 s"])
    assert sent(faked) == [("PUT", "/o")]


def test_a_question_asked_before_is_attached_to(faked, cli):
    faked.reply = asking(answer("completed"), attached=True)
    assert cli(*ASK)[2][0] == "attached to o; it expires in 1 m 10 s"


@pytest.mark.parametrize(
    ("state", "code"), [("completed", 6), ("expired", 3), ("cancelled", 4), ("failed", 5), ("closed", 1)]
)
def test_the_exit_code_of_ask_tells_how_it_ended(faked, cli, state, code):
    faked.reply = asking(answer(state))
    found, out, err = cli(*ASK)
    assert (found, out) == (code, "null\n" if state == "completed" else "")
    assert err[-1] == f"{state} after 20.0 s"


@pytest.mark.parametrize(
    ("choices", "result", "code"),
    [
        (("yes", "no"), {"choice": "yes"}, 0),
        (("yes", "no"), {"choice": "no"}, 6),
        (("yes", "no"), None, 6),  # a bare signal, or `purgatory complete`
        ((), {"choice": "ok"}, 0),
    ],
)
def test_ask_exits_0_for_the_first_choice_alone(faked, cli, choices, result, code):
    faked.reply = answer("completed", result=result, ask={"title": "Deploy?", "choices": choices or ("ok",)})
    assert cli(*ASK, *(f"--choice={choice}" for choice in choices))[0] == code


def test_why_a_question_failed_is_told_and_obeyed_by_no_terminal(faked, cli):
    faked.reply = asking(answer("failed", error={HOSTILE: "é"}, by=HOSTILE))
    assert cli(*ASK)[2][-1] == r'failed by \x1b[2J\n after 20.0 s: {"\u001b[2J\n": "é"}'


def test_an_interrupted_ask_exits_130_and_the_question_stays(faked, cli):
    faked.reply = asking(KeyboardInterrupt())
    assert cli(*ASK)[0] == 130
    assert sent(faked) == [("PUT", "/o"), ("GET", "/o")]


def test_the_link_is_told_once_the_question_is_asked(faked, cli):
    faked.reply = asking(answer("completed"))
    assert cli(*ASK, "--link", "--by", "Ann")[2][1] == URL
    assert sent(faked) == [("PUT", "/o"), ("POST", "/o/links"), ("GET", "/o")]
    assert json.loads(faked.requests[1].content) == {"by": "Ann"}


def test_where_links_are_off_ask_ends_with_2(faked, cli):
    faked.reply = asking(link=problem(409, "links-off", "--public-url must be the URL"))
    code, out, [asked, line] = cli(*ASK, "--link")
    assert (code, out, asked) == (2, "", "asked o; it expires in 1 m 10 s")
    assert "--public-url" in line
    assert "DELETE" not in {method for method, _ in sent(faked)}


def test_an_answer_before_its_link_is_made_counts(faked, cli):
    faked.reply = asking(answer("completed"), link=problem(409, "already-ended"))
    assert cli(*ASK, "--link")[:2] == (6, "null\n")


@pytest.mark.parametrize(
    ("arguments", "verb", "body"),
    [
        (["answer", "o", "no"], "answer", {"choice": "no"}),
        (
            ["answer", "o", "no", "--comment", "7", "--by", "Ann"],
            "answer",
            {"choice": "no", "comment": "7", "by": "Ann"},
        ),
        (["complete", "o"], "complete", {}),
        (["complete", "o", "null", "--by", "Ann"], "complete", {"result": None, "by": "Ann"}),
        (["complete", "o", "7 apples"], "complete", {"result": "7 apples"}),
        (["fail", "o", '{"a": 1}', "--by", "Ann"], "fail", {"error": {"a": 1}, "by": "Ann"}),
        (["fail", "o", "disk full"], "fail", {"error": "disk full"}),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_an_answer_is_sent_once_and_its_state_shown(faked, cli, arguments, verb, body):
    faked.reply = answer("completed")
    assert cli(*arguments) == (0, "completed\n", [])
    assert sent(faked) == [("POST", f"/o/{verb}")]
    assert faked.body == body


@pytest.mark.parametrize(
    ("given", "timeout", "line"), [("2h", 7200, "expires in 1 m 10 s"), ("inf", None, "never expires")]
)
def test_reschedule_moves_the_deadline_from_now(faked, cli, given, timeout, line):
    deadline = timeout and OPERATION["deadline"]
    faked.reply = httpx2.Response(200, json={**OPERATION, "deadline": deadline})
    assert cli("reschedule", "o", given) == (0, f"{line}\n", [])
    assert (sent(faked), faked.body) == ([("POST", "/o/reschedule")], {"timeout": timeout})


def test_forget_says_so(faked, cli):
    faked.reply = httpx2.Response(204)
    assert cli("forget", "o") == (0, "forgotten\n", [])
    assert sent(faked) == [("POST", "/o/forget")]


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ([], {}),
        (
            ["--by", "Ann", "--choice", "yes", "--expires-in", "2h"],
            {"by": "Ann", "choices": ["yes"], "expires_in": 7200},
        ),
    ],
    ids=["bare", "whole"],
)
@pytest.mark.parametrize("at", [None, "2026-01-01T12:00:00Z"])
def test_a_link_is_alone_on_standard_output(faked, cli, options, body, at):
    faked.reply = httpx2.Response(201, json={"url": f"{URL}\x1b", "expires_at": at})
    assert cli("link", "o", *options) == (
        0,
        f"{URL}\\x1b\n",
        ["never expires" if at is None else f"expires at {at}"],
    )
    assert (sent(faked), faked.body) == ([("POST", "/o/links")], body)


ASKED = {"ask": {"title": f"Deploy?{HOSTILE}", "choices": ["yes", "no"]}, "keys": ["o"]}
ENDS = [
    {
        **ended("completed"),
        **ASKED,
        "result": {"choice": "no", "comment": HOSTILE},
        "by": HOSTILE,
        "via": "bot",
    },
    {**ended("failed"), **ASKED, "error": {"a": "é"}},
    {**ended("expired"), **ASKED},
]


@pytest.mark.parametrize("state", ["ended", "all"])
def test_ls_shows_how_operations_ended(faked, cli, state):
    faked.reply = httpx2.Response(200, json={"operations": ENDS})
    code, out, err = cli("ls", "--state", state, "--id-prefix", "deploy-")
    assert (code, err) == (0, [])
    assert [line.split(maxsplit=6)[2:] for line in out.splitlines()] == [
        ["state", "after", "by", "answer"],
        ["completed", "20.0", "s", r"\x1b[2J\n", r"no: \x1b[2J\n"],
        ["failed", "20.0", "s", "-", '{"a": "é"}'],
        ["expired", "20.0", "s", "-", "-"],
    ]
    assert dict(faked.requests[0].url.params) == {"state": state, "id_prefix": "deploy-", "limit": "1000"}


@pytest.mark.parametrize(
    ("state", "line"), [("all", "no operation is kept"), ("failed", "nothing is failed")]
)
def test_ls_of_no_ended_operation_says_so(faked, cli, state, line):
    faked.reply = httpx2.Response(200, json={"operations": []})
    assert cli("ls", "--state", state) == (0, f"{line}\n", [])


def test_why_tells_the_question_and_its_answer(faked, cli):
    faked.reply = httpx2.Response(200, json=ENDS[0])
    out = cli("why", "o")[1]
    assert r"asks         Deploy?\x1b[2J\n (yes, no)" in out
    assert r"ended by     \x1b[2J\n, by a link of bot" in out
    assert r"answer       no: \x1b[2J\n" in out
    faked.reply = httpx2.Response(200, json={**ENDS[0], "by": None})
    assert "ended by     -, by a link of bot" in cli("why", "o")[1]


def test_why_tells_who_asks_until_when_and_who_hears_of_it(faked, cli):
    question = {"title": f"Deploy?{HOSTILE}", "choices": ["yes", "no"], "comment": "required"}
    members = {"owner": f"bot{HOSTILE}", "announce": f"asks{HOSTILE}", "deliver": "replies", "keep": 60.0}
    faked.reply = httpx2.Response(200, json={**OPERATION, "ask": question, **members})
    out = cli("why", "o")[1]
    assert "expires in   1 m 10 s, at 2026-01-01T12:01:30Z" in out
    assert r"submitted    2026-01-01T12:00:00Z by bot\x1b[2J\n" in out
    assert r"asks         Deploy?\x1b[2J\n (yes, no, comment required)" in out
    assert r"announced to asks\x1b[2J\n" in out
    assert "delivers to  replies" in out
    assert "links        purgatory link makes one" in out
    assert "ended by" not in out
    assert "kept until" not in out


@pytest.mark.parametrize(
    ("state", "members", "lines"),
    [
        ("completed", {"via": "bot"}, ["ended by     -, by a link of bot"]),
        ("completed", {"by": "ann", "via": "bot"}, ["ended by     ann, by a link of bot"]),
        ("failed", {"by": "ci", "error": {"code": 7}}, ["ended by     ci", 'answer       {"code": 7}']),
        ("expired", {"keep": 60.0, "kept_until": "LATER"}, ["kept until   LATER"]),
        ("expired", {"kept_until": "LATER"}, []),
    ],
)
def test_why_tells_what_ended_it_and_by_whom(faked, cli, state, members, lines):
    ask = {"title": "Deploy?", "choices": ["ok"], "comment": "none"}
    faked.reply = answer(state, ask=ask, **members)
    out = [line.strip() for line in cli("why", "o")[1].splitlines()]
    assert [line for line in out if line.startswith(("ended", "answer", "kept", "links"))] == lines
    assert "asks         Deploy? (ok)" in out


@pytest.fixture
def served(tmp_path):
    """A service on a store that makes links, always at the same port."""
    secrets = tmp_path / "secrets"
    secrets.touch(mode=0o600)
    secrets.write_text("0123456789abcdef" * 2)
    port = free_port()
    where = f"http://127.0.0.1:{port}"
    flags = ("--store", f"sqlite:///{tmp_path}/state.db", "--public-url", where, "--link-secret", secrets)
    with Served(*flags, port=port) as served:
        yield served.ready()


def ask(served, *options):
    """Start to ask, and return the process once it waits, with what it told."""
    process = purgatory("ask", "o", "Deploy?", *QUESTION, *options, "--url", served.address)
    return process, process.stderr.readline()


QUESTION = ("--choice", "yes", "--choice", "no", "--comment", "optional")


def press(link, **body):
    """Answer by a link, as its page does."""
    request = urllib.request.Request(link, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        return json.load(reply)["by"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_question_outlasts_a_restart_and_is_answered(served, ending):
    process, told = ask(served, "--link", "--by", "Ann")
    with process:
        link = process.stderr.readline().rstrip()
        served.stop(ending)
        served.close()
        assert process.stderr.readline() == "purgatory: the service is restarting; still waiting\n"
        served.start().ready()
        assert (told, press(link, choice="no", comment="Friday")) == ("asked o\n", "Ann")
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out)) == (6, {"choice": "no", "comment": "Friday"})
    assert err.startswith("completed by Ann after ")


@pytest.mark.slow
def test_a_question_stays_after_ctrl_c_and_is_attached_to(served):
    where = ("--url", served.address)
    process, _ = ask(served)
    with process:
        served.until('purgatory_http_held{route="/v1/operations/{id}"}', 1)
        process.send_signal(signal.SIGINT)
        assert (process.wait(PATIENCE_S), process.stdout.read()) == (130, "")
    process, told = ask(served)
    assert told == "attached to o\n"
    assert run("ask", *ASK[1:], *where)[0] == 2  # another question
    assert run("answer", "o", "yes", "--by", "Bob", *where)[:2] == (0, "completed\n")
    with process:
        assert process.communicate(timeout=PATIENCE_S)[0] == '{"choice": "yes"}\n'
    assert "yes" in run("ls", "--state", "ended", *where)[1]
    with Client(served.address) as client:
        assert client.ask("o", "Deploy?", choices=["yes", "no"], comment="optional").by == "Bob"
    assert run("forget", "o", *where)[:2] == (0, "forgotten\n")
    code, out, err = run("ask", *ASK[1:], *where)
    assert (code, out) == (2, "")
    assert "410 forgotten" in err


@pytest.mark.slow
def test_a_moved_deadline_ends_a_question_with_3(served):
    process, _ = ask(served, "--timeout", "24h")
    assert "expires in" in run("reschedule", "o", "100ms", "--url", served.address)[1]
    with process:
        assert process.wait(PATIENCE_S) == 3
