"""The commands that talk to a service: their requests, their output and their exit codes."""

import json
import sys

import httpx2
import pytest

from purgatory_async.client import values
from purgatory_async.durable.documents import names
from tests.cli.faked import OPERATION, ended
from tests.processes import PATIENCE_S, Served, purgatory


@pytest.mark.parametrize(
    ("state", "code"), [("completed", 0), ("expired", 3), ("cancelled", 4), ("failed", 1), ("closed", 1)]
)
def test_the_exit_code_of_wait_tells_how_it_ended(faked, cli, state, code):
    faked.reply = httpx2.Response(200, json=ended(state))
    found, out, err = cli("wait", "k")
    assert (found, out) == (code, "")
    assert err == ([] if state == "completed" else [f"{state} after 20.0 s"])


def test_an_interrupted_wait_exits_130_and_cancels(faked, cli):
    def interrupt(request):
        if request.method == "GET":
            raise KeyboardInterrupt
        return httpx2.Response(202, json=OPERATION)

    faked.reply = interrupt
    assert cli("wait", "k")[0] == 130
    assert [request.method for request in faked.requests] == ["POST", "GET", "DELETE"]


@pytest.mark.parametrize(
    ("value", "line"),
    [("text", "text"), ({"a": [1]}, '{"a": [1]}'), (None, "null"), (7, "7"), (True, "true"), ("", "")],
)
def test_wait_prints_what_the_last_signal_carried(faked, cli, value, line):
    faked.reply = httpx2.Response(200, json=ended("completed", "earlier", value))
    assert cli("wait", "k") == (0, f"{line}\n", [])


def test_wait_as_json_prints_the_whole_operation(faked, cli):
    faked.reply = httpx2.Response(200, json=ended("expired"))
    code, out, _ = cli("wait", "k", "--json")
    assert (code, json.loads(out)) == (3, ended("expired"))


def test_wait_sends_its_arguments(faked, cli):
    faked.reply = httpx2.Response(200, json=ended("completed"))
    cli("wait", "a", "b", "--need", "amount:3", "--timeout", "10m")
    body = {name: faked.body[name] for name in ("keys", "need", "timeout")}
    assert body == {"keys": ["a", "b"], "need": {"amount": 3}, "timeout": 600.0}


KEY = {"key": "k", "index": 7, "value": "green"}


def test_wait_since_an_index_reads_the_key_and_submits_nothing(faked, cli):
    faked.reply = httpx2.Response(200, json=KEY)
    assert cli("wait", "k", "--since", "0") == (0, "green\n", [])
    [request] = faked.requests
    assert (request.method, request.url.path) == ("GET", "/v1/keys/k")
    assert request.url.params["index"] == "0"


def test_wait_since_an_index_as_json_prints_the_key(faked, cli):
    faked.reply = httpx2.Response(200, json=KEY)
    code, out, _ = cli("wait", "k", "--since", "6", "--json")
    assert (code, json.loads(out)) == (0, KEY)


def test_wait_since_prints_nothing_for_a_signal_without_a_value(faked, cli):
    faked.reply = httpx2.Response(200, json={**KEY, "value": None})
    assert cli("wait", "k", "--since", "6") == (0, "", [])


def test_wait_since_an_index_expires_with_exit_code_3(faked, cli):
    faked.reply = httpx2.Response(304)
    assert cli("wait", "k", "--since", "7", "--timeout", "0") == (3, "", ["expired after 0.00 s"])


def test_an_index_of_another_run_of_the_service_is_no_success(faked, cli):
    faked.reply = httpx2.Response(200, json={**KEY, "index": 0, "value": None})
    code, out, [line] = cli("wait", "k", "--since", "40")
    assert (code, out) == (2, "")
    assert "--since must be at most the newest index of the service, got 40" in line
    assert "--since 0" in line


@pytest.mark.parametrize("others", [["l"], ["--need", "all"], ["--need", "amount:1"]], ids=repr)
def test_wait_since_takes_one_key_and_any_signal(faked, cli, others):
    code, out, [line] = cli("wait", "k", *others, "--since", "0")
    assert (code, out, faked.requests) == (2, "", [])
    assert "--since must be given with one key and --need any" in line


