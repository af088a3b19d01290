"""``purgatory store copy``: one store's state on another engine, as its clients see it."""

import re
import signal
from itertools import pairwise

import pytest

from purgatory_async.durable.checkpoints import copying
from tests.cli.test_store import fill, values
from tests.cluster.servers import by_engine
from tests.durable.checkpoints.conftest import url_on
from tests.durable.checkpoints.copies import everything
from tests.processes import Served, purgatory


@pytest.fixture
def at_once(monkeypatch):
    """Wait for no worker."""
    monkeypatch.setattr(copying, "GONE_AFTER_S", 0)


@pytest.fixture
def filled(tmp_path):
    """The URL of a store that has everything."""
    url = f"sqlite:///{tmp_path}/from.db"
    fill(url, *everything())
    return url


def check(cli, url):
    """What ``store check`` prints."""
    return values(cli("store", "check", url)[1])


def same(before, after):
    """Whether two stores have the same state: all that is printed but where their logs begin."""
    own = {"epoch", "oldest", "checkpoint"}
    return {name: before[name] for name in before if name not in own} == {
        name: after[name] for name in after if name not in own
    }


def test_a_copy_prints_what_check_does(cli, filled, tmp_path, at_once):
    target = f"sqlite:///{tmp_path}/to.db"
    code, out, [line] = cli("store", "copy", filled, target)
    assert code == 0
    assert line.startswith(f"copied {filled} to {target}: start the workers there; ")
    assert values(out) == check(cli, target)
    assert same(check(cli, filled), values(out))


def test_both_urls_can_be_in_the_environment(cli, filled, tmp_path, at_once, monkeypatch):
    monkeypatch.setenv("PURGATORY_STORE", filled)
    monkeypatch.setenv("PURGATORY_STORE_TO", f"sqlite:///{tmp_path}/to.db")
    assert cli("store", "copy")[0] == 0
    assert same(check(cli, filled), check(cli, f"sqlite:///{tmp_path}/to.db"))


def test_what_cannot_be_copied_is_one_line(cli, filled, tmp_path, at_once):
    target = f"sqlite:///{tmp_path}/to.db"
    for arguments, sentence in (
        ((f"sqlite:///{tmp_path}/none.db", target), f"there is no log at sqlite:///{tmp_path}/none.db; "),
        ((filled, filled), f"{filled} must be empty, got position 34"),
        (
            (filled, "redis://127.0.0.1:1", "--store-sync", "os"),
            "sync must be 'always' for redis://127.0.0.1:1",
        ),
        ((filled,), "Missing argument 'TO'; see purgatory store copy --help"),
    ):
        code, out, [line] = cli("store", "copy", *arguments)
        assert (code, out) == (2, "")
        assert line.startswith(f"purgatory: {sentence}")
    fill(filled, b"damage")
    code, _, [line] = cli("store", "copy", filled, target)
    assert (code, line.partition(":")[2][:20]) == (4, " entry 35 is damaged")
    assert sorted(path.name for path in tmp_path.iterdir() if "to" in path.name) == []


@pytest.mark.slow
def test_a_copy_around_all_engines_is_the_same(cli, filled, tmp_path, at_once):
    (tmp_path / "last").mkdir()
    urls = [filled, *(url_on(engine, tmp_path / "last") for engine in ("postgres", "redis", "sqlite"))]
    for source, target in pairwise(urls):
        assert cli("store", "copy", source, target)[0] == 0
        assert same(check(cli, source), check(cli, target))
    assert check(cli, urls[-1])["position"] == "37"


@pytest.mark.slow
def test_a_copy_is_refused_while_a_worker_lives(cli, tmp_path):
    source, target = (f"sqlite:///{tmp_path}/{name}.db" for name in ("from", "to"))
    with Served("--store", source) as served:
        served.ready()
        code, out, [waiting, line] = cli("store", "copy", source, target)
        assert (code, out) == (2, "")
        assert "to see that none is left" in waiting
        assert line.startswith(
            f"purgatory: {source} must have no workers while it is copied, got a new entry"
        )
        served.stop()
    assert cli("store", "copy", source, target)[0] == 0


