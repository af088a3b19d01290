"""The commands of the agents' page, as printed, in one terminal; a person opens each link that appears there."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from purgatory_async.client import Client, ServiceError
from tests.agents.running import EXAMPLES, PYTHON, need
from tests.pages import fenced_blocks
from tests.ports import free_port
from tests.processes import WHOLE_S, until
from tests.source_tree import ROOT
from tests.terminal import Terminal
from tests.test_ask_page import Person

pytestmark = pytest.mark.slow

PAGE = (EXAMPLES / "README.md").read_text(encoding="utf-8")
START, SERVER, THREAD, HTTP, MEASURE = (b.text for b in fenced_blocks(PAGE) if b.language == "sh")


@pytest.fixture
def terminal(tmp_path):
    """A terminal in a checkout whose environment is the agents'."""
    need("mcp", "langgraph", "aiosqlite", "msgspec", "structlog")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    folders = [Path(PYTHON).parent, Path(sys.executable).parent]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    terminal = Terminal(tmp_path, [], PATH=path)
    yield terminal
    terminal.close()


def test_the_commands_of_the_page_ask_and_wait(terminal):
    ports = {"8765": str(free_port()), "8000": str(free_port())}
    appeared = terminal._appeared
    person = Person(appeared)

    def run(block, meanwhile=person):
        for port, free in ports.items():
            block = block.replace(port, free)
        return terminal.run(block, meanwhile)

    install, begin = START.split("\n(umask", 1)
    assert install.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install")
    run(f"(umask{begin}")
    assert "doing it yes\n" in run(SERVER)
    run(THREAD.removesuffix("\n") + " &")
    until(lambda: person() or "refund-42: yes\n" in appeared, "the refund", WHOLE_S)

    def answer():
        with suppress(ServiceError), Client(f"http://127.0.0.1:{ports['8765']}") as service:
            service.answer("deploy-78", "no")

    assert '"result":{"choice":"no"}' in run(HTTP, answer)
    measured = run(MEASURE.replace(" 200", " 5"), lambda: None)
    assert [line.split()[:2] for line in measured.splitlines() if "p99" in line] == [
        ["woken", "after"],
        ["plain", "call"],
    ]
