"""The kit's Helm chart: linted and rendered by Helm, its objects held against Kubernetes' schemas, its command run."""

import http.client
import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

import purgatory_async
from tests.deploy.hosts import secrets
from tests.deploy.tools import KIT, PATIENCE_S, run, tool_or_skip
from tests.ports import free_port
from tests.processes import Served

CHART = KIT / "helm"
KUBERNETES = "1.37"
OF_THE_OPERATOR = {"ServiceMonitor", "PrometheusRule"}
"""Kinds that Kubernetes itself has no schema for."""

# Every part of the chart.
ALL = {
    "links": {"publicUrl": "https://waits.example.org", "existingSecret": "links"},
    "allowHosts": ["waits.internal"],
    "extraFlags": ["--max-pending=200000"],
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "host": "waits.example.org",
        "tlsSecret": "waits-tls",
        "annotations": {"nginx.ingress.kubernetes.io/proxy-read-timeout": "75"},
    },
    "monitoring": {"serviceMonitor": True, "prometheusRule": True, "dashboard": True, "labels": {"a": "b"}},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "podAnnotations": {"c": "d"},
    "imagePullSecrets": [{"name": "pull"}],
}
VALIDATE = """
import json, sys
import kubernetes_validate
for document in json.load(sys.stdin):
    kubernetes_validate.validate(document, sys.argv[1], strict=True)
"""


def helm(folder: Path, command: str, values: object) -> subprocess.CompletedProcess[str]:
    """Run a command of Helm on the chart."""
    written = folder / "values.json"
    written.write_text(json.dumps(values), encoding="utf-8")
    return subprocess.run(
        [tool_or_skip("helm/helm"), *command.split(), str(CHART), "--values", written],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def rendered(folder: Path, values: object) -> dict[str, Any]:
    """The objects that the chart makes, by kind."""
    ended = helm(folder, "template waits --namespace prod", values)
    assert ended.returncode == 0, ended.stderr
    documents = [each for each in yaml.safe_load_all(ended.stdout) if each]
    found = {each["kind"]: each for each in documents}
    assert len(found) == len(documents)
    return found


@pytest.fixture
def objects(tmp_path: Path) -> dict[str, Any]:
    """What the whole chart makes."""
    return rendered(tmp_path, ALL)


def pod(objects: dict[str, Any]) -> dict[str, Any]:
    return objects["Deployment"]["spec"]["template"]["spec"]


def container(objects: dict[str, Any]) -> dict[str, Any]:
    [found] = pod(objects)["containers"]
    return found


def test_the_chart_is_of_this_version() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert about["version"] == about["appVersion"] == purgatory_async.__version__


def test_the_chart_has_no_second_copy_of_alerts_or_dashboard() -> None:
    for name, folder in {"alerts.yml": "prometheus", "dashboard.json": "grafana"}.items():
        assert (CHART / name).is_symlink()
        assert (CHART / name).resolve() == KIT / folder / name


@pytest.mark.slow
@pytest.mark.parametrize("values", [{}, ALL], ids=["defaults", "all"])
def test_helm_finds_nothing_wrong(tmp_path: Path, values: dict[str, Any]) -> None:
    ended = helm(tmp_path, "lint --strict", values)
    assert ended.returncode == 0, ended.stdout
    assert "[WARNING]" not in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("values", [{}, ALL], ids=["defaults", "all"])
def test_every_object_is_one_of_kubernetes(tmp_path: Path, values: dict[str, Any]) -> None:
    python = tool_or_skip("schemas/environment/bin/python")
    kinds = rendered(tmp_path, values)
    assert {"Deployment", "Service", "PodDisruptionBudget"} <= kinds.keys()
    documents = json.dumps([each for kind, each in kinds.items() if kind not in OF_THE_OPERATOR])
    ended = subprocess.run(
        [python, "-W", "ignore", "-c", VALIDATE, KUBERNETES],
        input=documents,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        {"replica": 3},
        {"replicas": 0},
        {"workers": "two"},
        {"store": {"existingSecret": "", "key": "url"}},
        {"links": {"publicUrl": "https://waits.example.org"}},
        {"links": {"publicUrl": "waits.example.org", "existingSecret": "links"}},
        {"ingress": {"enabled": True}},
        {"extraFlags": ["max-pending=1"]},
        {"monitoring": {"serviceMonitor": "yes"}},
    ],
    ids=json.dumps,
)
def test_a_value_that_cannot_be_meant_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    ended = helm(tmp_path, "template", wrong)
    assert ended.returncode != 0
    assert next(iter(wrong)) in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("values", [{}, ALL], ids=["defaults", "all"])
def test_the_service_accepts_the_pods_flags(tmp_path: Path, values: dict[str, Any]) -> None:
    found = container(rendered(tmp_path, values))
    serve, *flags = found["args"]
    assert serve == "serve"
    [store] = found["env"]
    assert store["name"] == "PURGATORY_STORE"
    assert store["valueFrom"]["secretKeyRef"] == {"name": "purgatory-store", "key": "url"}
    command = [sys.executable, "-m", "purgatory_async", "config", *flags]
    run("env", "PURGATORY_STORE=postgresql://u@h/d", *command)


