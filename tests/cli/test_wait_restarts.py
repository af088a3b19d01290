"""``purgatory wait`` and ``ask`` while the service restarts: they report that once; a wait has a timeout."""

import json
import signal

import httpx2
import pytest

from purgatory_async.cli import outlast, remote
from tests.cli.faked import OPERATION, ended, problem
from tests.ports import free_port
from tests.processes import PATIENCE_S, Served, purgatory

AWAY = httpx2.ConnectError("Connection refused")
FORGOTTEN = problem(404, "unknown-operation")
DRAINING = problem(503, "draining")
OVERLOADED = problem(503, "overloaded")


@pytest.fixture
def script(faked, cli, monkeypatch):
    """Runs a command against answers in turn, in a time that passes in pauses only; behind the last one it is away."""
    now = [0.0]
    monkeypatch.setattr(outlast.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(outlast, "monotonic", lambda: now[0])
    monkeypatch.setattr(remote, "PATIENCE", 0.0)

    def run(*answers, timeout="10m", options=(), command=("wait", "k")):
        left = iter(answers)

        def reply(request):
            answer = next(left, AWAY)
            if isinstance(answer, BaseException):
                raise answer
            return httpx2.Response(answer.status_code, content=answer.content)

        faked.reply = reply
        result = cli(*command, *options, *(() if timeout is None else ("--timeout", timeout)))
        assert list(left) == []
        return result

    return run


def answer(document, status=200):
    return httpx2.Response(status, json=document)


def pending():
    return answer(OPERATION, 202)


def methods(faked):
    return [request.method for request in faked.requests]


@pytest.mark.parametrize("timeout", ["10m", None])
@pytest.mark.parametrize(
    "outage",
    [
        pytest.param([DRAINING, AWAY, AWAY, FORGOTTEN], id="drained, away, back"),
        pytest.param([FORGOTTEN], id="back at once"),
        pytest.param([AWAY, FORGOTTEN, AWAY, DRAINING, FORGOTTEN], id="back and away again"),
        pytest.param([httpx2.ReadError("reset"), FORGOTTEN], id="killed"),
    ],
)
def test_a_restart_is_said_once_and_waited_through(script, faked, outage, timeout):
    code, out, err = script(pending(), *outage, pending(), answer(ended("completed", "v")), timeout=timeout)
    assert (code, out) == (0, "v\n")
    assert err == ["purgatory: the service is restarting; still waiting"]
    submitted = [json.loads(each.content) for each in faked.requests if each.method == "POST"]
    assert {each["id"] for each in submitted} == {submitted[0]["id"]}
    assert "DELETE" not in methods(faked)


def test_each_restart_is_said(script):
    answers = [pending(), FORGOTTEN, pending(), AWAY, FORGOTTEN, pending(), answer(ended("completed"))]
    assert script(*answers) == (0, "", ["purgatory: the service is restarting; still waiting"] * 2)


def test_an_operation_that_lived_on_is_not_submitted_again(script, faked):
    assert script(pending(), AWAY, AWAY, answer(ended("completed")))[0] == 0
    assert methods(faked).count("POST") == 1


def test_what_is_left_of_the_timeout_is_submitted(script, faked):
    script(pending(), *[AWAY] * 20, FORGOTTEN, pending(), answer(ended("completed")))
    first, second = [json.loads(each.content)["timeout"] for each in faked.requests if each.method == "POST"]
    assert (first, second) == (600.0, 600.0 - 21 * outlast.PAUSE)


def test_after_the_timeout_a_service_that_is_away_is_an_error(script):
    code, _, err = script(pending(), *[AWAY] * 5, timeout=f"{4 * outlast.PAUSE:g}s")
    assert (code, len(err)) == (2, 2)
    assert "Connection refused" in err[1]


def test_a_service_that_forgot_it_too_late_lets_it_expire(script, faked):
    assert script(pending(), AWAY, FORGOTTEN, answer(ended("expired")), timeout="800ms")[0] == 3
    assert faked.body["timeout"] == 0


@pytest.mark.parametrize("fault", [AWAY, DRAINING], ids=["away", "draining"])
def test_before_anything_was_submitted_nothing_is_waited_through(script, faked, fault):
    code, _, err = script(fault)
    assert (code, len(err)) == (2, 1)


@pytest.mark.parametrize(
    "fault", [problem(401, "unauthorized"), problem(410, "forgotten")], ids=["401", "410"]
)
def test_a_refusal_that_is_no_restart_ends_the_wait(script, fault):
    code, _, err = script(pending(), fault)
    assert (code, len(err)) == (2, 1)


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ([pending()], ["POST", "GET", "DELETE"]),
        ([], ["POST", "DELETE"]),
        ([pending(), AWAY], ["POST", "GET", "GET", "DELETE"]),
    ],
    ids=["held", "submitting", "away"],
)
def test_an_interrupt_cancels_and_tries_that_once(script, faked, before, asked):
    assert script(*before, KeyboardInterrupt(), AWAY)[0] == 130
    assert methods(faked) == asked


