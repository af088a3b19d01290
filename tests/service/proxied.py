"""An nginx before a service, configured by the service README's snippet."""

import os
import re
import shutil
import subprocess

import pytest

from tests.ports import free_port
from tests.processes import PATIENCE_S, accepts, until
from tests.source_tree import ROOT

README_ADDRESS = "http://127.0.0.1:8765"

# What is compiled into Debian's nginx lies under /var, where only its package may write.
AROUND = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        {snippet}
    }}
}}
"""


def nginx_or_skip():
    """Find nginx, or skip; in CI its absence is a failure."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("nginx is not installed")
    return found


def snippet():
    """The block for nginx in the service's README."""
    page = (ROOT / "purgatory_async" / "service" / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```nginx\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return block


def replaced(text, old, new):
    """A text with one part replaced, which must be there once."""
    assert text.count(old) == 1, f"{old!r} is not in it once:\n{text}"
    return text.replace(old, new)


class Proxy:
    """An nginx process with the README's settings, of which some parts are replaced."""

    def __init__(self, folder, upstream, changes):
        self._folder = folder
        self.port = free_port()
        settings = replaced(snippet(), README_ADDRESS, f"http://127.0.0.1:{upstream}")
        for old, new in changes.items():
            settings = replaced(settings, old, new)
        config = folder / "nginx.conf"
        config.write_text(AROUND.format(folder=folder, port=self.port, snippet=settings))
        self.process = subprocess.Popen(
            [nginx_or_skip(), "-p", folder, "-c", config, "-e", folder / "error.log"], stderr=subprocess.PIPE
        )
        until(lambda: accepts(self.port) or self.process.poll() is not None, "nginx")
        assert self.process.poll() is None, self.process.stderr.read().decode()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self):
        """A line for each request that has been answered."""
        return (self._folder / "access.log").read_text().splitlines()

    @property
    def signals(self):
        """Of these, the signals that the service took."""
        return [line for line in self.log if '/signal HTTP/1.1" 200 ' in line]

    @property
    def statuses(self):
        """Of the requests that have been answered, in order."""
        return [int(re.search(r'" (\d{3}) ', line)[1]) for line in self.log]

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE_S)
