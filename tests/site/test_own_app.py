"""The page for own apps: two instances as its units start them, behind its nginx, restarted in turn under clients."""

import asyncio
import http.client
import os
import re
import signal
import socket
import sys
import threading
from collections import Counter
from contextlib import ExitStack, closing

import pytest

from tests.deploy.tools import program_or_skip, replaced, run
from tests.pages import SAVED, Saved, fenced_blocks, links, steps
from tests.ports import free_port
from tests.processes import WHOLE_S, Pending, Program, accepts, python, until
from tests.source_tree import ROOT
from tests.terminal import Terminal, prints

SITE = ROOT / ".github" / "site"
TEXT = (SITE / "howto" / "own_app.md").read_text(encoding="utf-8")
TUTORIAL = (SITE / "tutorials" / "long_poll.md").read_text(encoding="utf-8")
BLOCKS = fenced_blocks(TEXT)
ADDED = "from fastapi import Response\n"  # how the block begins that is added to the tutorial's app
NAMES = ["app@.socket", "app@.service", "nginx.conf", "client.py"]
JOBS = 20
MOMENTS = 5  # of reports: before, in each restart, between, after


def saved():
    """The page's files, by their names without folders."""
    named = [name.rpartition("/")[2] for name in SAVED.findall(TEXT)]
    unnamed = ("sh", "text")
    texts = [block.text for block in BLOCKS if block.language not in unnamed and not is_added(block)]
    return dict(zip(named, texts, strict=True))


def is_added(block):
    return block.text.startswith(ADDED)


def test_the_page_has_only_what_is_run_here():
    assert [*saved()] == NAMES
    assert [block.language for block in BLOCKS if block.language in {"sh", "text"}] == ["sh", "text"]
    assert len([block for block in BLOCKS if is_added(block)]) == 1


def test_a_link_of_the_page_leads_to_a_file():
    local = [link.partition("#")[0] for link in links(TEXT) if "://" not in link]
    assert [link for link in local if not (SITE / "howto" / link).exists()] == []


@pytest.mark.slow
def test_systemd_accepts_the_units(tmp_path):
    units = saved()
    start = re.compile(r"/srv/app/\S+/uvicorn")
    for name in NAMES[:2]:
        unit = tmp_path / name.replace("@", "@8001")
        text = units[name].replace("WorkingDirectory=/srv/app", f"WorkingDirectory={tmp_path}")
        unit.write_text(start.sub(sys.executable, text), encoding="utf-8")
    assert run(program_or_skip("systemd-analyze", "systemd"), "verify", *tmp_path.iterdir()) == ""