SINCE = ("--since", "0")
UNCHANGED = httpx2.Response(304)


@pytest.mark.parametrize("timeout", ["10m", None])
def test_a_wait_since_an_index_outlasts_a_restart_too(script, faked, timeout):
    found = answer({"key": "k", "index": 1, "value": "v"})
    result = script(UNCHANGED, DRAINING, AWAY, AWAY, found, timeout=timeout, options=SINCE)
    assert result == (0, "v\n", ["purgatory: the service is restarting; still waiting"])
    assert set(methods(faked)) == {"GET"}


@pytest.mark.parametrize(
    ("answers", "said"), [([AWAY], 0), ([UNCHANGED, *[AWAY] * 5], 1)], ids=["first", "late"]
)
def test_a_wait_since_an_index_ends_with_a_service_away(script, answers, said):
    code, _, err = script(*answers, timeout=f"{4 * outlast.PAUSE:g}s", options=SINCE)
    assert (code, len(err)) == (2, said + 1)
    assert "Connection refused" in err[-1]


ASK = ("ask", "o", "Deploy?")


@pytest.mark.parametrize(
    ("outage", "asked"),
    [
        pytest.param([DRAINING, AWAY, AWAY], 1, id="kept"),
        pytest.param([AWAY, *[AWAY] * 700], 1, id="away beyond its timeout"),
        pytest.param([AWAY, FORGOTTEN, AWAY, FORGOTTEN, OVERLOADED, FORGOTTEN, pending()], 2, id="lost"),
    ],
)
def test_a_question_outlasts_a_restart(script, faked, outage, asked):
    code, out, err = script(pending(), *outage, answer(ended("completed")), command=ASK)
    assert (code, out) == (6, "null\n")
    assert err[1] == "purgatory: the service is restarting; still waiting"
    assert err.count(err[1]) == 1
    assert len({each.content for each in faked.requests if each.method == "PUT"}) == 1
    assert [line.partition(";")[0] for line in err].count("asked o") == asked


@pytest.mark.parametrize("fault", [AWAY, DRAINING, OVERLOADED], ids=["away", "draining", "full"])
def test_what_could_not_be_asked_is_not_waited_for(script, fault):
    code, _, err = script(fault, command=ASK)
    assert (code, len(err)) == (2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_wait_outlasts_a_restart_over_real_sockets(ending):
    with (
        Served(port=free_port()) as served,
        purgatory("wait", "k", "--timeout", "10m", "--url", served.address) as waits,
    ):
        where = ["--url", served.address]
        while not purgatory("ls", "--json", *where).communicate(timeout=PATIENCE_S)[0]:
            assert waits.poll() is None
        served.stop(ending)
        served.close()
        served.start()
        while "completed 1 " not in purgatory("signal", "k", "7", *where).communicate(timeout=PATIENCE_S)[0]:
            assert waits.poll() is None
        said = "purgatory: the service is restarting; still waiting\n"
        assert waits.communicate(timeout=PATIENCE_S) == ("7\n", said)
        assert waits.returncode == 0
