"""The README's commands for a backup of the Compose site, on a real Postgres; Docker itself is played."""

import os
import re
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.servers import Postgres, need_postgres
from tests.deploy.hosts import HOSTS
from tests.deploy.tools import KIT, PATIENCE_S
from tests.processes import Served
from tests.source_tree import ROOT

pytestmark = pytest.mark.slow

DOCKER = f"""#!/bin/sh
set -e
case "$1 $2 $3 $4" in
"compose exec -T postgres") shift 4; exec "$@" ;;
"compose run --rm --no-deps") shift 5; cd {ROOT}; exec {sys.executable} -m purgatory_async "$@" ;;
*) echo "docker $*" >&2; exit 64 ;;
esac
"""
"""A program for Docker: runs in place what a container would run."""


def commands(heading: str) -> list[str]:
    """The commands below a heading of the README."""
    text = (
        (KIT / "README.md").read_text(encoding="utf-8").partition(f"\n### {heading}\n")[2].partition("\n#")[0]
    )
    return re.findall(r"^\$ (.*)$", text, re.MULTILINE)


class Site:
    """A service on a database of the name that the Compose file gives it, and a shell with the played Docker."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        need_postgres()
        postgres = Postgres()
        stack.callback(postgres.close)
        postgres.start()
        (folder / "docker").write_text(DOCKER, encoding="utf-8")
        (folder / "docker").chmod(stat.S_IRWXU)
        self.store = f"postgresql://purgatory@127.0.0.1:{postgres.port}/purgatory"
        self._folder = folder
        self._environment = {
            **os.environ,
            "PATH": f"{folder}:{postgres.programs}:{os.environ['PATH']}",
            "PGHOST": "127.0.0.1",
            "PGPORT": f"{postgres.port}",
            "PURGATORY_STORE": self.store,
        }
        self.run("createdb --username purgatory purgatory")
        self.served = stack.enter_context(Served("--store", self.store, "--workers", 2))

    def run(self, command: str) -> None:
        """Run a line of the shell that must succeed."""
        shell = ["bash", "-euo", "pipefail", "-c", command]
        ended = subprocess.run(
            shell,
            cwd=self._folder,
            env=self._environment,
            check=False,
            timeout=PATIENCE_S,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, f"{command}: {ended.stderr}"

    def signal(self, *values: int) -> None:
        for value in values:
            assert self.served.request("POST", "/v1/keys/a/signal", {"value": value}).status == 200

    def read(self, since: str) -> tuple[list[int], bool, str]:
        """The values since a place, whether there is a gap, and the next place."""
        found = self.served.request("GET", f"/v1/wait?key=a&since={since}&wait=10s").json
        return [each["value"] for each in found["signals"]], found["gap"], found["next"]


def test_a_restored_backup_has_what_it_had_and_tells_readers(tmp_path):
    backup, stop, restore, renew, start = commands("Back up and restore")
    with ExitStack() as stack:
        site = Site(tmp_path, stack)
        site.signal(1, 2)
        site.run(backup)
        site.signal(3)
        values, gap, place = site.read("0")
        assert (values, gap) == ([1, 2, 3], False)
        assert stop.split()[:3] == ["docker", "compose", "stop"]
        assert stop.split()[3:] == list(HOSTS)
        assert site.served.stop()[0] == 0
        site.run(restore)
        site.run(renew)
        assert start == "docker compose up --detach --wait " + " ".join(HOSTS)
        site.served.start()
        site.signal(4)
        assert site.read(place)[:2] == ([1, 2, 4], True)