class Instance:
    """An instance as its unit starts it, on a socket that stays open, as systemd's does."""

    def __init__(self, folder, port, line):
        self._folder, self._command = folder, re.sub(r"\S+/uvicorn", f"{sys.executable} -m uvicorn", line)
        self._socket = socket.create_server(("127.0.0.1", port), backlog=4096)
        self.log = folder / f"{port}.log"
        self.start()

    def start(self):
        number = self._socket.fileno()
        with self.log.open("a") as log:
            self._process = Program(
                ["bash", "-c", f"exec 3<&{number}; exec {self._command}"],
                cwd=self._folder,
                pass_fds=[number],
                stdout=log,
                stderr=log,
                env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(WHOLE_S) == 0

    def close(self):
        os.killpg(self._process.pid, signal.SIGKILL)  # its workers, too
        self._process.wait()
        self._socket.close()


class Rolled:
    """Two instances behind nginx, in a folder; a stand-in for `systemctl` asks for restarts by files."""

    def __init__(self, folder, stack):
        self._folder = folder
        files = saved()
        tutorial = {step.name: step.text for step in steps(TUTORIAL) if isinstance(step, Saved)}
        [probes] = [block.text for block in BLOCKS if is_added(block)]
        (folder / "jobs.py").write_text(tutorial["jobs.py"], encoding="utf-8")
        (folder / "app.py").write_text(f"{tutorial['app.py']}\n\n{probes}", encoding="utf-8")
        (folder / "client.py").write_text(files["client.py"], encoding="utf-8")
        self.jobs('run("CREATE TABLE jobs (id text PRIMARY KEY, result text)")')
        [line] = re.findall(r"^ExecStart=(.*)$", files["app@.service"], re.MULTILINE)
        self.ports = {8001: free_port(), 8002: free_port(), 8080: free_port()}
        self.instances = {}
        for port in (8001, 8002):
            self.instances[port] = Instance(folder, self.ports[port], line)
            stack.callback(self.instances[port].close)
        self._serve(files["nginx.conf"], stack)
        (folder / "bin").mkdir()
        (asked := folder / "bin" / "systemctl").write_text(
            'touch "$1-$2"\nwhile [ -e "$1-$2" ]; do sleep 0.1; done\n', encoding="utf-8"
        )
        asked.chmod(0o755)

    def _serve(self, config, stack):
        (temp := self._folder / "temp").mkdir()
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        own = "".join(f"{kind}_temp_path {temp}/{kind};\n" for kind in kinds)
        own += f"log_format s '$status $upstream_status';\naccess_log {self._folder}/access.log s;\n"
        config = replaced(self.own(config), "http {\n", f"http {{\n{own}")
        config = replaced(config, "listen ", "listen 127.0.0.1:")
        config = replaced(config, "/run/nginx.pid", f"{self._folder}/nginx.pid")
        (self._folder / "nginx.conf").write_text(config, encoding="utf-8")
        command = [program_or_skip("nginx", "nginx-light"), "-c", self._folder / "nginx.conf"]
        command += ["-e", self._folder / "error.log", "-g", "daemon off; master_process off;"]
        process = stack.enter_context(Program(command))
        stack.callback(process.kill)
        until(lambda: accepts(self.ports[8080]), "nginx")

    def own(self, text):
        """A text of the page with the ports of this run."""
        for shown, port in self.ports.items():
            text = re.sub(rf"\b{shown}\b", str(port), text)
        return text

    def jobs(self, call):
        """Call a function of the tutorial's jobs, from a program without a loop."""
        with python(
            "-c", f"import jobs; jobs.{call}", cwd=self._folder, env={"PYTHONPATH": str(ROOT)}
        ) as program:
            output = program.communicate(timeout=WHOLE_S)
        assert (program.returncode, *output) == (0, "", "")

    def request(self, method, path, port=8080):
        """Ask for something; returns the status."""
        with closing(
            http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=WHOLE_S)
        ) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def restarts(self, meanwhile):
        """Restart the instances that `systemctl` was asked for."""
        for shown, instance in self.instances.items():
            if (asked := self._folder / f"restart-app@{self.ports[shown]}").exists():
                instance.stop()
                meanwhile()
                instance.start()
                asked.unlink()

    def held(self):
        """How many polls have begun in all."""
        return sum(
            each.log.read_text(encoding="utf-8").count("waits for") for each in self.instances.values()
        )

    def statuses(self):
        """What nginx answered, and what it was answered for each request."""
        lines = (self._folder / "access.log").read_text(encoding="utf-8").splitlines()
        return [(int(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]


class Clients(threading.Thread):
    """The page's client, once for each job, on a loop of its own."""

    def __init__(self, folder, port):
        super().__init__(daemon=True)
        names = {}
        exec((folder / "client.py").read_text(encoding="utf-8"), names)
        self._result, self._httpx, self._port = names["result"], names["httpx2"], port
        self.results = None
        self.start()

    def run(self):
        async def ask():
            limits = self._httpx.Limits(max_connections=None)
            address = f"http://127.0.0.1:{self._port}"
            async with self._httpx.AsyncClient(base_url=address, limits=limits) as client:
                return await asyncio.gather(*(self._result(client, str(job)) for job in range(JOBS)))

        self.results = asyncio.run(ask())


@pytest.mark.slow
def test_a_restart_in_turn_loses_no_result_and_shows_no_502(tmp_path):
    for module in ("fastapi", "uvicorn", "httpx2", "msgspec"):
        pytest.importorskip(module)
    unreported, changes = iter(range(JOBS)), []
    with ExitStack() as stack:
        rolled = Rolled(tmp_path, stack)
        for port in (8001, 8002):
            until(lambda port=port: rolled.request("GET", "/readyz", port) == 200, "readiness")
        assert rolled.request("GET", "/healthz") == 200
        assert {rolled.request("PUT", f"/jobs/{job}") for job in range(JOBS)} == {200}
        clients = Clients(tmp_path, rolled.ports[8080])
        until(lambda: rolled.held() >= JOBS, "the polls", WHOLE_S)

        def report():
            """Report a share of the jobs, and create one, while an instance may be away."""
            for _ in range(JOBS // MOMENTS):
                job = next(unreported)
                rolled.jobs(f"report('{job}', 'result {job}')")
            changes.append(Pending(rolled, "PUT", "/jobs/another"))  # may wait until the instance is back

        report()
        path = f"{tmp_path}/bin:/usr/bin:/bin"
        terminal = Terminal(tmp_path, [], PATH=path)
        stack.callback(terminal.close)
        loop, shown = (rolled.own(block.text) for block in BLOCKS if block.language in {"sh", "text"})
        printed = terminal.run(loop, lambda: rolled.restarts(report))
        assert prints(shown, printed.partition("\nthe block is over")[0]), printed
        for job in unreported:
            rolled.jobs(f"report('{job}', 'result {job}')")
        clients.join(WHOLE_S)
        assert clients.results == [f"result {job}" for job in range(JOBS)]
        assert {change.join() for change in changes} == {200}
        found = rolled.statuses()
    assert {status for status, _ in found} <= {200, 204, 503}, Counter(found)
    moved = [tried for status, tried in found if status == 200 and tried.startswith("503")]
    assert moved, "no poll was held by an instance that restarted"
