"""The kit's scrape and alert rules, as Prometheus itself reads them."""

import re
from pathlib import Path

import pytest
import yaml

from purgatory_async.durable.documents.problems import Kind
from purgatory_async.service.contract.http_problems import HttpKind
from tests.deploy.tools import KIT, program_or_skip, replaced, run

ALERTS = KIT / "prometheus" / "alerts.yml"
CASES = Path(__file__).with_name("alerts_test.yml")


def rules() -> list[dict[str, str]]:
    [group] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return group["rules"]


@pytest.mark.slow
def test_each_alert_fires_in_its_case_and_no_other_does() -> None:
    run(program_or_skip("promtool", "prometheus"), "test", "rules", CASES)


def test_each_alert_has_a_case() -> None:
    expected = CASES.read_text(encoding="utf-8")
    assert [rule["alert"] for rule in rules() if f'alertname="{rule["alert"]}"' not in expected] == []


def test_each_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "next", "runbook"}
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_alerts_name_only_slugs_of_the_service() -> None:
    named = re.findall(r'slug=~?"([^"]*)"', ALERTS.read_text(encoding="utf-8"))
    assert {slug for slugs in named for slug in slugs.split("|")} <= {
        kind.slug for kind in (*Kind, *HttpKind)
    }


@pytest.mark.slow
def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-of-the-test", encoding="utf-8")
    text = (KIT / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text(replaced(text, "/run/secrets/prometheus_token", f"{token}"))
    (tmp_path / "alerts.yml").write_bytes(ALERTS.read_bytes())
    run(program_or_skip("promtool", "prometheus"), "check", "config", tmp_path / "prometheus.yml")
