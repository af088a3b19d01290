"""A start that is refused in this process."""

import logging
import os

import pytest

from purgatory_async.service.logs import stderr_log
from purgatory_async.service.process.listeners import listen
from purgatory_async.service.process.server import Server
from purgatory_async.service.settings.settings import Settings, SettingsError


def test_a_refused_start_leaves_the_logging_as_it_was(tmp_path):
    handlers = logging.getLogger().handlers
    settings = Settings(port=0, tokens=tmp_path / "missing")
    with listen(settings, os.environ) as listeners, pytest.raises(SettingsError):
        Server(settings, listeners, stderr_log())
    assert logging.getLogger().handlers is handlers
