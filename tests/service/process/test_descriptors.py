"""The probe that says when the process has run out of file descriptors."""

import errno
import io
import json

import pytest

from purgatory_async import Timer
from purgatory_async.durable.stats.recent import Probe
from purgatory_async.service.logs import stderr_log
from purgatory_async.service.process import server
from purgatory_async.testing import ManualClock


class Probed:
    """A probe in virtual time; opening a file fails with `lack` while that is set."""

    def __init__(self, monkeypatch):
        self.clock, self.stream, self.lack = ManualClock(), io.StringIO(), None
        self.timer = Timer(clock=self.clock)
        monkeypatch.setattr(server.socket, "socket", self.open)
        log = stderr_log(self.stream)
        Probe(self.timer, server.LACK_PERIOD, lambda _: server.report_lack(log)).start()

    def open(self, *_):
        if self.lack is not None:
            raise OSError(self.lack, "no")
        return io.BytesIO()

    def logged(self, seconds):
        self.stream.seek(0)
        self.stream.truncate()
        self.clock.advance(seconds)
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.mark.parametrize("lack", [errno.EMFILE, errno.ENFILE])
def test_a_lack_of_descriptors_is_logged_once_a_second(monkeypatch, lack):
    probed = Probed(monkeypatch)
    assert probed.logged(10.5) == []
    probed.lack = lack
    records = probed.logged(5)
    assert [record["level"] for record in records] == ["error"] * 5
    assert all("no file descriptor is left" in record["message"] for record in records)
    probed.lack = None
    assert probed.logged(10) == []
    probed.timer.close()


def test_another_fault_of_the_probe_is_no_lack(monkeypatch):
    probed = Probed(monkeypatch)
    probed.lack = errno.ENOMEM
    assert probed.logged(3) == []
    probed.timer.close()