@pytest.mark.slow
def test_an_interrupted_copy_leaves_nothing(filled, tmp_path):
    with purgatory("store", "copy", filled, f"sqlite:///{tmp_path}/to.db") as process:
        assert "to see that none is left" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert not (tmp_path / "to.db").exists()


def timeless(answer):
    """An answer's status and body, less what counts the seconds until now."""
    return answer.status, re.sub(rb'"(elapsed|age|oldest|expires_in|due_in)":[0-9.]+', b"", answer.body)


IDEMPOTENT = {"Idempotency-Key": "once"}
ONCE = {"id": "idem", "keys": ["c"]}
GONE = {"keys": ["d"], "keep": "1d"}


def story(served):
    """Do something of everything; return the paths to read, a link, and a place in the signals."""
    asked = {"ask": {"title": "Pay?", "choices": ["yes", "no"]}, "keep": "1d"}
    for method, path, body in (
        ("PUT", "/v1/operations/ask", asked),
        ("PUT", "/v1/operations/answered", asked),
        ("POST", "/v1/operations/answered/answer", {"choice": "no", "by": "me"}),
        ("PUT", "/v1/operations/open", {"keys": ["a", "b"], "need": "all", "timeout": "2h"}),
        ("POST", "/v1/operations", ONCE),
        ("PUT", "/v1/operations/gone", GONE),
        ("POST", "/v1/operations/gone/complete", {}),
        ("POST", "/v1/operations/gone/forget", None),
        ("POST", "/v1/keys/a/signal", {"value": {"n": 1}, "voter": "v"}),
        ("PUT", "/v1/queues/mail", {"max_attempts": 3, "lease": "1h"}),
        ("POST", "/v1/queues/mail/items", {"item": 1}),
        ("POST", "/v1/queues/mail/items", {"item": 2, "delay": "1h"}),
        ("POST", "/v1/queues/mail/items", {"item": 3}),
        ("POST", "/v1/queues/mail/take", None),
    ):
        answer = served.request(method, path, body, IDEMPOTENT if body is ONCE else {})
        assert answer.status in {200, 201, 202, 204}, (path, answer.body)
    link = served.request("POST", "/v1/operations/ask/links", {}).json["url"]
    paths = (
        *("/v1/operations?state=all", "/v1/queues", "/v1/leases", "/v1/keys/a"),
        *(f"/v1/operations/{name}" for name in ("ask", "answered", "open", "idem", "gone")),
        *("/v1/queues/mail", "/v1/queues/mail/items"),
    )
    return paths, link.partition("/a/")[2], served.request("GET", "/v1/wait?key=a&since=0").json


@pytest.mark.slow
@pytest.mark.parametrize("engine", by_engine(["sqlite", "postgres", "redis"]))
def test_a_service_on_a_copy_answers_as_before(cli, tmp_path, engine, at_once):
    source, target = f"sqlite:///{tmp_path}/from.db", url_on(engine, tmp_path)
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("0123456789abcdef0123456789abcdef")
    flags = ("--public-url", "http://127.0.0.1:1", "--link-secret", str(secret))
    with Served("--store", source, *flags) as served:
        served.ready()
        paths, link, read = story(served)
        before = {path: timeless(served.request("GET", path)) for path in paths}
        assert served.request("GET", f"/a/{link}").status == 200
        served.stop()
    assert cli("store", "copy", source, target)[0] == 0
    with Served("--store", target, *flags) as served:
        served.ready()
        for path in paths:
            assert timeless(served.request("GET", path)) == before[path]
        replayed = served.request("POST", "/v1/operations", ONCE, IDEMPOTENT)
        assert (replayed.status, replayed.headers["idempotency-replayed"]) == (202, "true")
        assert served.request("PUT", "/v1/operations/gone", GONE).status == 410
        again = served.request("GET", f"/v1/wait?key=a&since={read['next']}").json
        assert again["gap"]
        assert served.request("GET", "/v1/wait?key=a&since=0").json["signals"] == read["signals"]
        assert served.request("GET", f"/a/{link}").status == 404
        assert served.request("POST", "/v1/keys/b/signal", {}).json["completed"] == 1
        assert served.request("GET", "/v1/operations/open").json["state"] == "completed"
        served.stop()
