"""The example that asks a person, with `kill -9` of each of its processes at each of its requests."""

import http.client
import http.server
import re
import signal
import socket
import threading
from contextlib import ExitStack, closing, suppress
from itertools import count
from urllib.parse import urlencode, urlsplit

import pytest

from tests.ports import free_port
from tests.processes import PATIENCE_S, Served, python, until
from tests.source_tree import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "ask_a_person.py"
CUT = (OSError, http.client.HTTPException)
# What is killed, at whose requests, and when: before one arrives, once it is sent, once the service has answered it.
DEATHS = [
    ("agent", "agent", "unsent"),
    ("agent", "agent", "sent"),
    ("agent", "agent", "answered"),
    ("bot", "bot", "unsent"),
    ("bot", "bot", "answered"),
    ("service", "agent", "sent"),
    ("service", "agent", "answered"),
    ("service", "bot", "sent"),
    ("service", "bot", "answered"),
    ("service", "person", "sent"),
    ("service", "person", "answered"),
]
REQUESTS = {"agent": 2, "bot": 7, "person": 2}  # of a party, at least, if nothing is killed


class Road(http.server.ThreadingHTTPServer):
    """A party's way to the service: a proxy that kills at a planned request."""

    daemon_threads = True

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), Passage)
        self.service = port
        self.requests, self._planned, self._kill = 0, None, None
        self._lines = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def plan(self, number, moment, kill):
        """Kill at a request of the next story."""
        self._planned, self._kill = (number, moment), kill

    @property
    def killed(self):
        return self._planned is None

    def next(self):
        self.requests += 1  # one after the other, as a party sends them
        return self.requests

    def is_fatal(self, number, moment):
        """Kill if this is the planned moment; returns whether it is."""
        if self._planned != (number, moment):
            return False
        self._planned = None
        self._kill()
        return True

    def line(self):
        """A connection to the service."""
        line = http.client.HTTPConnection("127.0.0.1", self.service, timeout=PATIENCE_S)
        self._lines.add(line)
        return line

    def cut(self):
        """End the requests of a party that is dead."""
        for line in [*self._lines]:
            with suppress(OSError, AttributeError):
                line.sock.shutdown(socket.SHUT_RDWR)

    def leave(self, line):
        line.close()
        self._lines.discard(line)

    def handle_error(self, *_):
        """A party that is dead reads no answer."""

    def __exit__(self, *_):
        self.shutdown()
        self.cut()
        self.server_close()


class Passage(http.server.BaseHTTPRequestHandler):
    """A request and its answer, on a connection that ends with them."""

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        number = self.server.next()
        if self.server.is_fatal(number, "unsent"):
            return
        line = self.server.line()
        with suppress(*CUT):
            line.request(self.command, self.path, body, dict(self.headers))
            if not self.server.is_fatal(number, "sent"):
                answer = line.getresponse()
                content = answer.read()
                # What the service has answered arrives, also when it is the one that dies now.
                self.server.is_fatal(number, "answered")
                self.pass_on(answer, content)
        self.server.leave(line)

    def pass_on(self, answer, content):
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"connection", "keep-alive", "transfer-encoding"}:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_GET  # noqa: N815 - the names are http.server's

    def log_message(self, *_):
        """Say nothing."""


