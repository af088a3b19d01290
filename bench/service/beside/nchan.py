"""nginx with the module nchan as a process of its own: one worker, channels that keep one message."""

import re
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Self

from bench.service.channel import open_channel
from bench.service.dialects import request

__all__ = ["Nchan", "find_nginx"]

MODULE = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
PATIENCE_S = 10.0
RETENTION_S = 5
_SUBSCRIBERS = re.compile(rb"^subscribers: ([0-9]+)", re.MULTILINE)
_CONFIGURATION = """
load_module {module};
worker_processes 1;
worker_rlimit_nofile 20000;
daemon off;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 20000; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    nchan_shared_memory_size 512M;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location ~ ^/pub/(.+)$ {{
            nchan_publisher;
            nchan_channel_id $1;
            nchan_message_timeout {retention}s;
            nchan_message_buffer_length 1;
        }}
        location ~ ^/sub/(.+)$ {{
            nchan_subscriber longpoll;
            nchan_channel_id $1;
            nchan_subscriber_first_message oldest;
            nchan_subscriber_timeout 600s;
        }}
        location = /status {{ nchan_stub_status; }}
    }}
}}
"""


def find_nginx() -> str | None:
    """Return where nginx is; None if it, or nchan, is not installed."""
    return shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin") if MODULE.exists() else None


class Nchan:
    """An nginx with nchan; a context manager that ends it.

    Args:
        nginx: Where it is.

    Attributes:
        port: Where it listens, once it is entered.
    """

    def __init__(self, nginx: str) -> None:
        self.port = _free_port()
        self._nginx = nginx

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-nchan-")
        configuration = Path(self._folder.name) / "nginx.conf"
        text = _CONFIGURATION.format(module=MODULE, port=self.port, retention=RETENTION_S)
        configuration.write_text(text, encoding="ascii")
        self._process = subprocess.Popen(
            [self._nginx, "-p", self._folder.name, "-c", str(configuration)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        give_up = time.monotonic() + PATIENCE_S
        while not _listens(self.port):
            if self._process.poll() is not None or time.monotonic() > give_up:
                self._process.kill()
                _, said = self._process.communicate()
                self._folder.cleanup()
                raise RuntimeError(f"nginx does not listen on port {self.port}: {said.decode()}")
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()
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


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        return int(sock.getsockname()[1])


def _listens(port: int) -> bool:
    with closing(socket.socket()) as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
