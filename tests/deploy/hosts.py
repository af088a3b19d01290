"""The Compose file's hosts of the service as processes, each with all of its own."""

import http.client
import os
import re
import signal
import stat
import subprocess
from contextlib import closing
from http import HTTPStatus
from pathlib import Path

import yaml

from tests.deploy.tools import KIT, PATIENCE_S, replaced
from tests.processes import Served, until

COMPOSE = yaml.safe_load((KIT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
HOSTS = ("purgatory-1", "purgatory-2")
TOKEN = "everything-0123456789abcdef"
"""Of the admin, with which the clients of the tests do all."""


def flags(host: str) -> list[str]:
    """The flags of a host, with the defaults of the variables."""
    serve, *found = (re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", word) for word in SERVICES[host]["command"])
    assert serve == "serve"
    return found


def secrets(folder: Path) -> None:
    """Make the files that the containers get as secrets."""
    for name, text in {"tokens": f"{TOKEN} wait,signal,answer,read,admin", "link_secret": "s" * 44}.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
        (folder / name).chmod(stat.S_IRUSR | stat.S_IWUSR)


class Host:
    """One host: a supervisor and its workers, at an address of its own.

    Args:
        name: In the Compose file.
        folder: With its `secrets`.
        store: The store's URL.
        address: Where it listens.
        port: The same for all hosts.
    """

    def __init__(self, name: str, folder: Path, store: str, address: str, port: int) -> None:
        self.name, self.address = name, address
        self._folder, self._store, self._port = folder, store, port
        self._served: Served | None = None

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        text = "\n".join(flags(self.name)).replace("/run/secrets", f"{self._folder}")
        given = replaced(text, "--host=0.0.0.0", f"--host={self.address}").splitlines()
        # A reader that a kill holds up for long shall miss nothing.
        environment = {**os.environ, "PURGATORY_STORE": self._store, "PURGATORY_KEEP_SIGNALS": "100000"}
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._served = Served(
                *given, port=self._port, env=environment, start_new_session=True, stderr=log
            ).start()
        until(self.ready, f"readiness of {self.name}")

    def ready(self) -> bool:
        """What the Compose file's health check asks."""
        with closing(http.client.HTTPConnection(self.address, self._port, timeout=PATIENCE_S)) as connection:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == HTTPStatus.OK

    def stop(self) -> int:
        """Stop it as `docker stop` does; returns its exit code."""
        self.process.terminate()
        return self._ended()

    def kill(self) -> None:
        """End all its processes at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self._ended()

    @property
    def process(self) -> subprocess.Popen[str]:
        """Its supervisor."""
        assert self._served is not None
        return self._served.process

    def _ended(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self.close()
        return code

    def close(self) -> None:
        """Leave nothing behind."""
        if self._served is not None:
            self._served.close()
