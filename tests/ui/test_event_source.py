"""A browser's own ``EventSource`` on a stream of an application, through a restart of its server."""

import json
import os
import signal
import subprocess
import urllib.request
from contextlib import contextmanager

import pytest

from tests.ports import free_port
from tests.processes import PATIENCE_S, accepts, python, until

pytestmark = pytest.mark.slow


@contextmanager
def served(port, **environment):
    """The news of `tests.web.servers.news`, and a function that publishes."""
    arguments = ("-m", "uvicorn", "tests.web.servers.news:app", "--port", str(port))
    with python(*arguments, env={**os.environ, **environment}, stderr=subprocess.DEVNULL) as server:
        until(lambda: accepts(port), "uvicorn")

        def publish(item):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/news", json.dumps(item).encode(), PATIENCE_S)

        yield publish
        server.send_signal(signal.SIGTERM)  # with the page's stream open
        server.communicate(timeout=PATIENCE_S)


def test_it_comes_back_after_a_restart_and_is_told_of_the_gap(visit):
    pytest.importorskip("starlette")
    port = free_port()

    def until_seen(*items):
        page.wait_for_function("(wanted) => JSON.stringify(seen) === JSON.stringify(wanted)", arg=list(items))

    with served(port) as publish:
        page = visit(f"http://127.0.0.1:{port}/", whole=True).page
        page.wait_for_function("source.readyState === EventSource.OPEN")
        publish(1)
        publish(2)
        until_seen("1", "2")
    with served(port) as publish:
        until_seen("1", "2", 'gap {"missed": null}')
        publish(3)
        until_seen("1", "2", 'gap {"missed": null}', "3")
