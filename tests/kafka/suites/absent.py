"""A pytest plugin for another project's suite: its tests of what the broker lacks by design.

``--absent FILE`` lists them, one id a line, under comments that say why they fail. The run fails unless exactly
these do; so a test that passes, is skipped or is no longer there must leave the list.
"""

from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--absent", type=Path, required=True)


def pytest_configure(config):
    config.pluginmanager.register(Absent(config.getoption("absent")))


class Absent:
    def __init__(self, path):
        self._reasons = {}
        for line in filter(None, path.read_text(encoding="utf-8").splitlines()):
            if line.startswith("# "):
                reason = line[2:]
            else:
                self._reasons[line] = reason
        self._needless = set(self._reasons)

    def pytest_collection_modifyitems(self, items):
        for item in items:
            if item.nodeid in self._reasons:
                item.add_marker(pytest.mark.xfail(reason=self._reasons[item.nodeid]))

    def pytest_runtest_logreport(self, report):
        if report.skipped and hasattr(report, "wasxfail"):
            self._needless.discard(report.nodeid)

    def pytest_sessionfinish(self, session):
        if self._needless and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter, exitstatus):
        if exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            for test in sorted(self._needless):
                terminalreporter.write_line(f"listed as absent, but does not fail: {test}")