class Scene:
    """A service on SQLite, the parties, and the roads between them."""

    def __init__(self, folder, stack):
        self._folder, self._stack = folder, stack
        port = free_port()
        names = ("agent", "replica", "bot", "person")
        self.roads = {name: stack.enter_context(Road(port)) for name in names}
        (secret := folder / "secret").touch(mode=0o600)
        secret.write_text("0123456789abcdef" * 2)
        flags = ("--store", f"sqlite:///{folder}/log", "--link-secret", secret)
        self.served = Served("--public-url", self.roads["person"].address, *flags, port=port)
        stack.enter_context(self.served).ready()
        # What a killed bot had taken comes again after this.
        assert self.served.request("PUT", "/v1/queues/chat", {"lease": "1s"}).status in {200, 201}
        self._running = {}

    def start(self, name, role, argument):
        process = self._stack.enter_context(python(EXAMPLE, role, self.roads[name].address, argument))
        self._stack.callback(process.kill)
        self._running[name] = (process, role, argument)

    def kill(self, name):
        (self.served.process if name == "service" else self._running[name][0]).kill()

    def end(self, name):
        """Wait for a party's end; return its exit code and what it printed."""
        process, *_ = self._running.pop(name)
        output, errors = process.communicate(timeout=PATIENCE_S)
        self.roads[name].cut()
        assert not errors
        return process.returncode, output

    def until(self, holds, what):
        """Wait until something holds; a party that is killed meanwhile starts again."""

        def tended():
            if self.served.process.poll() is not None:
                code, logged = self.served.end()
                assert code == -signal.SIGKILL, logged
                self.served.start()
            for name, (process, *command) in [*self._running.items()]:
                if process.poll() not in {None, 0}:
                    self.end(name)  # asserts that it died of no error
                    self.start(name, *command)
            with suppress(*CUT):  # the service may just be dead
                return holds()

        return until(tended, what)

    def told(self, version, press=None):
        """Let two replicas ask about a version, a bot announce it and a person agree; everything happens once."""
        (chat := self._folder / version).mkdir()
        for road in self.roads.values():
            road.requests = 0
        self.start("bot", "bot", chat)
        for name in ("agent", "replica"):
            self.start(name, "agent", version)
        url = self.until(lambda: messages(chat), "the question")[0].rpartition(" ")[2]
        for name in ("agent", "replica"):  # each has asked, and waits
            self.until(lambda name=name: self.roads[name].requests >= REQUESTS["agent"], name)
        self.until(lambda: (press or presses)(url), "the answer")
        for name in ("agent", "replica"):
            self.until(lambda name=name: self._running[name][0].poll() == 0, name)
            assert self.end(name) == (0, f"deploy {version}: yes\n")
        self.until(lambda: not self.in_the_queue(), "the end")
        self.kill("bot")
        self.end("bot")
        assert messages(chat) == [f"Deploy {version}? {url}", f"Deploy {version}? yes"]

    def in_the_queue(self):
        """How many items wait for the bot, or to be acknowledged by it."""
        queue = self.served.request("GET", "/v1/queues/chat").json
        return queue["items"] + queue["leased"]

    def asked(self):
        """The questions that there are, and who answered them."""
        listed = self.served.request("GET", "/v1/operations?state=all&limit=1000").json["operations"]
        return [(each["id"], each["state"], each["result"], each["by"]) for each in listed]


def messages(chat):
    return sorted(path.read_text() for path in chat.glob("[!.]*"))


def presses(url):
    """Open a link, and press the button of its page if there is one; returns whether the page shows the answer."""
    status, page = opened("GET", url)
    if "<button" in page:
        assert re.findall('<button name="choice" value="([^"]*)"', page) == ["yes", "no"]
        opened("POST", url, urlencode({"choice": "yes"}))
    return status == 200 and '<h1 dir="auto">Answered</h1>' in page


def opened(method, url, form=None):
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_S)) as browser:
        kind = {} if form is None else {"Content-Type": "application/x-www-form-urlencoded"}
        browser.request(method, parts.path, form, kind)
        answer = browser.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture
def scene(tmp_path):
    with ExitStack() as stack:
        yield Scene(tmp_path, stack)


@pytest.mark.parametrize(("victim", "road", "moment"), DEATHS)
def test_a_kill_at_any_request_loses_and_doubles_nothing(scene, victim, road, moment):
    for number in count(1):
        scene.roads[road].plan(number, moment, lambda: scene.kill(victim))
        scene.told(f"1.{number}")
        if not scene.roads[road].killed:
            break
    assert number > REQUESTS[road]
    yes = ("completed", {"choice": "yes"}, "Ann")
    assert scene.asked() == [(f"deploy-1.{each + 1}", *yes) for each in range(number)]


def test_asking_again_gives_the_answer_and_no_message(scene):
    scene.told("77")
    scene.start("agent", "agent", "77")
    assert scene.end("agent") == (0, "deploy 77: yes\n")
    assert not scene.in_the_queue()
