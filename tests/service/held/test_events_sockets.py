"""Events, drains and figures of a server as a process of its own: real sockets, real signals, real time."""

import http.client
import json
import re
import socket
import time
from contextlib import closing

import pytest

from tests.processes import PATIENCE_S, records
from tests.service.held.event_reading import comments_in, events_in

pytestmark = pytest.mark.slow

MOST_COMMENTS = 4  # one every fifteen idle seconds


@pytest.fixture
def served(serve):
    return serve()


def epoch_of(port):
    """The epoch that the service behind a port shows."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", "/v1/keys/k")
        return connection.getresponse().headers["X-Purgatory-Epoch"]


class Following:
    """A connection on which events come in chunks."""

    def __init__(self, served, after=None):
        self.connection = socket.socket()
        self.connection.settimeout(PATIENCE_S)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.connection.connect(("127.0.0.1", served.port))
        resume = ""
        if after is not None:
            resume = f"Last-Event-ID: {after}\r\n"
        self.connection.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{resume}\r\n".encode())
        self._file = self.connection.makefile("rb")
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            self.head += self._file.readline()
        self.body = b""

    def read_chunk(self):
        """Take the next chunk; False at the end of the stream."""
        size = int(self._file.readline(), 16)
        self.body += self._file.read(size)
        assert self._file.read(2) == b"\r\n"
        return size > 0

    def until(self, number):
        """As many events, those included that a gap says are missing."""
        while True:
            events = events_in(self.body)
            gaps = [event.data["missed"] or 0 for event in events if event.name == "gap"]
            if len(events) - len(gaps) + sum(gaps) >= number:
                return events
            assert self.read_chunk(), "the stream ended"
            assert comments_in(self.body) < MOST_COMMENTS, f"event {number} does not come"

    @property
    def ids(self):
        """The ids of the events, as they came."""
        return re.findall(r"^id: (.*)$", self.body.decode(), re.MULTILINE)

    @property
    def closed(self):
        return self._file.read(1) == b""

    def close(self):
        self._file.close()
        self.connection.close()


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
def test_a_reader_that_hangs_up_is_gone(served, reset):
    readers = [Following(served) for _ in range(20)]
    served.until("purgatory_streams", 20)
    for reader in readers:
        if reset:
            reader.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        reader.close()
    served.until("purgatory_streams", 0)


def flood(served, number):
    """Let operations with very long keys come and go: 64 KiB of events each."""
    body = json.dumps({"keys": [f"{place:03d}" + "k" * 500 for place in range(64)], "timeout": 0})
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)) as connection:
        for _ in range(number):
            connection.request("POST", "/v1/operations", body, {"Content-Type": "application/json"})
            assert connection.getresponse().read()


def test_a_reader_that_does_not_read_blocks_none_and_gets_a_gap(served):
    with closing(Following(served, after=f"{epoch_of(served.port)}-0.0")) as slow:
        for _ in range(10):
            flood(served, 40)  # 26 MB in all: more than the sockets and the service buffer
            slow.read_chunk()
        served.request("POST", "/v1/keys/last/signal")
        events = slow.until(801)
    gaps = [event.data for event in events if event.name == "gap"]
    assert gaps
    assert len(events) - len(gaps) == 801 - sum(gap["missed"] for gap in gaps)
    assert events[-1].data["keys"] == ["last"]


def test_a_drain_closes_streams_and_a_later_signal_ends_cleanly(served):
    with closing(Following(served)) as reader, closing(served.open("/v1/wait?key=a&wait=50s")) as held:
        served.until("purgatory_held", 1)
        reply = served.request("POST", "/v1/admin/drain")
        assert (reply.status, reply.json["released"]) == (202, 2)
        while reader.read_chunk():
            pass
        assert reader.closed
        assert held.recv(100).startswith(b"HTTP/1.1 503 ")
    assert served.request("GET", "/v1/keys/a").status == 200
    assert served.request("GET", "/v1/events").status == 503
    code, logged = served.stop()
    assert code == 0
    assert [record["message"] for record in records(logged)] == [
        "listening",
        "stopping",
        "draining",
        "stopped",
    ]


def test_a_signal_does_not_wait_for_a_reader_that_does_not_read(served):
    with closing(Following(served, after=f"{epoch_of(served.port)}-0.0")) as stuck:
        flood(served, 200)
        began = time.monotonic()
        code, logged = served.stop()
        assert code == 0
        assert time.monotonic() - began < PATIENCE_S
        assert not [record for record in records(logged) if record["level"] == "error"]
        assert stuck.body == b""
