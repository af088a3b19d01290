"""The programs of ``examples/agents``, and what stands around them: a service, links, a person, replicas."""

import http.client
import os
import select
import socket
import subprocess
import sys
import threading
from contextlib import closing, suppress
from functools import cache
from urllib.parse import urlencode, urlsplit

import pytest

from tests.cluster.servers import new_database
from tests.ports import free_port
from tests.processes import PATIENCE_S, WHOLE_S, Program, Served, accepts, until
from tests.source_tree import ROOT

EXAMPLES = ROOT / "examples" / "agents"
# The agents' SDKs are in an environment of their own, if .ci/check runs these tests.
PYTHON = os.environ.get("AGENTS_PYTHON", sys.executable)
QUEUE = "chat"


@cache
def missing(module):
    """Whether the agents' interpreter has no such module."""
    return (
        subprocess.run([PYTHON, "-c", f"import {module}"], check=False, capture_output=True).returncode != 0
    )


def need(*modules):
    for module in modules:
        if missing(module):
            pytest.skip(f"{module} is not installed for {PYTHON}; .ci/check agents has it")


class Started:
    """A program of the agents' interpreter; its output is read as it comes."""

    def __init__(self, *command, folder, **environment):
        # A rerun in the same folder finds the examples beside each other, as a reader does.
        path = os.pathsep.join(map(str, (ROOT, EXAMPLES)))
        self.process = Program(
            [PYTHON, *map(str, command)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        self.lines.extend(line.rstrip("\n") for line in self.process.stdout)

    def said(self, beginning):
        """The rest of the first line that begins so; None if there is none yet."""
        return next((line.removeprefix(beginning) for line in self.lines if line.startswith(beginning)), None)

    def says(self, beginning):
        """Wait for a line; returns the rest of it."""
        until(lambda: self.said(beginning) is not None or self.process.poll() is not None, beginning, WHOLE_S)
        self._reader.join(PATIENCE_S if self.process.poll() is not None else 0)
        assert self.said(beginning) is not None, self.lines
        return self.said(beginning)

    def end(self):
        """Wait for its end; returns its exit code and its lines."""
        until(lambda: self.process.poll() is not None, "the end", WHOLE_S)
        self._reader.join(PATIENCE_S)
        return self.process.returncode, self.lines

    def kill(self):
        self.process.kill()
        return self.end()

    def close(self):
        self.kill()
        self.process.stdout.close()


class TcpSwitch:
    """A TCP port that connects to the first of several ports that accepts."""

    def __init__(self, *ports):
        self._ports = ports
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                inner, _ = self._listening.accept()
                threading.Thread(target=self._join, args=(inner,), daemon=True).start()

    def _join(self, inner):
        with inner:
            port = next(filter(accepts, self._ports), None)
            if port is not None:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as outer:
                    exchange(inner, outer)

    def close(self):
        self._listening.close()


def exchange(one, other):
    """Pass bytes both ways until an end closes."""
    ways = {one: other, other: one}
    while True:
        for readable in select.select([*ways], [], [])[0]:
            if not (piece := readable.recv(65536)):
                return
            ways[readable].sendall(piece)


class Scene:
    """A service on a store, with links; programs started here end with it.

    Args:
        folder: Where the files are.
        stack: Closes what runs.
        store: What the service is on, ``sqlite`` or ``postgres``.
    """

    def __init__(self, folder, stack, store="sqlite"):
        self.folder, self._stack = folder, stack
        self.store = f"sqlite:///{folder}/questions.db"
        if store == "postgres":
            need("asyncpg")
            self.store = new_database("agents")
        self.secret = folder / "secret"
        self.secret.touch(mode=0o600)
        self.secret.write_text("0123456789abcdef" * 2)
        self.served = self.serve(free_port())

    def serve(self, port, *flags):
        """Start another service on the store."""
        links = ("--public-url", f"http://127.0.0.1:{port}", "--link-secret", self.secret)
        # Nothing reads its log.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        served = Served("--store", self.store, *links, *flags, port=port, **quiet)
        return self._stack.enter_context(served).ready()

    def start(self, *command, **environment):
        started = Started(*command, folder=self.folder, **environment)
        self._stack.callback(started.close)
        return started

    def where(self, carrier):
        """The arguments of the MCP server: a service's address, or a store of its own."""
        if carrier == "service":
            return [self.served.address]
        return [self.store, "--public-url", self.served.address, "--link-secret", self.secret]

    def mcp(self, *where, port):
        """Start an MCP server that accepts connections."""
        server = self.start(EXAMPLES / "mcp_server.py", *where, "--announce", QUEUE, "--port", port)
        until(lambda: accepts(port) or server.process.poll() is not None, "the MCP server", WHOLE_S)
        assert server.process.poll() is None, server.end()
        return server

    def switch(self, *ports):
        switch = TcpSwitch(*ports)
        self._stack.callback(switch.close)
        return switch.port

    def agent(self, question_id, *server, **environment):
        title = f"May I do {question_id}?"
        return self.start(EXAMPLES / "mcp_agent.py", question_id, title, *server, **environment)

    def left(self, queue):
        """How many items a queue has, or has leased; an empty one need not be there."""
        reply = self.served.request("GET", f"/v1/queues/{queue}")
        return 0 if reply.status == 404 else reply.json["items"] + reply.json["leased"]

    def asked(self):
        """How often a person was asked, and what came of each question."""
        listed = self.served.request("GET", "/v1/operations?state=all&limit=100").json["operations"]
        return self.left(QUEUE), [(each["id"], each["state"], each["result"]) for each in listed]


def press(link, choice):
    """Open a link and press a button, as a person does; the answer must count."""
    parts = urlsplit(link)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_S)) as browser:
        browser.request("GET", parts.path)
        page = browser.getresponse().read().decode()
        assert f'value="{choice}"' in page, page
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        browser.request("POST", parts.path, urlencode({"choice": choice}), form)
        answer = browser.getresponse()
        assert (answer.status, answer.read()) == (303, b"")  # to the page, which shows the answer
