"""A service in a process of its own, and a browser that shows its dashboard."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from purgatory_async.client import Client
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
FEW = 7  # operations
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Service:
    """A ``purgatory serve`` process that can be stopped, and started again where it was."""

    def __init__(self, *flags):
        self._flags = flags
        self.port = free_port()
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "purgatory_async", "serve", "--port", str(self.port), *self._flags],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with closing(self.process.stdout) as output:
            assert output.readline()

    def stop(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def until(self, operation_id, state):
        """Wait until the service reports an operation in a state."""
        give_up = time.monotonic() + PATIENCE
        with closing(Client(self.address)) as client:
            while (found := client.status(operation_id).state) != state:
                assert time.monotonic() < give_up, f"{operation_id} is {found}, not {state}"
                time.sleep(0.02)

    def until_count(self, name, expected):
        """Wait until a count of the service is as expected."""
        give_up = time.monotonic() + PATIENCE
        with closing(Client(self.address)) as client:
            while (found := client.stats()["counts"][name]) != expected:
                assert time.monotonic() < give_up, f"{name} is {found}, not {expected}"
                time.sleep(0.02)


@pytest.fixture
def serve():
    """Start services; they are gone when the test is."""
    services = []

    def start(*flags):
        services.append(Service(*flags))
        return services[-1]

    yield start
    for service in services:
        service.stop()


@pytest.fixture
def service(serve):
    return serve()


@pytest.fixture
def client(service):
    with closing(Client(service.address)) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium; a machine of the CI must have it.

    Playwright's own loop counts as running in this thread for as long as it lives, and no other could run then: so
    it ends with the module, before any test with a loop of its own.
    """
    sync_api = pytest.importorskip("playwright.sync_api")
    sync_api.expect.set_options(timeout=PATIENCE * 1000)
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed: apt-get install chromium")
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


class Visit:
    """A page, and everything that must not happen on it.

    Args:
        page: A new one.
        address: Of the service, or with `whole` of what to open.
        clock: Whether the page's time can be moved forward; it passes by itself, too.
    """

    def __init__(self, page, address, *, whole=False, clock=False):
        self.page = page
        self.errors = []
        self.dialogs = []
        self.requests = []
        page.set_default_timeout(PATIENCE * 1000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._on_console)
        page.on("dialog", self._on_dialog)
        page.on("request", lambda request: self.requests.append(request.url))
        if clock:
            page.clock.install()
        page.goto(address if whole else f"{address}/ui/")

    def _on_console(self, message):
        if message.type in {"error", "warning"}:
            self.errors.append(message.text)

    def _on_dialog(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()


@pytest.fixture
def visit(browser):
    """Open dashboards, each in a profile of its own."""
    contexts = []

    def open_page(address, *, whole=False, clock=False, **options):
        contexts.append(browser.new_context(**options))
        return Visit(contexts[-1].new_page(), address, whole=whole, clock=clock)

    yield open_page
    for context in contexts:
        context.close()
