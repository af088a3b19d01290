"""The commands for queues and for following signals: their requests, their output and their exit codes."""

import json

import httpx2
import pytest

from tests.cli.faked import LEASE, QUEUE, problem
from tests.processes import PATIENCE_S, Served, purgatory

ITEM = {"id": "7", "item": {"to": "ann"}, "attempts": 2, "put_at": "2026-01-01T12:00:00Z"}


@pytest.mark.parametrize(("delivered", "line"), [(True, "given to a taker\n"), (False, "kept\n")])
def test_put_sends_json_or_text_and_says_where_it_is(faked, cli, delivered, line):
    faked.reply = httpx2.Response(201, json={"id": "7", "delivered": delivered})
    assert cli("put", "a/b", '{"to": "ann"}', "--delay", "90s") == (0, line, [])
    assert faked.body == {"item": {"to": "ann"}, "delay": 90.0}
    assert faked.requests[0].url.raw_path == b"/v1/queues/a%2Fb/items"
    cli("put", "q", "plain text")
    assert faked.body == {"item": "plain text"}


def test_take_prints_a_lease_a_line_as_json(faked, cli):
    faked.reply = httpx2.Response(200, json={"leases": [LEASE, {**LEASE, "lease": "M", "item": "é\x1b"}]})
    code, out, err = cli("take", "q", "--max", "2", "--lease", "1m", "--wait", "9s")
    assert (code, err) == (0, [])
    assert [json.loads(line)["lease"] for line in out.splitlines()] == ["L", "M"]
    assert json.loads(out.splitlines()[0]) == LEASE
    assert out.isascii()
    assert faked.body == {"max": 2, "lease": 60.0}
    assert 8 < int(faked.requests[0].url.params["wait"].removesuffix("ms")) / 1000 <= 9


def test_take_of_nothing_exits_3_as_a_wait_that_expired(faked, cli):
    faked.reply = httpx2.Response(204)
    assert cli("take", "q") == (3, "", ["no item within 0.00 s"])
    assert len(faked.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["ack", "L"], ("/v1/leases/L/ack", None, (204, None), "done")),
        (["return", "L"], ("/v1/leases/L/return", None, (204, None), "returned")),
        (["return", "L", "--delay", "5s"], ("/v1/leases/L/return", {"delay": 5.0}, (204, None), "returned")),
        (["extend", "L"], ("/v1/leases/L/extend", {}, (200, {"expires_in": 30}), "ends in 30.0 s")),
        (
            ["extend", "L", "--lease", "2m"],
            ("/v1/leases/L/extend", {"lease": 120.0}, (200, {"expires_in": 120}), "ends in 2 m 0 s"),
        ),
        (["purge", "q"], ("/v1/queues/q/purge", None, (200, {"purged": 1}), "purged 1 item")),
        (["redrive", "q"], ("/v1/queues/q/redrive", {}, (200, {"moved": 0}), "0 items came back")),
        (
            ["redrive", "q", "--max", "2"],
            ("/v1/queues/q/redrive", {"max": 2}, (200, {"moved": 2}), "2 items came back"),
        ),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_change_is_sent_and_said(faked, cli, arguments, expected):
    path, body, reply, line = expected
    faked.reply = httpx2.Response(reply[0]) if reply[1] is None else httpx2.Response(reply[0], json=reply[1])
    assert cli(*arguments) == (0, f"{line}\n", [])
    [request] = faked.requests
    assert (request.method, request.url.path) == ("POST", path)
    assert (json.loads(request.content) if request.content else None) == body


def test_queues_are_a_table_and_as_json_a_line_each(faked, cli):
    listed = [{**QUEUE, "queue": "mail\x1b[2J"}, {**QUEUE, "queue": "b", "oldest": None, "dead": None}]
    faked.reply = httpx2.Response(200, json={"queues": listed})
    code, out, err = cli("queues")
    assert (code, err) == (0, [])
    head, first, second = out.splitlines()
    assert head.split() == ["queue", "ready", "delayed", "leased", "takers", "oldest"]
    assert first.split() == ["mail\\x1b[2J", "3", "1", "2", "0", "1", "m", "30", "s"]
    assert second.split() == ["b", "3", "1", "2", "0", "-"]
    assert [json.loads(line) for line in cli("queues", "--json")[1].splitlines()] == listed
    faked.reply = httpx2.Response(200, json={"queues": []})
    assert cli("queues") == (0, "no queue has an item, a taker or settings\n", [])


def test_one_queue_is_shown_with_its_settings(faked, cli):
    faked.reply = httpx2.Response(200, json=QUEUE)
    code, out, _ = cli("queues", "mail")
    assert code == 0
    assert faked.requests[0].url.path == "/v1/queues/mail"
    assert out.splitlines() == [
        "queue mail",
        "  ready        3, the oldest for 1 m 30 s",
        "  delayed      1",
        "  leased       2, each for 30.0 s",
        "  takers       0",
        "  attempts     5, then to mail.dead",
        "  most         100000 items, bytes without a limit; it has 4096 bytes",
    ]
    assert json.loads(cli("queues", "mail", "--json")[1]) == QUEUE


