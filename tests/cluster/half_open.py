"""A proxy whose connections become half-open: they stay, but bring nothing."""

import socket
import threading
from contextlib import suppress


class Proxy:
    """Forwards connections to a port of this machine; close it in the end."""

    def __init__(self, onward):
        self._onward = ("127.0.0.1", onward)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._stalls = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self):
        """Swallow all that comes over the present connections; those to come are forwarded."""
        self._stalls += 1

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)  # it ends the accept, which a close does not
        self._listening.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._onward)
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(*ends, self._stalls), daemon=True).start()

    def _copy(self, source, sink, stalls):
        with suppress(OSError), source, sink:
            while data := source.recv(65536):
                if stalls == self._stalls:
                    sink.sendall(data)
