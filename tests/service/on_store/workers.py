"""Workers of the service as processes of their own on one store, and plain requests to them."""

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[3]
PATIENCE = 45.0  # seconds; less than the 50 s of a held request


def until(holds, what):
    """Wait until something holds; returns what it brought."""
    give_up = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < give_up, f"{what} never came"
        time.sleep(0.02)
    return found


class Reply:
    """A complete answer."""

    def __init__(self, reply, body):
        self.status = reply.status
        self.headers = {name.lower(): value for name, value in reply.getheaders()}
        self.json = json.loads(body) if body else None

    @property
    def slug(self):
        return self.json["type"].removeprefix("urn:purgatory:problem:")


class Pending:
    """A request under way in a thread, and its answer or error once there is one."""

    def __init__(self, worker, *request):
        self.reply = self.error = None
        self._thread = threading.Thread(target=self._run, args=(worker, request), daemon=True)
        self._thread.start()

    def _run(self, worker, request):
        try:
            self.reply = worker.request(*request)
        except (OSError, http.client.HTTPException) as error:
            self.error = error

    @property
    def over(self):
        return not self._thread.is_alive()

    def join(self):
        self._thread.join(PATIENCE)
        assert self.over, "the request is still held"
        if self.error is not None:
            raise self.error
        return self.reply


class Worker:
    """A ``purgatory serve`` process; after its end it can `start` again, at another port."""

    def __init__(self, store, *flags):
        self.flags = ("--store", store, "--jitter", "0", *flags)
        self.process = self.port = None

    def start(self):
        """Start it; it accepts connections then, but need not be ready."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "purgatory_async", "serve", "--port", "0", *self.flags],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.port = int(self.process.stdout.readline().rpartition(":")[2])
        return self

    def ready(self):
        """Wait until it is ready."""
        until(lambda: self.request("GET", "/readyz").status == 200, "readiness")
        return self

    def request(self, method, target, body=None, headers=None):
        """Send a request and wait for its answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            text = None if body is None else json.dumps(body)
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, target, text, {**kind, **(headers or {})})
            reply = connection.getresponse()
            return Reply(reply, reply.read())

    def hold(self, method, target, body=None):
        """Send a request that the worker holds; return it when it does."""
        taking = target.endswith("take") or "/take?" in target
        before = self.counts()["takers" if taking else "held"]
        pending = Pending(self, method, target, body)
        until(lambda: self.counts()["takers" if taking else "held"] > before, "a held request")
        return pending

    def counts(self):
        return self.request("GET", "/v1/admin/stats").json["counts"]

    def kill(self):
        self.send(signal.SIGKILL)
        return self.end()

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        """Wait for its end; return its exit code and what it wrote on standard error."""
        _, logged = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, logged

    def stop(self):
        self.send(signal.SIGTERM)
        return self.end()

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process.stderr.close()
