"""The page on asking a person, word for word in one terminal; the person opens each link that appears there."""

import http.server
import json
import re
import threading
from contextlib import ExitStack, contextmanager

import pytest

from purgatory_async.client import Client, RequestRefused
from tests.pages import fenced_blocks
from tests.ports import free_port
from tests.processes import Served, until
from tests.terminal import Terminal
from tests.test_ask_a_person import presses
from tests.test_readme import PAGES

pytestmark = pytest.mark.slow

PAGE = PAGES["purgatory_async/service/ASK_A_PERSON.md"]
BLOCKS = fenced_blocks(PAGE)
SHELL = [block.text for block in BLOCKS if block.language == "sh"]
INSTALL = 'python3 -m venv .venv && . .venv/bin/activate && pip install -q ".[service]"\n'
LINK = re.compile(r"http://127\.0\.0\.1:\d+/a/[\w-]+")


class Person:
    """Opens each link that appears, once, and presses yes."""

    def __init__(self, appeared):
        self._appeared, self._opened = appeared, set()

    def __call__(self):
        for link in {*LINK.findall("\n".join(self._appeared))} - self._opened:
            self._opened.add(link)
            until(lambda link=link: presses(link), "the answer")


def read_only():
    """Open no link."""


@contextmanager
def webhook(posted):
    """An incoming webhook of a chat; yields its URL."""

    class Post(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Post) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def programs(port):
    """The page's programs, by the names under which it saves them."""
    named = re.findall(r"[Ss]ave\s+it\s+as\s+`(\w+\.py)`", PAGE)
    texts = [block.text.replace("8765", str(port)) for block in BLOCKS if block.language == "python"]
    return dict(zip(named, texts, strict=True))


def test_the_page_has_only_what_is_run_here():
    assert SHELL[0] == INSTALL
    assert {block.language for block in BLOCKS} == {"sh", "python"}
    assert [*programs(8765)] == ["agent.py", "bot.py"]


@pytest.fixture
def page(tmp_path):
    """Run the page's blocks by their number, where a person reads along; returns also what appears, and the address."""
    port, appeared = free_port(), []
    address = f"http://127.0.0.1:{port}"
    person = Person(appeared)
    for name, text in programs(port).items():
        (tmp_path / name).write_text(text)
    with ExitStack() as stack:

        def begin(**environment):
            # Without it commands would ask port 8765.
            terminal = Terminal(tmp_path, appeared, PURGATORY_URL=address, **environment)
            stack.callback(terminal.close)

            def run(number, meanwhile=person):
                return terminal.run(SHELL[number].replace("8765", str(port)), meanwhile)

            return run

        yield begin, appeared, address


def until_acknowledged(address):
    """Wait until the bot has nothing left to do."""

    def idle():
        with Client(address) as service:
            chat = service.queue("chat")
        return chat.items + chat.leased == 0

    until(idle, "the bot's acknowledgement")


def said(appeared, version):
    """What the bot has said about a version, but for links."""
    return [LINK.sub("LINK", line).strip() for line in appeared if line.startswith(f"Deploy {version}?")]


@pytest.mark.parametrize("chat", ["terminal", "webhook"])
def test_the_page_asks_and_answers_word_for_word(page, chat):
    begin, appeared, address = page
    with webhook(appeared) as url:
        run = begin(**({} if chat == "terminal" else {"WEBHOOK": url}))
        assert '{"status":"ready"}' in run(1)
        assert '"url":"http' in run(2)
        waited = run(3)
        for member in ('"state":"completed"', '"result":{"choice":"yes"}', '"by":"Ann"'):
            assert member in waited
        again = run(2)
        assert '"state":"completed"' in again
        assert "already-ended" in again
        assert '{"choice": "yes"}' in run(4)
        assert "deploying 79\n" in run(5)
        until(lambda: "Deploy 79? yes" in said(appeared, 79), "the bot's last message")
        run(6, read_only)
        until(lambda: said(appeared, 80), "the link")
        until_acknowledged(address)
        run(7, read_only)
        assert run(8).count("deploying 80\n") == 3
        until(lambda: "Deploy 80? yes" in said(appeared, 80), "the bot's last message")
        until_acknowledged(address)
        assert said(appeared, 80) == ["Deploy 80? LINK", "Deploy 80? yes"]


def test_the_tokens_of_the_page_let_an_agent_ask_but_not_answer(page, tmp_path):
    begin, *_ = page
    begin()(9)
    agent, bot, _ = (line.split()[0] for line in (tmp_path / "tokens").read_text().splitlines())
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with Served("--tokens", tmp_path / "tokens", "--public-url", address, port=port) as served:
        served.ready()
        with Client(address, token=agent) as service:
            ask = {"title": "Deploy 7?", "choices": ["yes", "no"]}
            service.attach("deploy-7", ask=ask, announce="chat", deliver="chat")
            for refused in (lambda: service.answer("deploy-7", "yes"), lambda: service.links("deploy-7")):
                with pytest.raises(RequestRefused, match="403"):
                    refused()
        with Client(address, token=bot) as service:
            lease = service.take("chat")
            assert presses(service.links(lease.item["operation"], by="Ann").url) is False
            service.acknowledge(lease)
            assert service.status("deploy-7").by == "Ann"
