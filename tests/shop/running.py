"""The shop of ``examples/shop`` as its docstring says it is started, and what may happen to its workers."""

import ast
import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.cluster.servers import new_database
from tests.ports import free_port
from tests.processes import Program, accepts, until
from tests.source_tree import ROOT

EXAMPLE = ROOT / "examples" / "shop"
SQLITE = "sqlite:///shop.db"


def commands(program):
    """The shell's lines in the docstring of a program."""
    lines = ast.get_docstring(ast.parse((EXAMPLE / program).read_text(encoding="utf-8"))).splitlines()
    return "\n".join(line.strip() for line in lines if line.startswith("    "))


def new_store(engine):
    """The URL of an empty store; skips the test if it cannot be made."""
    pytest.importorskip("fastapi")
    if engine == "sqlite":
        return SQLITE
    return new_database("shop")


class Shop:
    """The example's programs in a folder of their own, on a store.

    Args:
        folder: Where it is copied to.
        store: Its URL; the one that the docstring names if not given.

    Attributes:
        command: Starts it; None for the docstring's line.
    """

    command = None

    def __init__(self, folder, store=SQLITE):
        self.folder = folder / "shop"
        self.copy()
        self.port = free_port()
        self.store = store.replace(SQLITE, f"sqlite:///{self.folder}/shop.db")
        self._export, command = commands("app.py").split("\n")
        assert SQLITE in self._export
        self._export = self._export.replace(SQLITE, store)
        self._programs = []
        self.app = self.start(self.command or command)
        until(lambda: accepts(self.port) and len(self.workers) == 4, "the workers")

    def copy(self):
        """Copy the programs to the folder."""
        shutil.copytree(EXAMPLE, self.folder, ignore=shutil.ignore_patterns("__pycache__"))

    def rows(self, query):
        """The rows that a query brings from the store's database."""
        if self.store.startswith("sqlite:///"):
            connection = sqlite3.connect(self.store.removeprefix("sqlite:///"))
        else:
            import psycopg  # noqa: PLC0415 - for this engine only

            connection = psycopg.connect(self.store)
        with closing(connection):
            return connection.execute(query).fetchall()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self, command, **options):
        """Run a line of the shell in the example's folder."""
        program = Program(self.words(command), **{**self.options, **options}, text=True)
        self._programs.append(program)
        return program

    def words(self, command):
        """The program and arguments that run a line of the shell."""
        return "bash", "-c", f"{self._export}\n{command}"

    @property
    def options(self):
        """The options of a process that runs it."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        settings = {"PATH": path, "PYTHONPATH": str(ROOT), "UVICORN_PORT": str(self.port)}
        environment = {**os.environ, **settings, "UVICORN_LOG_LEVEL": "warning"}
        return {"cwd": self.folder, "start_new_session": True, "env": environment}

    @property
    def workers(self):
        """The process ids of uvicorn's workers, the oldest first; the shell has become their supervisor."""
        return sorted(each for each in children(self.app.pid) if "spawn_main" in command_of(each))

    def close(self):
        """Kill all of it."""
        for program in self._programs:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def children(number):
    with suppress(FileNotFoundError):
        return [
            int(each)
            for each in Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii").split()
        ]
    return []


def command_of(number):
    with suppress(FileNotFoundError):
        return Path(f"/proc/{number}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    return ""
