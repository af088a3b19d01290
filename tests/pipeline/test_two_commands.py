"""The two commands of the README that say which prefixes time out, and what timeout each should have."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from tests.pipeline.journals import live, mixed
from tests.source_tree import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PAGE = (ROOT / "purgatory_async" / "pipeline" / "README.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("### Which prefixes time out")[2].partition("\n### ")[0]


def test_two_commands_say_which_prefixes_time_out_and_when(tmp_path):
    (tmp_path / "journal").mkdir()
    live(tmp_path / "journal", mixed().records)
    block = re.search(r"```console\n(.*?)```", SECTION, re.DOTALL)[1].replace("\\\n", "")
    commands = [shlex.split(line.removeprefix("$ purgatory ")) for line in block.splitlines()]
    assert [command[1] for command in commands] == ["report", "whatif"]
    found = {}
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "purgatory_async", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
    names = ("prefix", "operations", "recorded_timeout", "timeout", "completed", "expired", "guessed")
    assert [tuple(prefix[name] for name in names) for prefix in found["prefixes"]] == [
        ("api", 200, 1, 1, 180, 20, 0),
        ("human", 12, 7200, 3600, 10, 2, 0),
    ]
    report = (tmp_path / "prefixes" / "report.html").read_text(encoding="utf-8")
    table = report[report.index("Prefixes of keys") :]
    assert re.findall(
        r'<th scope="row">(\w+)</th>\s*<td>\d+</td>\s*<td>\d+</td>\s*<td>(.*?)</td>', table
    ) == [
        ("api", "10 %"),
        ("human", "16.7 %"),
    ]
    assert "A timeout for each prefix" in (tmp_path / "timeouts" / "whatif.html").read_text(encoding="utf-8")
