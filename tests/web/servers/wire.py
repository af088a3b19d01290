"""A client that speaks HTTP/1.1 on a bare socket, and can hang up as it likes."""

import asyncio
import socket

PATIENCE = 45  # seconds for what should happen at once; less than the 50 s of a held poll

RESET = b"\1\0\0\0\0\0\0\0"  # SO_LINGER, on, for no time: close() sends RST


class Answered:
    """An answer: status, headers by lower-case name, body."""

    def __init__(self, head, body):
        first, *rest = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
        self.body = body


class Connection:
    """One connection to a server on this machine."""

    def __init__(self, port):
        self._address = ("127.0.0.1", port)
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._connected = False
        self._received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    async def ask(self, target, body=b"", *headers):
        """Send a request; the first one connects."""
        loop = asyncio.get_running_loop()
        if not self._connected:
            await loop.sock_connect(self._socket, self._address)
            self._connected = True
        lines = [f"{'POST' if body else 'GET'} {target} HTTP/1.1", "Host: localhost", *headers]
        lines += [f"Content-Length: {len(body)}"] if body else []
        await loop.sock_sendall(self._socket, "\r\n".join([*lines, "", ""]).encode() + body)
        return self

    async def answer(self):
        """The next answer."""
        async with asyncio.timeout(PATIENCE):
            while b"\r\n\r\n" not in self._received:
                await self._receive()
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            length = int(Answered(head, b"").headers.get("content-length", 0))
            while len(self._received) < length:
                await self._receive()
            body, self._received = self._received[:length], self._received[length:]
            return Answered(head, body)

    async def rest(self):
        """All that comes until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            while piece := await asyncio.get_running_loop().sock_recv(self._socket, 65536):
                self._received += piece
        return self._received

    async def ended(self):
        """Whether the server has closed the connection, sooner or later."""
        async with asyncio.timeout(PATIENCE):
            return await asyncio.get_running_loop().sock_recv(self._socket, 1) == b""

    def hang_up(self, *, reset):
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._socket.close()

    def shut_down(self):
        """Send nothing more, but go on listening."""
        self._socket.shutdown(socket.SHUT_WR)

    async def _receive(self):
        piece = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
        assert piece, f"the server closed the connection after {self._received!r}"
        self._received += piece


async def until(condition):
    """Wait, really, for something that should happen soon."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what happens is not ours to signal
            await asyncio.sleep(0.005)
