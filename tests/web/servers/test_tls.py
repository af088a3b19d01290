"""aiohttp serves TLS by itself, and a connection of TLS ends in its own way."""

import asyncio
import logging
import shutil
import socket
import ssl
import subprocess

import pytest
from aiohttp import web

from purgatory_async import Purgatory
from tests.web.servers.stacks import aiohttp_app, free_socket
from tests.web.servers.wire import RESET, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """For the server and for its clients, on a certificate of today."""
    folder = tmp_path_factory.mktemp("tls")
    command = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    command += " -addext subjectAltName=DNS:localhost"
    subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return server, ssl.create_default_context(cafile=folder / "cert.pem")


async def connect(port, context):
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    writer.write(b"GET /poll?wait=50s HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return reader, writer


@pytest.mark.parametrize("way", ["closes", "breaks off", "resets"])
async def test_a_client_that_hangs_up_leaves_nothing(contexts, caplog, way):
    async with Purgatory() as purgatory:
        runner = web.AppRunner(aiohttp_app(purgatory))
        await runner.setup()
        sock = free_socket()
        await web.SockSite(runner, sock, ssl_context=contexts[0]).start()
        port = sock.getsockname()[1]
        _, leaving = await connect(port, contexts[1])
        staying, writer = await connect(port, contexts[1])
        await until(lambda: purgatory.pending == 2)
        if way == "resets":
            pipe = leaving.get_extra_info("socket")
            pipe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if way == "closes":
            leaving.close()
        else:
            leaving.transport.abort()
        await until(lambda: purgatory.pending == 1)
        purgatory.complete_for_key("k", "green")
        assert (await staying.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await runner.cleanup()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
