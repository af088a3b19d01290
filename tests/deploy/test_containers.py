"""The kit's Dockerfile and Compose file, as far as they can be checked without Docker."""

import json
import re
import subprocess
import sys

import pytest
import yaml

from tests.deploy.tools import KIT, PATIENCE_S, replaced, run
from tests.processes import Served
from tests.source_tree import ROOT

COMPOSE = yaml.safe_load((KIT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions of the last stage, each as one line."""
    text = re.sub(r"\\\n\s*", "", (KIT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    last = max(place for place, line in enumerate(lines) if line.startswith("FROM "))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines[last:])]


def instruction(name: str) -> str:
    [rest] = [rest for each, rest in instructions() if each == name]
    return rest


def health_check() -> list[str]:
    return json.loads(instruction("HEALTHCHECK").partition(" CMD ")[2])


def test_the_image_does_not_run_as_root() -> None:
    user, _, group = instruction("USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert SERVICES["purgatory"]["user"] == instruction("USER")


def test_what_the_image_copies_exists() -> None:
    text = (KIT / "Dockerfile").read_text(encoding="utf-8")
    copied = [
        line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY ") and "--from" not in line
    ]
    assert copied
    listed = (KIT / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists()
        assert f"!{name}" in listed


@pytest.mark.parametrize("name", ["purgatory", "image"])
def test_the_service_accepts_the_containers_command(name: str) -> None:
    command = json.loads(instruction("CMD")) if name == "image" else SERVICES["purgatory"]["command"]
    serve, *flags = [re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", word) for word in command]
    assert serve == "serve"
    assert json.loads(instruction("ENTRYPOINT")) == ["purgatory"]
    settings = run(sys.executable, "-m", "purgatory_async", "config", *flags)
    assert "/run/secrets/tokens" in settings


def test_the_containers_cannot_write_where_they_need_not() -> None:
    for name in ("purgatory", "nginx"):
        assert SERVICES[name]["read_only"] is True
    assert SERVICES["purgatory"]["cap_drop"] == ["ALL"]
    assert SERVICES["purgatory"]["security_opt"] == ["no-new-privileges:true"]


def test_what_the_compose_file_mounts_and_names_exists() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (KIT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
        assert set(service.get("secrets", ())) <= COMPOSE["secrets"].keys()
        assert set(service.get("depends_on", ())) <= SERVICES.keys()
    scrape = yaml.safe_load((KIT / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    [target] = scrape["scrape_configs"][0]["static_configs"][0]["targets"]
    # The name under which Prometheus asks must be one that the service accepts.
    assert target == "purgatory:8765"
    assert "--allow-host=purgatory" in SERVICES["purgatory"]["command"]


def test_the_secrets_are_mounted_and_stay_out_of_the_tree() -> None:
    command = " ".join(SERVICES["purgatory"]["command"])
    assert re.findall(r"/run/secrets/(\w+)", command) == SERVICES["purgatory"]["secrets"]
    files = {secret["file"].removeprefix("./") for secret in COMPOSE["secrets"].values()}
    assert files <= set((KIT / ".gitignore").read_text(encoding="utf-8").splitlines())


def test_links_lead_to_nginx() -> None:
    [url] = [word for word in SERVICES["purgatory"]["command"] if word.startswith("--public-url=")]
    [port] = SERVICES["nginx"]["ports"]
    assert url == "--public-url=${PURGATORY_PUBLIC_URL:-http://localhost:8080}"
    assert port == "${PURGATORY_PORT:-8080}:8080"


@pytest.mark.slow
def test_the_health_check_tells_a_service_from_none() -> None:
    python, option, program = health_check()
    assert python == "python"

    def check(port: int) -> int:
        command = [sys.executable, option, replaced(program, "8765", str(port))]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL, timeout=PATIENCE_S).returncode

    with Served() as served:
        assert check(served.port) == 0
    assert check(served.port) == 1
