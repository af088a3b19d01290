"""nginx with the module nchan as processes of its own: channels that keep one message."""

import asyncio
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final, Self

from bench.service.channel import open_channel
from bench.service.dialects import request
from bench.service.processes import children
from bench.service.restarting import PATIENCE_S, Restarted
from bench.service.served import LOOK_S

__all__ = ["Nchan", "find_nginx", "reloaded"]

MODULE: Final = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
START_S: Final = 10.0
_SUBSCRIBERS: Final = re.compile(rb"^subscribers: ([0-9]+)", re.MULTILINE)
# No access log, connections that are never closed for their age, one server process for each worker, and messages
# kept as long as the service keeps its signals. Nothing else differs from Debian's defaults.
_CONFIGURATION: Final = """
load_module %(module)s;
worker_processes %(workers)d;
worker_rlimit_nofile 20000;
daemon off;
pid nginx.pid;
error_log stderr error;
events { worker_connections 20000; }
http {
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    nchan_shared_memory_size 512M;
    server {
        listen 127.0.0.1:%(port)d backlog=4096;
        location ~ ^/pub/(.+)$ {
            nchan_publisher;
            nchan_channel_id $1;
            nchan_message_timeout 60s;
            nchan_message_buffer_length 1;
        }
        location ~ ^/sub/(.+)$ {
            nchan_subscriber longpoll;
            nchan_channel_id $1;
            nchan_subscriber_first_message oldest;
            nchan_subscriber_timeout 600s;
        }
        location ~ ^/short/(.+)$ {
            nchan_subscriber longpoll;
            nchan_channel_id $1;
            nchan_subscriber_timeout 2s;
        }
        location = /status { nchan_stub_status; }
    }
}
"""


def find_nginx() -> str | None:
    """Return where nginx is; None if it, or nchan, is not installed."""
    return shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin") if MODULE.exists() else None


class Nchan:
    """An nginx with nchan; a context manager that ends it.

    Args:
        nginx: Where it is.
        workers: How many processes serve.

    Attributes:
        port: Where it listens.
        process: The master, once it is entered.
    """

    def __init__(self, nginx: str, workers: int = 1) -> None:
        self.port = _free_port()
        self._nginx = nginx
        self._workers = workers

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-nchan-")
        configuration = Path(self._folder.name) / "nginx.conf"
        text = _CONFIGURATION % {"module": MODULE, "port": self.port, "workers": self._workers}
        configuration.write_text(text, encoding="ascii")
        self.process = subprocess.Popen(
            [self._nginx, "-p", self._folder.name, "-c", str(configuration)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        give_up = time.monotonic() + START_S
        while not _listens(self.port):
            if self.process.poll() is not None or time.monotonic() > give_up:
                self.process.kill()
                _, said = self.process.communicate()
                self._folder.cleanup()
                raise RuntimeError(f"nginx does not listen on port {self.port}: {said.decode()}")
            time.sleep(LOOK_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate()
        self._folder.cleanup()

    async def held(self) -> int:
        """How many subscribers wait."""
        channel = await open_channel(self.port)
        try:
            answer = await channel.ask(request("GET", "/status"))
        finally:
            channel.close()
        found = _SUBSCRIBERS.search(answer.body)
        if found is None:
            raise RuntimeError(f"nchan's status must name its subscribers, got {answer.body!r}")
        return int(found[1])


@asynccontextmanager
async def reloaded(nginx: str, workers: int) -> AsyncIterator[Restarted]:
    """An nginx that replaces its workers on SIGHUP, as for a new configuration."""
    with Nchan(nginx, workers) as nchan:
        pid = nchan.process.pid

        async def restart() -> None:
            old = {*children(pid)}
            nchan.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(PATIENCE_S):
                while old & (now := {*children(pid)}) or not now:  # noqa: ASYNC110 - a process that ends sets no event
                    await asyncio.sleep(LOOK_S)

        yield Restarted(nchan.port, restart)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        return int(sock.getsockname()[1])


def _listens(port: int) -> bool:
    with closing(socket.socket()) as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
