"""Clients of other languages are started only where they are installed."""

import shutil

import pytest

from bench.kafka import programs


@pytest.mark.parametrize("client", programs.PROGRAMS)
def test_a_client_that_is_not_installed_is_said_to_be_missing(client, monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setenv("KAFKA_CLIENTS", str(tmp_path))
    assert programs.missing(client) == (
        f"{client} is not installed; run: export KAFKA_CLIENTS=$(.ci/kafka-clients)"
    )
    (tmp_path / "node/node_modules/kafkajs").mkdir(parents=True)
    (tmp_path / "java").mkdir()
    assert programs.missing(client) is None


def test_a_client_without_its_language_is_said_to_be_missing(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert programs.missing("java") == "java needs javac, which is not installed"