def test_the_help_of_wait_says_that_it_waits_from_now_on(cli):
    text = " ".join(cli("wait", "--help")[1].split())
    assert "Earlier signals do not count, unless --since is given" in text


def test_a_value_is_escaped_on_a_terminal_and_whole_in_a_pipe(faked, cli, monkeypatch):
    faked.reply = httpx2.Response(200, json=ended("completed", "\x1b[2J\n"))
    assert cli("wait", "k")[1] == "\x1b[2J\n\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli("wait", "k")[1] == "\\x1b[2J\\n\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("7", 7),
        ("null", None),
        ('"x"', "x"),
        ("plain", "plain"),
        ("", ""),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("[1e999]", "[1e999]"),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5000, "9" * 5000),
    ],
    ids=lambda each: str(each)[:12],
)
def test_a_value_is_json_or_else_text(faked, cli, text, value):
    faked.reply = httpx2.Response(200, json={"completed": 1})
    assert cli("signal", "--", "k", text) == (0, "completed 1 operation\n", [])
    assert faked.body == {"value": value}


def test_a_signal_without_a_value_has_none(faked, cli):
    faked.reply = httpx2.Response(200, json={"completed": 0})
    assert cli("signal", "a/b", "--amount", "3", "--voter", "me")[1] == "completed 0 operations\n"
    assert faked.body == {"amount": 3, "voter": "me"}
    assert faked.requests[0].url.raw_path == b"/v1/keys/a%2Fb/signal"


def test_a_batch_of_signals_is_lines_of_json(faked, cli, tmp_path):
    faked.reply = httpx2.Response(200, json={"index": 2, "completed": 3})
    file = tmp_path / "signals.jsonl"
    file.write_text('{"key": "a/b", "value": "é"}\n{"key": "c", "amount": 2}\n')
    assert cli("signal", "--batch", file) == (0, "completed 3 operations\n", [])
    assert faked.body == {"signals": [{"key": "a/b", "value": "é"}, {"key": "c", "amount": 2}]}
    assert faked.requests[0].url.raw_path == b"/v1/signals"


@pytest.mark.parametrize("line", ["a", "[1]", "", '{"key": NaN}'])
def test_a_line_of_a_batch_that_is_no_object_is_named(faked, cli, tmp_path, line):
    file = tmp_path / "signals.jsonl"
    file.write_text(f'{{"key": "a"}}\n{line}\n')
    code, _, errors = cli("signal", "--batch", file)
    assert code == 2
    assert f'line 2 must be a JSON object such as {{"key": "a"}}, got {line!r}' in " ".join(errors)
    assert not faked.requests


@pytest.mark.parametrize(
    ("option", "content", "sentence"),
    [
        ("--batch", b'\xef\xbb\xbf{"key": "a"}', "starts with a BOM"),
        ("--batch", '{"key": "a"}'.encode("utf-16"), "starts with a BOM"),
        ("--batch", b'{"key": "\xff"}', "is not UTF-8"),
        ("--token-file", b"\xef\xbb\xbf0123456789abcdef", "starts with a BOM"),
        ("--token-file", b"\xff123456789abcdef", "is not ASCII"),
    ],
)
@pytest.mark.usefixtures("faked")
def test_a_file_in_another_encoding_is_named(cli, tmp_path, option, content, sentence):
    file = tmp_path / "given"
    file.write_bytes(content)
    code, _, [error] = cli("signal", option, file)
    assert code == 2
    assert sentence in error


@pytest.mark.parametrize("arguments", [[], ["k", "--batch", "-"], ["--batch", "-", "--voter", "me"]])
def test_a_signal_needs_either_a_key_or_a_batch(faked, cli, arguments):
    assert cli("signal", *arguments)[0] == 2
    assert not faked.requests


def paged(request):
    start = int(request.url.params.get("cursor", 0))
    operations = [
        {**OPERATION, "id": f"o{n}", "keys": ["k\x1b[2J", "[red]", "é"]} for n in range(start, start + 3)
    ]
    return httpx2.Response(
        200,
        json={"operations": operations, "next": str(start + 3)} if start < 6 else {"operations": operations},
    )


