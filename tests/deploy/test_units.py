"""The kit's units for systemd: what `systemd-analyze` and the service say of them."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.deploy.tools import KIT, program_or_skip, replaced, run

SERVICE, SOCKET = (KIT / "systemd" / f"purgatory.{kind}" for kind in ("service", "socket"))
PROGRAM = "/opt/purgatory/bin/purgatory"


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """Copies of the units, in which only the program differs: it must exist here."""
    text = replaced(SERVICE.read_text(encoding="utf-8"), f"={PROGRAM} ", f"={sys.executable} ")
    service, socket = tmp_path / SERVICE.name, tmp_path / SOCKET.name
    service.write_text(text, encoding="utf-8")
    socket.write_text(SOCKET.read_text(encoding="utf-8"), encoding="utf-8")
    return [service, socket]


def settings(name: str) -> list[str]:
    text = SERVICE.read_text(encoding="utf-8").replace("\\\n", "")
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


def setting(name: str) -> str:
    [value] = settings(name)
    return value


@pytest.mark.slow
def test_systemd_accepts_the_units(units: list[Path]) -> None:
    assert run(program_or_skip("systemd-analyze", "systemd"), "verify", *units) == ""


@pytest.mark.slow
def test_the_service_is_exposed_to_little(units: list[Path]) -> None:
    report = run(program_or_skip("systemd-analyze", "systemd"), "security", "--offline=true", units[0])
    [exposure] = re.findall(r"Overall exposure level for \S+: (\S+)", report)
    assert float(exposure) < 2.0


def test_the_program_accepts_the_units_flags() -> None:
    command = setting("ExecStart").replace("%d", "/run/credentials/purgatory").replace("%S", "/var/lib")
    program, serve, *flags = shlex.split(command)
    assert (program, serve) == (PROGRAM, "serve")
    chosen = run(sys.executable, "-m", "purgatory_async", "config", *flags)
    assert "sqlite:////var/lib/purgatory/purgatory.db" in chosen
    # The socket has the address: with LISTEN_FDS the service refuses one of its own.
    assert not {"--host", "--port", "--uds"} & set(flags)


def test_each_secret_is_a_credential() -> None:
    used = re.findall(r"%d/(\w+)", setting("ExecStart"))
    assert [f"{name}:/etc/purgatory/{name}" for name in used] == settings("LoadCredential")
    assert used == ["tokens", "link_secret"]


def test_the_service_is_watched_and_told_apart_from_its_port() -> None:
    assert setting("Type") == "notify"
    assert int(setting("WatchdogSec")) > 0
    assert SOCKET.name in setting("Requires")
