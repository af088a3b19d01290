"""A URL that a command cannot use is refused by each of its options, and never becomes a local directory."""

import pytest

from purgatory_async.cli.pipeline import run
from tests.pipeline.journals import MS, Node, live
from tests.pipeline.parquet_inputs import Inputs

URLS = ("hdfs://host/x", "gs://bucket/x", "abfss://box@host/x", "hdfs:/x", "S4A://bucket/x")


@pytest.fixture
def given(tmp_path, monkeypatch):
    """The directories that commands read, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("purgatory_async.pipeline.session.SparkSession", None)  # none of them starts Spark
    node = Node()
    node.signal("a", MS)
    (tmp_path / "journal").mkdir()
    live(tmp_path / "journal", node.records)
    made = Inputs(tmp_path)
    return {"--operations": made.operations, "--signals": made.signals}


SHAPE = ("--requests", "100", "--rate", "1000", "--profile", "low")
COMMANDS = {
    "workload": ("--out", *SHAPE, "--no-spark"),
    "report": ("--journal", "--out"),
    "windows": ("--journal", "--out", "--window", "1"),
    "whatif": ("--journal", "--out", "--timeout", "1"),
    "stream": ("--journal", "--out", "--checkpoint", "--window", "1"),
    "distributed": ("--operations", "--signals", "--out", "--checkpoint", "--time", "event"),
}
PLACES = ("--journal", "--out", "--checkpoint", "--operations", "--signals")


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, option) for command, words in COMMANDS.items() for option in words if option in PLACES],
)
def test_a_url_of_no_known_store_is_refused(given, capsys, tmp_path, command, option):
    before = sorted(tmp_path.rglob("*"))
    for url in URLS:
        places = {"--journal": "journal", "--out": "out", "--checkpoint": "state"} | given | {option: url}
        words = [
            str(text)
            for word in COMMANDS[command]
            for text in ((word, places[word]) if word in places else (word,))
        ]
        assert run(["pipeline", command, *words]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert f"{option}: must be" in line.replace("'", "")
        assert url in line
    assert sorted(tmp_path.rglob("*")) == before