def test_ls_lists_over_pages_and_escapes_what_clients_named(faked, cli):
    faked.reply = paged
    code, out, err = cli("ls", "--key", "k")
    assert (code, err) == (0, [])
    assert [line.split()[0] for line in out.splitlines()] == ["id", *(f"o{n}" for n in range(9))]
    assert "\x1b" not in out
    assert "k\\x1b[2J, [red], é" in out
    assert "1 m 10 s" in out
    assert faked.requests[0].url.params["key"] == "k"


def test_ls_stops_at_its_limit_and_says_so(faked, cli):
    faked.reply = paged
    code, out, err = cli("ls", "--limit", "4")
    assert (code, len(out.splitlines())) == (0, 5)
    assert err == ["(and more: --limit is 4)"]
    assert len(faked.requests) == 2


def test_ls_as_json_is_one_document_a_line_in_ascii(faked, cli):
    faked.reply = paged
    lines = cli("ls", "--json")[1].splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"o{n}" for n in range(9)]
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_ls_in_a_pipe_cuts_no_column(faked, cli):
    long = {**OPERATION, "id": "i" * 60, "keys": ["k" * 60, "l" * 60]}
    faked.reply = httpx2.Response(200, json={"operations": [long]})
    _, row = cli("ls")[1].splitlines()
    assert "i" * 60 in row
    assert "l" * 60 in row


def test_ls_of_nothing_says_so_and_as_json_is_nothing(faked, cli):
    faked.reply = httpx2.Response(200, json={"operations": []})
    assert cli("ls") == (0, "nothing is pending\n", [])
    assert cli("ls", "--json") == (0, "", [])


def test_why_tells_what_is_missing_or_how_it_ended(faked, cli):
    faked.reply = httpx2.Response(200, json=OPERATION)
    assert "waits for    any of its keys" in cli("why", "o")[1]
    faked.reply = httpx2.Response(200, json=ended("expired"))
    assert "operation o is expired" in cli("why", "o")[1]


def test_cancel_and_drain_say_what_came_of_it(faked, cli):
    faked.reply = httpx2.Response(200, json=ended("cancelled"))
    assert cli("cancel", "o")[1] == "cancelled\n"
    faked.reply = httpx2.Response(202)
    assert cli("drain")[1] == "the service drains\n"


@pytest.mark.parametrize("new_id", [values.new_id, names.new_id], ids=["client's", "service's"])
def test_no_new_id_looks_like_an_option_to_a_command(monkeypatch, new_id):
    draws = iter([b"\xf8" + bytes(15), b"\xfb\xef" + bytes(14), bytes(16)])
    monkeypatch.setattr("secrets.token_bytes", lambda _bytes: next(draws))
    monkeypatch.setattr(names, "urandom", lambda _bytes: next(draws))
    assert new_id() == "A" * 22


@pytest.mark.slow
def test_the_exit_code_gives_the_outcome_to_a_shell():
    with Served() as served:
        where = ["--url", served.address]
        with purgatory("wait", "never", "--timeout", "200ms", *where) as expires:
            assert expires.wait(PATIENCE_S) == 3
        with purgatory("wait", "k", "--timeout", "10m", *where) as waits:
            while "completed 1 " not in purgatory("signal", "k", '{"v": 1}', *where).communicate()[0]:
                assert waits.poll() is None
            assert waits.communicate(timeout=PATIENCE_S) == ('{"v": 1}\n', "")
            assert waits.returncode == 0
        with purgatory("wait", "k", "--timeout", "200ms", *where) as from_now_on:
            assert from_now_on.wait(PATIENCE_S) == 3
        with purgatory("wait", "k", "--since", "0", *where) as finds:
            assert finds.communicate(timeout=PATIENCE_S) == ('{"v": 1}\n', "")
            assert finds.returncode == 0
        with purgatory("wait", "k2", *where) as waits:
            while not (found := purgatory("ls", "--json", *where).communicate()[0]):
                assert waits.poll() is None
            assert purgatory("cancel", json.loads(found)["id"], *where).communicate()[0] == "cancelled\n"
            assert waits.wait(PATIENCE_S) == 4
