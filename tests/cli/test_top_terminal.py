"""``purgatory top`` as a person sees it: in a terminal, beside a running service."""

import re
from contextlib import closing

import pytest

from purgatory_async.client import Client
from tests.cli.terminal import CTRL_C, Terminal
from tests.processes import Served

pytestmark = pytest.mark.slow


@pytest.fixture
def served():
    with Served() as served:
        yield served


@pytest.fixture
def client(served):
    with closing(Client(served.address)) as client:
        yield client


@pytest.fixture
def top(served):
    with Terminal("top", "--interval", "0.1", "--url", served.address) as terminal:
        yield terminal


def test_what_is_pending_is_seen_to_change_with_a_signal(client, top):
    for name in ("first", "second", "third"):
        client.submit(["stays" if name == "third" else "goes"], operation_id=name)
    top.until(lambda: top.line("pending 3 of ") and top.line("^goes +2$") and top.line("^first +goes"))
    assert top.lines[0].startswith("purgatory ")
    assert "serving" in top.lines[0]
    assert client.signal("goes") == 2
    top.until(lambda: top.line("pending 1 of ") and top.line("^third +stays") and not top.line("^first "))
    assert re.fullmatch(r"total +3 +2 +0 +0 +1", top.line("^total"))


def test_a_terminal_that_is_resized_is_filled_anew(client, top):
    client.submit(["k" * 50], operation_id="long")  # shorter than what is left beside an age of hours
    top.until(lambda: "leases" in top.line("pending 1 of") and "k" * 50 in top.line("^long "))
    top.resize(50, 40)
    top.until(lambda: "leases" not in top.line("pending 1 of") and top.line("^leases|leases 0"))
    assert top.lines[0].startswith("purgatory ")
    top.resize(8, 100)
    top.until(lambda: "leases" in top.line("pending 1 of"))
    assert top.lines[0].startswith("purgatory ")
    top.resize(50, 100)
    top.until(lambda: "k" * 50 in top.line("^long "))


def test_ctrl_c_leaves_it_with_zero_and_the_terminal_as_it_was(top):
    top.until(lambda: top.line("pending 0 of"))
    assert not top.as_it_was
    top.press(CTRL_C)
    assert top.exit_code() == 0
    assert top.as_it_was
    assert b"Traceback" not in top.written


def test_an_ended_service_is_one_sentence_below_the_picture(served, top):
    top.until(lambda: top.line("pending 0 of"))
    served.process.kill()
    assert top.exit_code() == 2
    assert top.as_it_was
    _, left, behind = (part.decode() for part in top.written.rpartition(b"\x1b[?1049l"))
    assert left, "it drew over what was there"
    assert "is a service running at http://127.0.0.1" in behind
    assert "Traceback" not in behind


def test_once_it_is_one_picture_below_what_was_there(served):
    with Terminal("top", "--once", "--url", served.address) as terminal:
        assert terminal.exit_code() == 0
        assert terminal.line("pending 0 of")
        assert terminal.as_it_was
        assert b"\x1b[?1049h" not in terminal.written
