"""The kit's Dockerfile and Compose file, as far as they can be checked without Docker."""

import json
import re
import subprocess
import sys
from ipaddress import ip_address, ip_network

import pytest
import yaml

from tests.deploy.hosts import COMPOSE, HOSTS, SERVICES, flags
from tests.deploy.tools import KIT, PATIENCE_S, replaced, run
from tests.processes import Served
from tests.source_tree import ROOT


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
    assert {SERVICES[host]["user"] for host in HOSTS} == {instruction("USER")}


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


@pytest.mark.parametrize("name", [HOSTS[0], "image"])
def test_the_service_accepts_the_containers_command(name: str) -> None:
    given = json.loads(instruction("CMD"))[1:] if name == "image" else flags(name)
    assert json.loads(instruction("ENTRYPOINT")) == ["purgatory"]
    variables = {} if name == "image" else SERVICES[name]["environment"]
    words = [re.sub(r"\$\{[^}]+\}", "secret", f"{each}={value}") for each, value in variables.items()]
    settings = run("env", *words, sys.executable, "-m", "purgatory_async", "config", *given)
    assert "/run/secrets/tokens" in settings


def test_the_hosts_differ_in_nothing_but_their_address() -> None:
    first, second = ({**SERVICES[host], "networks": None} for host in HOSTS)
    assert first == second
    fixed = [f"{host}:{SERVICES[host]['networks']['inside']['ipv4_address']}" for host in HOSTS]
    assert SERVICES["nginx"]["extra_hosts"] == fixed
    subnet = ip_network(COMPOSE["networks"]["inside"]["ipam"]["config"][0]["subnet"])
    addresses = {ip_address(each.partition(":")[2]) for each in fixed}
    assert len(addresses) == len(HOSTS)
    assert all(address in subnet for address in addresses)


def test_nginx_and_prometheus_know_all_hosts_and_are_let_in() -> None:
    named = re.findall(r"^ *server (\S+) ", (KIT / "nginx.conf").read_text(encoding="utf-8"), re.MULTILINE)
    scrape = yaml.safe_load((KIT / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    [scraped] = scrape["scrape_configs"][0]["static_configs"]
    assert named == scraped["targets"] == [f"{host}:8765" for host in HOSTS]
    for host in HOSTS:
        assert {f"--allow-host={each}" for each in HOSTS} <= set(flags(host))


def test_a_host_has_the_time_that_it_needs_to_stop() -> None:
    assert {SERVICES[host]["stop_grace_period"] for host in HOSTS} == {"30s"}


def test_the_containers_cannot_write_where_they_need_not() -> None:
    for name in (*HOSTS, "nginx"):
        assert SERVICES[name]["read_only"] is True
    for host in HOSTS:
        assert SERVICES[host]["cap_drop"] == ["ALL"]
        assert SERVICES[host]["security_opt"] == ["no-new-privileges:true"]


def test_what_the_compose_file_mounts_and_names_exists() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (KIT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
        assert set(service.get("secrets", ())) <= COMPOSE["secrets"].keys()
        assert set(service.get("depends_on", ())) <= SERVICES.keys()


def test_the_secrets_are_mounted_and_stay_out_of_the_tree() -> None:
    for host in HOSTS:
        command = " ".join(SERVICES[host]["command"])
        assert re.findall(r"/run/secrets/(\w+)", command) == SERVICES[host]["secrets"]
    files = {secret["file"].removeprefix("./") for secret in COMPOSE["secrets"].values()}
    assert files <= set((KIT / ".gitignore").read_text(encoding="utf-8").splitlines())


def test_links_lead_to_nginx() -> None:
    [url] = [word for word in SERVICES[HOSTS[0]]["command"] if word.startswith("--public-url=")]
    [port] = SERVICES["nginx"]["ports"]
    assert url == "--public-url=${PURGATORY_PUBLIC_URL:-http://localhost:8080}"
    assert port == "${PURGATORY_PORT:-8080}:8080"


def checked(program: str, port: int) -> int:
    """The exit code of a container's health check."""
    command = [sys.executable, "-c", replaced(program, "8765", str(port))]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL, timeout=PATIENCE_S).returncode


@pytest.mark.slow
def test_the_health_check_tells_a_service_from_none() -> None:
    python, option, program = health_check()
    assert (python, option) == ("python", "-c")
    with Served() as served:
        assert checked(program, served.port) == 0
    assert checked(program, served.port) == 1


@pytest.mark.slow
def test_a_host_that_drains_is_not_ready_to_be_relied_on() -> None:
    command, python, option, program = SERVICES[HOSTS[0]]["healthcheck"]["test"]
    assert (command, python, option) == ("CMD", "python", "-c")
    with Served() as served:
        assert checked(program, served.port) == 0
        served.request("POST", "/v1/admin/drain")
        assert checked(program, served.port) == 1