@pytest.mark.slow
def test_probes_and_scrapes_are_answered_at_the_pods_address(objects, tmp_path):
    address, port = "127.0.0.9", free_port()
    secrets(tmp_path)
    found = container(objects)
    _, *flags = (
        each.replace("/run/secrets/purgatory", f"{tmp_path}")
        for each in found["args"]
        if not each.startswith("--host=")
    )
    environment = {**os.environ, "PURGATORY_STORE": f"sqlite:///{tmp_path}/state.db"}
    paths = {found[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    [endpoint] = objects["ServiceMonitor"]["spec"]["endpoints"]
    names = {rule["host"] for rule in objects["Ingress"]["spec"]["rules"]} | {"waits-purgatory.prod.svc"}
    with Served(f"--host={address}", *flags, port=port, env=environment, stderr=subprocess.DEVNULL):

        def status(path: str, host: str, **fields: str) -> int:
            with closing(http.client.HTTPConnection(address, port, timeout=PATIENCE_S)) as connection:
                connection.request("GET", path, headers={"Host": host, **fields})
                return connection.getresponse().status

        assert paths == {"/healthz", "/readyz"}
        assert {status(path, f"{address}:{port}") for path in paths} == {200}
        scraping = {"Authorization": "Bearer everything-0123456789abcdef"}
        assert status(endpoint["path"], f"{address}:{port}", **scraping) == 200
        assert {status("/v1/keys/a", name, **scraping) for name in names} == {200}
        assert status("/v1/keys/a", "evil.example", **scraping) == 421


@pytest.mark.slow
def test_the_ports_lead_from_ingress_to_service(objects):
    [port] = container(objects)["ports"]
    assert port == {"name": "http", "containerPort": 8765}
    [of_service] = objects["Service"]["spec"]["ports"]
    assert of_service["targetPort"] == of_service["name"] == "http"
    for path in objects["Ingress"]["spec"]["rules"][0]["http"]["paths"]:
        assert path["backend"]["service"] == {"name": "waits-purgatory", "port": {"name": "http"}}
        assert path["path"] != "/metrics"
    probes = [
        value["httpGet"]["port"] for name, value in container(objects).items() if name.endswith("Probe")
    ]
    assert probes == ["http"] * 3
    assert objects["ServiceMonitor"]["spec"]["endpoints"][0]["port"] == "http"


@pytest.mark.slow
def test_every_selector_finds_the_pods(objects):
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        objects[kind]["spec"]["selector"] for kind in ("Deployment", "PodDisruptionBudget", "Service")
    ]
    for selector in selectors:
        assert selector.get("matchLabels", selector).items() == labels
    monitored = objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
    assert monitored <= objects["Service"]["metadata"]["labels"].items()


@pytest.mark.slow
def test_a_pod_is_as_confined_as_the_image_allows(objects):
    [user] = re.findall(r"^USER (\d+):(\d+)$", (KIT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    confined = pod(objects)["securityContext"]
    assert (f"{confined['runAsUser']}", f"{confined['runAsGroup']}") == user
    assert confined["runAsNonRoot"] is True
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    [volume] = pod(objects)["volumes"]
    # Of root and of the group: what would be the user's own would have to be closed to the group.
    assert (volume["projected"]["defaultMode"], confined["fsGroup"]) == (0o440, confined["runAsGroup"])


@pytest.mark.slow
def test_a_pod_leaves_after_its_successor_came_and_has_time(objects):
    assert objects["Deployment"]["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert (
        objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] < objects["Deployment"]["spec"]["replicas"]
    )
    [delay] = [each for each in container(objects)["args"] if each.startswith("--drain-delay=")]
    delay_s = int(delay.removeprefix("--drain-delay=").removesuffix("s"))
    readiness = container(objects)["readinessProbe"]
    # Not ready before it stops to accept, and stopped before it is killed.
    assert delay_s > 2 * readiness["periodSeconds"] * readiness["failureThreshold"]
    assert pod(objects)["terminationGracePeriodSeconds"] > delay_s + 30


@pytest.mark.slow
def test_prometheus_and_grafana_get_the_kits_own_files(objects):
    alerts = yaml.safe_load((KIT / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    assert objects["PrometheusRule"]["spec"] == alerts
    [board] = objects["ConfigMap"]["data"].values()
    assert board == (KIT / "grafana" / "dashboard.json").read_text(encoding="utf-8")
    # The alerts select by job, which the operator takes from this label.
    label = objects["ServiceMonitor"]["spec"]["jobLabel"]
    job = objects["Service"]["metadata"]["labels"][label]
    assert set(re.findall(r'job="(\w+)"', str(alerts))) == {job}


@pytest.mark.slow
def test_the_notes_name_each_secret_that_is_needed(tmp_path):
    # `template` shows no notes; a dry run without a cluster does.
    ended = helm(tmp_path, "install waits --dry-run=client --namespace prod", ALL)
    assert ended.returncode == 0, ended.stderr
    notes = ended.stdout.partition("NOTES:")[2]
    for name in ("purgatory-store", "purgatory-tokens", "links", "purgatory-scrape"):
        assert f"create secret generic {name} " in notes
