"""The commands report an error in one sentence with the next step, and never print the token."""

import httpx2
import pytest

from purgatory_async import __main__
from purgatory_async.cli import remote
from tests.cli.faked import CALLS, REMOTE, TOKEN, problem


@pytest.mark.parametrize("command", REMOTE)
@pytest.mark.parametrize(
    "case",
    [
        (problem(401, "unauthorized"), "the sentence", "PURGATORY_TOKEN"),
        (problem(403, "forbidden"), "the sentence", "--token-file"),
        (problem(404, "unknown-operation"), "the sentence", "purgatory ls"),
        (problem(409, "already-ended"), "the sentence", "purgatory why"),
        (problem(409, "duplicate-id"), "the sentence", "purgatory why"),
        (problem(410, "forgotten"), "the sentence", "purgatory ls"),
        (problem(503, "draining"), "the sentence", "started again"),
        (problem(503, "overloaded"), "the sentence", "later"),
        (httpx2.Response(200, text="<html>\x1b[2J"), "no answer of a purgatory service", "--url"),
        (httpx2.Response(302), "302", "--url"),
        (httpx2.Response(500, text="oops"), "500", "--url"),
    ],
    ids=lambda case: f"{case[0].status_code} {case[2]}",
)
def test_a_refusal_is_one_sentence_with_the_next_step(faked, cli, monkeypatch, command, case):
    reply, sentence, next_step = case
    if command in {"ack", "drain", "forget", "return"} and reply.status_code == 200:
        reply = httpx2.Response(302)  # any success will do where there is nothing to read
        sentence = "302"
    monkeypatch.setattr(remote, "PATIENCE", 0.0)
    faked.reply = reply
    code, out, [line] = cli(*CALLS[command])
    assert (code, out) == (2, "")
    assert line.startswith("purgatory: ")
    assert sentence in line
    assert next_step in line
    assert line.isprintable()


@pytest.mark.parametrize("command", REMOTE)
def test_an_absent_service_is_one_sentence_on_starting_it(faked, cli, monkeypatch, command):
    def refuse(request):
        raise httpx2.ConnectError("Connection refused")

    monkeypatch.setattr(remote, "PATIENCE", 0.0)
    faked.reply = refuse
    code, out, [line] = cli(*CALLS[command], "--url", "http://127.0.0.1:1")
    assert (code, out) == (2, "")
    assert "Connection refused; is a service running at http://127.0.0.1:1?" in line
    assert "'purgatory serve' starts one" in line


@pytest.mark.parametrize("command", REMOTE)
def test_an_absent_service_does_not_keep_a_terminal_waiting(faked, cli, command):
    cli(*CALLS[command])
    assert faked.policy.patience == remote.PATIENCE <= 5.0


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "ftp://h", "http://", "http://h:99999", "http://h\n"])
def test_an_address_that_is_none_is_one_sentence(cli, url):
    code, _, [line] = cli("ls", "--url", url)
    assert code == 2
    assert "address must be like http://127.0.0.1:8765" in line
    assert "see --url" in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "--limit", "0"],
        ["ls", "--limit", "many"],
        ["wait"],
        ["wait", "k", "--timeout", "5w"],
        ["wait", "k", "--need", "some"],
        ["wait", "k", "--since", "-1"],
        ["wait", "k", "--since", "now"],
        ["signal", "k", "--amount", "0"],
        ["why"],
        ["top", "--interval", "0"],
        ["ls", "--token-file", "/nowhere"],
        ["ls", "--token", "x"],
        ["signal", "\udcff"],
        ["wait", "\udcff"],
        ["signal", "k", '"\\ud800"'],
        ["ls", "--state", "none"],
        ["ask", "o"],
        ["ask", "o", "Deploy?", "--comment", "maybe"],
        ["ask", "o", "Deploy?", "--keep", "5w"],
        ["ask", "o", "Deploy?", "--by", "ann"],
        ["link", "o", "--expires-in", "0.5s"],
        ["answer", "o"],
        ["fail", "o"],
        ["reschedule", "o", "never"],
        ["put", "q"],
        ["put", "q", "1", "--delay", "5w"],
        ["take", "q", "--max", "101"],
        ["take", "q", "--wait", "soon"],
        ["extend", "l", "--lease", "-1"],
        ["redrive", "q", "--max", "0"],
    ],
    ids=repr,
)
def test_what_cannot_be_sent_is_refused_in_one_sentence(faked, cli, arguments):
    code, out, [line] = cli(*arguments)
    assert (code, out) == (2, "")
    assert line.startswith("purgatory: ")
    assert [request for request in faked.requests if request.method in {"POST", "PUT"}] == []


def test_the_address_and_the_token_come_from_the_environment(faked, cli, monkeypatch):
    monkeypatch.setenv("PURGATORY_URL", "http://elsewhere:99/pre")
    monkeypatch.setenv("PURGATORY_TOKEN", TOKEN)
    cli("drain")
    [request] = faked.requests
    assert str(request.url) == "http://elsewhere:99/pre/v1/admin/drain"
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"


def test_a_token_file_wins_and_its_line_end_does_not_count(faked, cli, monkeypatch, tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    monkeypatch.setenv("PURGATORY_TOKEN", "another")
    cli("drain", "--token-file", str(path))
    assert faked.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


def test_an_empty_variable_is_no_token(faked, cli, monkeypatch):
    monkeypatch.setenv("PURGATORY_TOKEN", "")
    assert cli("drain")[0] == 0
    assert "Authorization" not in faked.requests[0].headers


@pytest.mark.parametrize("command", REMOTE)
@pytest.mark.parametrize(
    "reply", [problem(401, "unauthorized"), httpx2.Response(200, text="<html>")], ids=repr
)
def test_the_token_is_in_no_output(faked, cli, monkeypatch, command, reply):
    monkeypatch.setenv("PURGATORY_TOKEN", TOKEN)
    faked.reply = reply
    _, out, err = cli(*CALLS[command])
    assert TOKEN not in out + "".join(err)
    assert faked.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("token", [f"{TOKEN}\n{TOKEN}", f"{TOKEN}é"])
def test_a_token_that_cannot_be_sent_is_not_repeated(cli, monkeypatch, tmp_path, token):
    monkeypatch.setenv("PURGATORY_TOKEN", token)
    path = tmp_path / "token"
    path.write_text(token)
    for arguments in (["ls"], ["ls", "--token-file", str(path)]):
        code, _, [line] = cli(*arguments)
        assert code == 2
        assert "the-secret" not in line
        assert "token" in line


def test_a_password_in_the_address_is_not_repeated(cli):
    code, _, [line] = cli("ls", "--url", f"http://me:{TOKEN}@h")
    assert code == 2
    assert TOKEN not in line
    assert "--token-file" in line


@pytest.mark.parametrize("command", REMOTE)
def test_help_names_no_option_for_a_token_and_has_an_example(cli, command):
    code, out, _ = cli(command, "--help")
    assert code == 0
    assert f"  Example:\n    purgatory {command}" in out
    assert "--token-file" in out
    assert "--token " not in out


def test_without_httpx_a_command_names_what_to_install(capsys, lacking):
    lacking("httpx2", "purgatory_async.cli", "purgatory_async.client", "purgatory_async.service")
    with pytest.raises(SystemExit) as left:
        __main__.main()
    assert left.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == 'purgatory: httpx2 is not installed; run: pip install "purgatory-async[service]"'
