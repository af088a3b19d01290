"""The stores that workers share: each with a folder of its own, and a server where it needs one."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

__all__ = ["STORES", "NotInstalled", "Store", "store_named"]

PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.02


class NotInstalled(Exception):  # noqa: N818 - what is the case
    """The store cannot be measured here; the message says what to install."""


class Store:
    """A file, which has no connections; base of the others.

    Args:
        folder: Its own, empty.

    Attributes:
        url: For ``--store``.
        cuts: Whether it has connections that `cut` kills.
    """

    cuts = False

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'store.db'}"

    async def cut(self) -> int:
        """Kill all connections of others; return how many."""
        return 0


class _Server(Store):
    """A server's process on a port of its own."""

    cuts = True
    stop = signal.SIGKILL

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = _free_port()

    def start(self, command: list[str], folder: Path, **how: Any) -> None:
        """Start it, and wait until it answers."""
        with (folder / "server.log").open("wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **how)
        deadline = time.monotonic() + PATIENCE_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start: {(folder / 'server.log').read_text()}")
            time.sleep(LOOK_S)

    def answers(self) -> bool:
        """Whether it takes connections."""
        raise NotImplementedError

    def close(self) -> None:
        """End it at once."""
        self.process.send_signal(self.stop)
        self.process.wait(PATIENCE_S)


class _Postgres(_Server):
    stop = signal.SIGQUIT  # its processes and its shared memory go with it

    def __init__(self, folder: Path) -> None:
        if find_spec("asyncpg") is None:
            raise NotInstalled("Postgres: asyncpg is not installed; pip install 'purgatory-async[postgres]'")
        super().__init__(folder)
        programs = _postgres_programs()
        if programs is None:
            raise NotInstalled("Postgres: it is not installed; on Debian: apt-get install postgresql")
        self._programs = programs
        # It refuses to run as root.
        user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        if user:
            shutil.chown(folder, **user)
        init = [str(programs / "initdb"), "-D", "data", "-U", "purgatory", "-A", "trust", "--no-sync"]
        subprocess.run([*init, "-E", "UTF8"], cwd=folder, check=True, capture_output=True, **user)
        self.url = f"postgresql://purgatory@127.0.0.1:{self.port}/postgres"
        flags = ("listen_addresses=127.0.0.1", f"port={self.port}", "unix_socket_directories=")
        command = [
            str(programs / "postgres"),
            "-D",
            "data",
            *(word for flag in flags for word in ("-c", flag)),
        ]
        self.start(command, folder, **user)

    def answers(self) -> bool:
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0

    async def cut(self) -> int:
        import asyncpg  # noqa: PLC0415 - needs an extra

        connection = await asyncpg.connect(self.url)
        try:
            found: int = await connection.fetchval(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        finally:
            await connection.close()
        return found


class _Redis(_Server):
    def __init__(self, folder: Path) -> None:
        if find_spec("redis") is None:
            raise NotInstalled("Redis: redis-py is not installed; pip install 'purgatory-async[redis]'")
        program = shutil.which("redis-server")
        if program is None:
            raise NotInstalled("Redis: it is not installed; on Debian: apt-get install redis-server")
        super().__init__(folder)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        flags = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]
        self.start([program, "--port", str(self.port), *flags], folder)

    def answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(100).startswith(b"+PONG")
        return False

    async def cut(self) -> int:
        from redis.asyncio import Redis  # noqa: PLC0415 - needs an extra

        async with Redis.from_url(self.url) as client:
            found: int = await client.client_kill_filter(_type="normal", skipme=True)
        return found


STORES: Final[dict[str, Callable[[Path], Store]]] = {"sqlite": Store, "postgres": _Postgres, "redis": _Redis}


@contextmanager
def store_named(name: str) -> Iterator[Store]:
    """Start an empty store; removed at the end.

    Raises:
        NotInstalled: It is not here.
    """
    folder = Path(tempfile.mkdtemp(prefix="bench-cluster-"))
    try:
        store = STORES[name](folder)
        try:
            yield store
        finally:
            if isinstance(store, _Server):
                store.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _postgres_programs() -> Path | None:
    found = list(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return max(found, key=lambda path: int(path.parts[-3])).parent
    on_path = shutil.which("postgres")
    return Path(on_path).resolve().parent if on_path else None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])
