"""Real servers for tests: each with a folder and a port of its own.

Servers of `shared` start at their first use, serve all tests of the process, and stop with it.
"""

import atexit
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ports import free_port

PATIENCE_S = 60
PROGRAMS = f"{os.environ['PATH']}:/usr/sbin"


class Server:
    """A server's process. After `stop` it can `start` again, with its data and port."""

    stop_at_once = signal.SIGKILL

    def __init__(self):
        self.port = free_port()
        # Not below pytest's folder, which the user that Postgres runs as may not enter.
        self.folder = Path(tempfile.mkdtemp())
        self.process = None

    def command(self):
        raise NotImplementedError

    def answers(self):
        raise NotImplementedError

    def run_as(self):
        return {}

    def start(self):
        errors = self.folder.with_suffix(".err")
        with errors.open("ab") as stream:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=stream, stderr=stream, **self.run_as()
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self.answers():
            alive = self.process.poll() is None and time.monotonic() < deadline
            assert alive, errors.read_text(encoding="utf-8")
            time.sleep(0.02)

    def stop(self, number=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE_S)
            self.process = None

    def kill(self):
        """Kill all its processes with SIGKILL, as a machine's end would."""
        number = self.process.pid
        children = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii").split()
        self.stop(signal.SIGKILL)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)

    def close(self):
        with suppress(subprocess.TimeoutExpired):
            self.stop(self.stop_at_once)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.with_suffix(".err").unlink(missing_ok=True)


def postgres_programs():
    """The folder with the programs of the newest Postgres, or None."""
    found = list(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return max(found, key=lambda path: int(path.parts[-3])).parent
    return Path(on_path).resolve().parent if (on_path := shutil.which("postgres")) else None


class Postgres(Server):
    """A database cluster; `url` leads to its database ``postgres``."""

    stop_at_once = signal.SIGQUIT  # its processes go, and its shared memory with them

    def __init__(self, **settings):
        super().__init__()
        self.programs = postgres_programs()
        self.settings = settings
        self.url = f"postgresql://purgatory@127.0.0.1:{self.port}/postgres"
        if self.run_as():
            shutil.chown(self.folder, **self.run_as())
        init = [
            self.programs / "initdb",
            "-D",
            "data",
            "-U",
            "purgatory",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run(init, cwd=self.folder, check=True, capture_output=True, **self.run_as())

    def run_as(self):
        # It refuses to run as root.
        return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}

    def command(self):
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
            "shared_buffers": "16MB",
            **self.settings,
        }
        flags = [flag for name, value in settings.items() for flag in ("-c", f"{name}={value}")]
        return [self.programs / "postgres", "-D", "data", *flags]

    def answers(self):
        ready = [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0


class RedisServer(Server):
    """A Redis that loses nothing that it has answered."""

    def __init__(self, **settings):
        super().__init__()
        self.settings = {"appendonly": "yes", "appendfsync": "always", **settings}
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def command(self):
        settings = {"port": self.port, "bind": "127.0.0.1", "save": "", "dir": ".", **self.settings}
        return [
            "redis-server",
            *(word for name, value in settings.items() for word in (f"--{name}", str(value))),
        ]

    def answers(self):
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(100).startswith(b"+PONG")
        return False


@cache
def shared(kind):
    """The server of this kind for all tests of the process."""
    server = kind()
    atexit.register(server.close)
    server.start()
    return server


def by_engine(names):
    """Parameters, by engine; those on a server are slow, for it is started for them."""
    return [
        pytest.param(name, marks=pytest.mark.slow) if name in {"postgres", "redis"} else name
        for name in names
    ]


def need_postgres():
    if find_spec("asyncpg") is None:
        pytest.skip("asyncpg is not installed")
    if postgres_programs() is None:
        pytest.skip("Postgres is not installed; on Debian: apt-get install postgresql")


def new_database(prefix):
    """The URL of an empty database on the shared Postgres; skips the test if there is none."""
    need_postgres()
    psycopg, server = pytest.importorskip("psycopg"), shared(Postgres).url
    name = f"{prefix}_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.removesuffix("postgres") + name


def need_redis():
    if find_spec("redis") is None:
        pytest.skip("redis is not installed")
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed; on Debian: apt-get install redis-server")


class Pgbouncer(Server):
    """A pooler in front of a `Postgres`, in transaction mode, with few sessions that all its clients share."""

    def __init__(self, postgres, mode="transaction"):
        super().__init__()
        self.url = f"postgresql://purgatory@127.0.0.1:{self.port}/postgres"
        (self.folder / "users").write_text('"purgatory" ""\n')
        (self.folder / "pgbouncer.ini").write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={postgres.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nauth_type = trust\nauth_file = users\npool_mode = {mode}\n"
            "unix_socket_dir =\ndefault_pool_size = 6\n"
        )
        if self.run_as():
            shutil.chown(self.folder, **self.run_as())

    def run_as(self):
        # It refuses to run as root.
        return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}

    def command(self):
        return [shutil.which("pgbouncer", path=PROGRAMS), "pgbouncer.ini"]

    def answers(self):
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


def need_pgbouncer():
    need_postgres()
    if shutil.which("pgbouncer", path=PROGRAMS) is None:
        pytest.skip("pgbouncer is not installed; on Debian: apt-get install pgbouncer")