def test_peek_shows_items_in_order_and_changes_nothing(faked, cli):
    later = {**ITEM, "id": "8", "item": "x\x1b[2J" + "y" * 100, "due_at": "2026-01-01T13:00:00Z"}
    faked.reply = httpx2.Response(200, json={"items": [ITEM, later], "next": "1-2-3"})
    code, out, err = cli("peek", "q", "--limit", "2", "--delayed")
    assert (code, err) == (0, ["(and more: --limit is 2)"])
    head, first, second = out.splitlines()
    assert head.split() == ["id", "attempts", "put", "due", "item"]
    assert first.split() == ["7", "2", "2026-01-01T12:00:00Z", "-", '{"to":', '"ann"}']
    assert second.isprintable()
    assert "2026-01-01T13:00:00Z" in second
    assert {request.method for request in faked.requests} == {"GET"}
    assert faked.requests[0].url.params["delayed"] == "1"
    whole = [json.loads(line) for line in cli("peek", "q", "--limit", "2", "--json")[1].splitlines()]
    assert [each["item"] for each in whole] == [ITEM["item"], later["item"]]


@pytest.mark.parametrize(
    ("arguments", "slug", "step"),
    [
        (["ack", "L"], "lease-expired", "may be leased to another taker"),
        (["ack", "L"], "unknown-lease", "purgatory take"),
        (["queues", "q"], "unknown-queue", "purgatory queues"),
    ],
)
def test_a_refusal_names_the_next_step(faked, cli, arguments, slug, step):
    faked.reply = problem(404, slug)
    code, _, [line] = cli(*arguments)
    assert code == 2
    assert step in line


SIGNALS = [{"key": "orders/1", "index": 3, "value": "paid"}, {"key": "orders/2", "index": 4, "voter": "é"}]


def following(*batches):
    """Answers with each batch, then as if Ctrl-C had come."""
    left = list(batches)

    def reply(request):
        if not left:
            raise KeyboardInterrupt
        signals, gap = left.pop(0)
        newest = signals[-1]["index"] if signals else 2
        known = {"index": newest, "next": f"E-{newest}", "more": False}
        return httpx2.Response(200, json={"signals": signals, "gap": gap, **known})

    return reply


def test_follow_prints_each_signal_as_a_line_until_ctrl_c(faked, cli):
    faked.reply = following(([], False), (SIGNALS, False))
    code, out, err = cli("follow", "a", "--prefix", "orders/", "--prefix", "x")
    assert (code, err) == (130, [""])
    first, second = map(json.loads, out.splitlines())
    assert first == {**SIGNALS[0], "place": "E-3", "amount": 1, "voter": None}
    assert (second["index"], second["value"], second["voter"]) == (4, None, "é")
    params = faked.requests[0].url.params
    assert (params.get_list("key"), params.get_list("prefix"), params["since"]) == (
        ["a"],
        ["orders/", "x"],
        "now",
    )


def test_follow_says_a_gap_and_goes_on(faked, cli):
    faked.reply = following((SIGNALS[:1], True))
    code, out, [line, _] = cli("follow", "--prefix", "", "--since", "E-1")
    assert (code, json.loads(out)["index"]) == (130, 3)
    assert line.startswith("purgatory: signals after E-1 may be missing")


@pytest.mark.slow
def test_an_item_goes_through_the_commands_to_its_end():
    with Served() as served:
        where = ["--url", served.address]

        def run(*arguments):
            """The output of a command that succeeds."""
            with purgatory(*arguments, *where) as process:
                out, err = process.communicate(timeout=PATIENCE_S)
            assert (process.returncode, err) == (0, "")
            return out

        with purgatory("take", "mail", "--wait", "1m", *where) as taker:
            while " 1 " not in run("queues"):
                assert taker.poll() is None
            assert run("put", "mail", '{"to": "ann"}') == "given to a taker\n"
            lease = json.loads(taker.communicate(timeout=PATIENCE_S)[0])
        assert (lease["item"], lease["attempts"]) == ({"to": "ann"}, 1)
        assert run("extend", lease["lease"], "--lease", "5m") == "ends in 5 m 0 s\n"
        run("return", lease["lease"])
        assert '{"to": "ann"}' in run("peek", "mail")
        again = json.loads(run("take", "mail"))
        assert again["attempts"] == 2
        run("ack", again["lease"])
        run("put", "mail", "1")
        assert (run("purge", "mail"), run("redrive", "mail")) == (
            "purged 1 item\n",
            "0 items came back\n",
        )
