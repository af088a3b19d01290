"""Links of services in processes of their own: secrets and their rotation, restarts, several workers, and the log."""

import json
import signal

import pytest

from purgatory_async.durable.links.link import Signer
from tests.ports import free_port
from tests.processes import Pending, ended, records, until

pytestmark = pytest.mark.slow

OLD, NEW = "old-0123456789abcdef0123456789abcdef", "new-0123456789abcdef0123456789abcdef"
RACES = 25
PUBLIC = "https://holds.example.org/team"
ASK = {"keys": ["deploys"], "ask": {"title": "Deploy 7?", "choices": ["yes", "no"]}}


@pytest.fixture
def secrets(tmp_path):
    path = tmp_path / "secrets"
    path.touch(mode=0o600)
    path.write_text(OLD)
    return path


def asked(served, name):
    """Ask a question; returns the path of a link's page."""
    assert served.request("POST", "/v1/operations", {**ASK, "id": name}).status == 202
    made = served.request("POST", f"/v1/operations/{name}/links", {"by": "Ann"})
    assert made.status == 201
    return made.json["url"].removeprefix(PUBLIC)


def status(served, path):
    return served.request("GET", path).status


def test_without_a_file_links_end_with_the_run(serve):
    served = serve("--public-url", PUBLIC)
    path = asked(served, "q")
    assert status(served, path) == 200
    served.send(signal.SIGHUP)  # there is nothing to read again, so it ends the process as usual
    code, logged = served.end()
    said = [record["message"] for record in records(logged) if "links" in record["message"]]
    assert (code, said) == (-signal.SIGHUP, ["links end with this run: give --link-secret FILE to keep them"])
    served.start()
    asked(served, "q")
    assert status(served, path) == 404


def test_sighup_rotates_the_secrets_and_ignores_a_bad_file(serve, secrets):
    served = serve("--public-url", PUBLIC, "--link-secret", str(secrets))
    first = asked(served, "first")
    secrets.write_text(f"{NEW}\n{OLD}\n")
    served.send(signal.SIGHUP)
    second = until(lambda: asked_with(served, NEW), "the new secret")
    assert status(served, first) == status(served, second) == 200
    secrets.write_text("short")
    served.send(signal.SIGHUP)
    secrets.chmod(0o644)
    served.send(signal.SIGHUP)
    assert status(served, first) == 200
    secrets.write_text(NEW)
    secrets.chmod(0o600)
    served.send(signal.SIGHUP)
    until(lambda: status(served, first) == 404, "the end of the old secret")
    assert status(served, second) == 200
    code, logged = served.stop()
    assert code == 0
    messages = [record["message"] for record in records(logged)]
    assert {"link secrets read again", "link secrets kept as they were"} <= {*messages}
    assert "links end with this run" not in logged
    assert "0123456789abcdef" not in logged


def asked_with(served, secret):
    """A link to a new question, once a secret signs; None before."""
    path = asked(served, f"q-{free_port()}")
    return path if opens(secret, path) else None


def opens(secret, path):
    return Signer([secret.encode()]).open(path.removeprefix("/a/").encode()) is not None


@pytest.mark.parametrize("flags", [[], ["--workers", "2"]], ids=["one process", "two workers"])
def test_a_link_outlives_its_process(serve, secrets, tmp_path, flags):
    kept = ["--store", f"sqlite:///{tmp_path / 'log.db'}", "--retention", "1h"]
    served = serve("--public-url", PUBLIC, "--link-secret", str(secrets), *kept, *flags)
    served.ready()
    answered, pending = asked(served, "answered"), asked(served, "pending")
    won = served.request("POST", answered, {"choice": "yes"})
    assert won.status == 200
    served.kill()
    served.start().ready()
    for _ in range(8):  # of either worker
        page = served.request("GET", answered)
        assert (page.status, b"Answered" in page.body, b"Ann" in page.body) == (200, True, True)
        again = served.request("POST", answered, {"choice": "yes"})
        assert (again.status, again.json, again.headers["idempotency-replayed"]) == (200, won.json, "true")
        assert status(served, pending) == 200
    assert served.request("POST", pending, {"choice": "no"}).status == 200
    assert served.request("POST", pending, {"choice": "yes"}).status == 409


def test_of_two_that_race_at_two_workers_one_wins(serve, secrets, tmp_path):
    kept = ["--store", f"sqlite:///{tmp_path / 'log.db'}", "--workers", "2"]
    served = serve("--public-url", PUBLIC, "--link-secret", str(secrets), *kept)
    served.ready()
    for number in range(RACES):
        path = asked(served, f"q-{number}")
        racing = [Pending(served, "POST", path, {"choice": choice}) for choice in ("yes", "no")]
        won, lost = sorted((each.join() for each in racing), key=lambda reply: reply.status)
        assert (won.status, lost.status) == (200, 409)
        assert {member: lost.json[member] for member in won.json} == won.json
        assert served.request("GET", f"/v1/operations/q-{number}").json["result"] == won.json["result"]


def test_a_store_refuses_to_start_without_the_secrets(tmp_path):
    code, _, error = ended("serve", "--public-url", PUBLIC, "--store", f"sqlite:///{tmp_path / 'log.db'}")
    assert code == 2
    assert error.startswith("purgatory: link_secret must be a file with public_url and the store ")
    assert ended("serve", "--link-secret", "secrets")[0] == 2


def test_the_access_log_has_no_token_whatever_is_asked(serve):
    served = serve("--public-url", PUBLIC, "--access-log", "--base-path", "/team")
    path = asked(served, "q")
    token = path.removeprefix("/a/")
    for target in (
        path,
        f"/team{path}",
        f"{path}/",
        f"{path}?x={token}",
        f"/other{path}",
        f"/a%2f{token}",
        path[:-1],
    ):
        for method, body in (("GET", None), ("HEAD", None), ("PUT", {}), ("POST", {"choice": "maybe"})):
            served.request(method, target, body)
    assert served.request("POST", path, {"choice": "yes"}).status == 200
    code, logged = served.stop()
    assert code == 0
    assert token[:-1] not in logged
    of_links = [
        record for record in map(json.loads, logged.splitlines()) if record.get("route") == "/a/{token}"
    ]
    assert {record["path"] for record in of_links} == {"/a/-"}
