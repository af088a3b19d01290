"""A service in a process of its own, and a browser that shows its dashboard."""

import os
import shutil
import signal
import subprocess
from contextlib import ExitStack, closing

import pytest

from purgatory_async.client import Client
from tests.ports import free_port
from tests.processes import PATIENCE_S, Served, until

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


class Service(Served):
    """A service that stays where it was when it is started again."""

    def __init__(self, *flags):
        super().__init__(*flags, port=free_port(), stderr=subprocess.DEVNULL)

    def freeze(self):
        self.send(signal.SIGSTOP)

    def thaw(self):
        self.send(signal.SIGCONT)

    def until_state(self, operation_id, state):
        """Wait until the service reports an operation in a state."""
        until(lambda: self.request("GET", f"/v1/operations/{operation_id}").json["state"] == state, state)


@pytest.fixture
def serve():
    """Start services; they are gone when the test is."""
    with ExitStack() as stack:
        yield lambda *flags: stack.enter_context(Service(*flags))


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
    sync_api.expect.set_options(timeout=PATIENCE_S * 1000)
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
        address: The address of the service, or with `whole` of what to open.
        clock: Whether the page's time can be moved forward; it passes by itself, too.
    """

    def __init__(self, page, address, *, whole=False, clock=False):
        self.page = page
        self.errors = []
        self.dialogs = []
        self.requests = []
        page.set_default_timeout(PATIENCE_S * 1000)
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
