"""The kit's dashboard and alerts, asked of a real Prometheus that scrapes a real service with a token."""

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from tests.deploy.tools import KIT, PATIENCE_S, program_or_skip, replaced
from tests.ports import free_port
from tests.processes import Served
from tests.source_tree import ROOT

TOKEN = "reader-0123456789abcdef"
ADMIN = {"Authorization": "Bearer admin-0123456789abcdef", "Content-Type": "application/json"}
BOARD = json.loads((KIT / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
VARIABLES = {"$__rate_interval": "30s", "$instance": ".*"}


def expressions() -> dict[str, str]:
    """The panels' expressions by their titles, as Grafana sends them."""
    found = {}
    for panel in PANELS:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            found[f"{panel['title']} {target['refId']}"] = text
    return found


class Prometheus:
    """A Prometheus with the kit's configuration, in which only the address, the token and the interval differ."""

    def __init__(self, folder: Path, port: int) -> None:
        self._port = free_port()
        text = (KIT / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
        (folder / "prometheus_token").write_text(TOKEN, encoding="utf-8")
        for old, new in {
            "/run/secrets/prometheus_token": f"{folder}/prometheus_token",
            '"purgatory-1:8765", "purgatory-2:8765"': f"'localhost:{port}'",
            "scrape_interval: 15s": "scrape_interval: 1s",
        }.items():
            text = replaced(text, old, new)
        (folder / "prometheus.yml").write_text(text, encoding="utf-8")
        (folder / "alerts.yml").write_bytes((KIT / "prometheus" / "alerts.yml").read_bytes())
        with (folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    program_or_skip("prometheus", "prometheus"),
                    f"--config.file={folder}/prometheus.yml",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stderr=log,
            )

    def ask(self, expression: str) -> list[dict[str, object]]:
        """The series of an expression now; none while Prometheus starts."""
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}/api/v1/query?{query}", timeout=9
            ) as reply:
                return json.load(reply)["data"]["result"]
        except urllib.error.HTTPError as error:
            with error:
                if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # it listens before it has loaded its data
                    return []
            raise
        except ConnectionRefusedError:
            return []
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                return []
            raise

    def until(self, expression: str) -> list[dict[str, object]]:
        """Wait until an expression has series."""
        give_up = time.monotonic() + PATIENCE_S
        while not (found := self.ask(expression)):
            assert self.process.poll() is None
            assert time.monotonic() < give_up, f"no series: {expression}"
            time.sleep(0.1)
        return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A service with two workers that were asked for a little of everything, and a Prometheus that knows it."""
    program_or_skip("prometheus", "prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"{TOKEN} read\n{ADMIN['Authorization'].split()[1]} admin\n", encoding="utf-8")
    store = f"sqlite:///{folder}/state.db"
    with ExitStack() as stack:
        served = stack.enter_context(Served("--workers", 2, "--store", store, "--tokens", tokens))
        started = Prometheus(folder, served.port)
        stack.callback(started.process.wait, PATIENCE_S)
        stack.callback(started.process.terminate)
        started.until('up{job="purgatory"} == 1')
        for _ in range(3):
            served.request("POST", "/v1/operations?wait=10ms", {"keys": ["a"], "timeout": "20ms"}, ADMIN)
            served.request("GET", "/v1/wait?key=b&wait=10ms", None, ADMIN)
            started.until("sum(purgatory_http_requests_total) > 0")
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("name", expressions())
def test_every_panel_has_series(prometheus, name):
    prometheus.until(expressions()[name])


def alerted() -> set[str]:
    """The metrics of all alerts."""
    groups = yaml.safe_load((KIT / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    named = re.compile(r"\b(?:up|(?:purgatory|process)_\w+)\b(?=[{\[ )])")
    return {name for rule in groups[0]["rules"] for name in named.findall(rule["expr"])}


OF_A_JOURNAL = {name for name in alerted() if name.startswith("purgatory_journal_")}
"""What a service with a store has not."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(alerted() - OF_A_JOURNAL))
def test_every_metric_of_an_alert_is_one_of_the_service(prometheus, name):
    assert prometheus.until(name)


@pytest.mark.slow
def test_alerts_of_a_journal_are_on_its_metrics(tmp_path):
    with Served("--journal", tmp_path / "journal") as served:
        assert OF_A_JOURNAL
        assert all(served.sample(name) is not None for name in OF_A_JOURNAL)


@pytest.mark.slow
def test_no_alert_fires_at_a_service_that_just_started(prometheus):
    assert prometheus.ask('ALERTS{alertstate="firing"}') == []


def test_a_panel_says_what_it_shows_and_where_from():
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    for panel in PANELS:
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert all('instance=~"$instance"' in target["expr"] for target in panel["targets"])


def test_no_two_panels_share_a_place():
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(0 <= x < 24 for x, _ in cells)


def alerts_by_name():
    groups = yaml.safe_load((KIT / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for rule in groups[0]["rules"]}


RUNBOOK = ROOT / ".github" / "site" / "howto" / "runbook.md"


def test_each_panel_leads_to_a_section_of_the_runbook():
    sections = {name.lower(): name for name in alerts_by_name()}
    headings = re.findall(r"^#+ (\w+)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections.keys() <= {heading.lower() for heading in headings}
    for panel in PANELS:
        [link] = panel["links"]
        address, _, section = link["url"].partition("#")
        assert address == "${runbook}"
        assert link["title"] == f"Runbook: {sections[section]}"
    [variable] = [each for each in BOARD["templating"]["list"] if each["name"] == "runbook"]
    assert variable["type"] == "textbox"


ROW = re.compile(
    r"^\| (?P<title>[^|]+) \| `(?P<metric>\w+)`[^|]* \| [^|]+ \| above (?P<limit>[\d.]+)\D[^|]*\[(?P<alert>\w+)\]"
)
FIGURES = [
    found
    for line in (KIT / "README.md").read_text(encoding="utf-8").splitlines()
    if (found := ROW.match(line))
]


def test_the_top_row_shows_the_five_figures_to_watch_first():
    rows = [place for place, panel in enumerate(BOARD["panels"]) if panel["type"] == "row"]
    assert (rows[0], BOARD["panels"][0]["title"]) == (0, "Watch these first")
    top = BOARD["panels"][1 : rows[1]]
    assert [panel["title"] for panel in top] == [figure["title"] for figure in FIGURES]
    assert len(top) == 5
    for panel, figure in zip(top, FIGURES, strict=True):
        assert figure["metric"] in panel["targets"][0]["expr"]
        assert panel["links"][0]["title"] == f"Runbook: {figure['alert']}"
        # The line in the panel, the README and the alert have one limit.
        limit = float(figure["limit"])
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"] == limit
        assert re.search(rf"> {limit:g}(?![\d.])", alerts_by_name()[figure["alert"]])
        assert figure["metric"] in alerts_by_name()[figure["alert"]]
