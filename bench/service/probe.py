"""A client that asks a server every few milliseconds whether it lives, and remembers how long it waited.

It is a process of its own, so that it sees the server's loop and not the load generator's. But a machine
that is shared takes the processor away, from the server as from the probe. The system counts for how long each was
ready to run and did not; that is no stall of the loop, so it is counted apart.

``python -m bench.service.probe PORT PID``: each line on its input gets a line of JSON, the waits since the last one.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from bench.service.answers import take_answer
from bench.service.dialects import request
from bench.service.latencies import Latencies

__all__ = ["PERIOD_S", "Probe", "Waits", "run"]

PERIOD_S = 0.005
_ASKED = request("GET", "/healthz")


@dataclass(frozen=True, slots=True)
class Waits:
    """How long requests had to wait.

    Attributes:
        loop: Without the time in which the server, or the probe, had no processor.
        wall: With it.
    """

    loop: Latencies
    wall: Latencies

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> "Waits":
        """Sum up at least one wait, each with the part of it that went by without a processor, in nanoseconds.

        Of that part some may lie before the request: then nothing is left of the wait, never less.
        """
        return cls(
            Latencies.of_ns([max(0, wait - queued) for wait, queued in pairs]),
            Latencies.of_ns([wait for wait, _ in pairs]),
        )

    def __str__(self) -> str:
        return f"p50 {self.loop.p50:.1f}, p99 {self.loop.p99:.1f}; worst with lost processor {self.wall.worst:.1f}"


class Probe:
    """The probe of one server; a context manager.

    Args:
        port: The port of the server.
        pid: The id of its process.
        module: The module that runs it, for a server that is asked in another way.
    """

    def __init__(self, port: int, pid: int, module: str = "bench.service.probe") -> None:
        self._command = [sys.executable, "-m", module, str(port), str(pid)]

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True, bufsize=1)
        self.waits()  # it has started, and its first request made the server import what it needs
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def waits(self) -> Waits:
        """Return how long requests had to wait since the last call; there was at least one.

        Raises:
            RuntimeError: The probe has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the probe ended with {self._process.wait()}: does the server still listen?")
        return Waits.of([(wait, queued) for wait, queued in json.loads(line)])


def _ask(connection: socket.socket) -> bool:
    """Ask, and wait for the answer; false if the server has closed the connection."""
    connection.sendall(_ASKED)
    buffer = bytearray()
    while take_answer(buffer) is None:
        piece = connection.recv(65536)
        if not piece:
            return False
        buffer += piece
    return True


def run(port: int, pid: int, ask: Callable[[socket.socket], bool] = _ask) -> None:
    """Ask until the input ends.

    Args:
        port: The port of the server, on this machine.
        pid: The id of its process.
        ask: Asks once, and waits for the answer; false if the server has closed the connection.
    """
    pairs: list[tuple[int, int]] = []
    with socket.create_connection(("127.0.0.1", port)) as connection, ExitStack() as stack:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        counters = [stack.enter_context(Path(f"/proc/{each}/schedstat").open("rb")) for each in (pid, "self")]
        due = time.perf_counter()
        while True:
            due = max(due + PERIOD_S, time.perf_counter())
            queued_ns, begin_ns = _queued_ns(counters), time.perf_counter_ns()
            if not ask(connection):
                return
            wait_ns = time.perf_counter_ns() - begin_ns
            lost_ns = [after - before for before, after in zip(queued_ns, _queued_ns(counters), strict=True)]
            # Not the sum: while one had no processor, the other may have had none either.
            pairs.append((wait_ns, max(lost_ns)))
            if select.select([sys.stdin], [], [], max(0.0, due - time.perf_counter()))[0]:
                if not sys.stdin.readline():
                    return
                print(json.dumps(pairs), flush=True)
                pairs.clear()


def _queued_ns(counters: Sequence[BinaryIO]) -> list[int]:
    """For how long each process was ready to run and did not, since its start."""
    return [int(os.pread(counter.fileno(), 100, 0).split()[1]) for counter in counters]


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
