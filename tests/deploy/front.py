"""The kit's nginx as a process, before services of a test."""

import http.client
import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tests.deploy.tools import KIT, PATIENCE_S, program_or_skip, replaced
from tests.ports import free_port
from tests.processes import accepts, until

FIRST, SECOND = (f"server purgatory-{number}:8765 max_fails=0;" for number in (1, 2))


def instead_of_names(*addresses: str) -> dict[str, str]:
    """Changes for an nginx that knows its hosts by address: one or two."""
    first, second = (*(f"server {address} max_fails=0;" for address in addresses), "", "")[:2]
    return {FIRST: first, SECOND: second}


class Front:
    """An nginx with the kit's configuration, in which only addresses and paths are others.

    Args:
        folder: For its files.
        changes: What else is replaced: the hosts.
        workers: Whether it has processes that answer, beside the one that reads the configuration.
    """

    def __init__(self, folder: Path, changes: Mapping[str, str], *, workers: bool = False) -> None:
        self.port = free_port()
        self._log, self.errors = folder / "access.log", folder / "error.log"
        text = (KIT / "nginx.conf").read_text(encoding="utf-8").replace(" /tmp/", f" {folder}/")
        for old, new in {
            "listen 8080;": f"listen 127.0.0.1:{self.port};",
            "worker_rlimit_nofile 65536;": "" if os.geteuid() else "user root;",
            "/dev/stdout": f"{self._log}",
            "/dev/stderr": f"{self.errors}",
            **changes,
        }.items():
            text = replaced(text, old, new)
        config = folder / "nginx.conf"
        config.write_text(text, encoding="utf-8")
        running = "daemon off;" if workers else "daemon off; master_process off;"
        self.process = subprocess.Popen(
            [
                program_or_skip("nginx", "nginx-light"),
                "-c",
                config,
                "-e",
                self.errors,
                "-g",
                running,
            ]
        )
        until(lambda: accepts(self.port) or self.process.poll() is not None)
        assert self.process.poll() is None, self.errors.read_text(encoding="utf-8")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> list[str]:
        return self._log.read_text(encoding="utf-8").splitlines()

    def open(self, method: str, path: str, body: object = None, **fields: str) -> http.client.HTTPConnection:
        """Send a request; its answer is got from what this returns."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        headers |= {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection

    def ask(self, method: str, path: str, body: object = None, **fields: str) -> http.client.HTTPResponse:
        with closing(self.open(method, path, body, **fields)) as connection:
            reply = connection.getresponse()
            reply.read()
            return reply

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(PATIENCE_S)
