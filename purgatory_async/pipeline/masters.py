"""Checks, before Spark starts, that a master or a Connect server is there: Spark itself tries for a minute or more.

A master of Spark's own is asked for a file that it does not have, which it answers without a word in its log. So
another program on that port, such as a web server or the master's own page, is not mistaken for it.
"""

import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from pyspark.errors import PySparkException

from purgatory_async.clock import monotonic
from purgatory_async.pipeline import Refused

PATIENCE_S: Final = 4  # less than 10 with the imports before it, on a busy machine too
_SILENCE: Final = f"nothing is heard within {PATIENCE_S} s"

_STANDALONE: Final = re.compile(r"spark://[^\s/,]+:\d{1,5}(,[^\s/,]+:\d{1,5})*")
_CONNECT: Final = re.compile(r"sc://[^\s/;]+(/(;\S*)?)?")
_CONNECT_PORT: Final = 15002
_MANAGER_PORT: Final = 8032
_MANAGER: Final = re.compile(r"yarn\.resourcemanager\.(address|hostname)(\.\w+)?")

# A request for a stream in Spark's transport: the length of it all, its kind, and a name.
_NAME: Final = b"/jars/absent\r\n\r\n"  # the line ends let a web server answer at once
_QUESTION: Final = (13 + len(_NAME)).to_bytes(8) + b"\6" + len(_NAME).to_bytes(4) + _NAME
_HEAD: Final = 9  # bytes of an answer: its length and its kind
_FAILURE: Final = 8
_LONGEST: Final = 1 << 12

Address = tuple[str, int]
Greeting = Callable[[socket.socket, float], None]
"""Raises OSError if what was reached is something else; has the seconds that are left."""


def check_master(master: str, environment: Mapping[str, str]) -> None:
    """Check that a master answers, or one of several; a local one needs no check.

    Args:
        master: Its URL.
        environment: Names the directory of YARN's configuration.

    Raises:
        Refused: None answers, or something else does; the message names the address and the next step.
    """
    scheme, _, place = master.partition("://")
    if scheme == "spark":
        if _STANDALONE.fullmatch(master) is None:
            raise Refused(f"--master must be like spark://host:7077, got {master}")
        addresses = [_address(f"//{one}", 0) for one in place.split(",")]
        remedy = "start one, or take the address from its log: its page has another port"
        _find("--master: no Spark master", addresses, _ask_master, remedy)
    elif scheme == "k8s":
        url = place if "://" in place else f"https://{place}"
        _find("--master: no Kubernetes", [_address(url, 443)], _silent, "correct the address")
    elif scheme == "yarn" and (addresses := list(_managers(environment))):
        _find("--master yarn: no resource manager", addresses, _silent, "start it, or correct yarn-site.xml")


def check_connect(remote: str) -> None:
    """Check that a Spark Connect server answers.

    Raises:
        Refused: None does; the message names host and port only, as the rest of the URL may hold a token.
    """
    place, _, _ = remote.partition(";")
    form = f"--remote must be like sc://host:15002 or sc://host:15002/;name=value, got {place} with something else"
    if _CONNECT.fullmatch(remote) is None:
        raise Refused(form)
    address = _address(remote, _CONNECT_PORT)
    absent, remedy = (
        "--remote: no Spark Connect server",
        "start one with start-connect-server.sh, or use --master",
    )
    _find(absent, [address], _silent, remedy)
    # Only now, for it takes a second or two.
    import grpc  # type: ignore[import-untyped] # noqa: PLC0415
    from pyspark.sql.connect.client.core import DefaultChannelBuilder  # noqa: PLC0415

    try:
        channel = DefaultChannelBuilder(remote).toChannel()
    except PySparkException:
        raise Refused(form) from None
    with channel:
        try:
            grpc.channel_ready_future(channel).result(PATIENCE_S)
        except grpc.FutureTimeoutError:
            raise _refused(absent, [address], _SILENCE, remedy) from None


def _address(url: str, port: int) -> Address:
    parts = urlsplit(url)
    try:
        return parts.hostname or "", parts.port or port
    except ValueError:
        raise Refused(f"the port of {parts.hostname} must be a number up to 65535; correct it") from None


def _find(absent: str, addresses: Sequence[Address], greet: Greeting, remedy: str) -> None:
    """Ask all at once, each in a thread, for even the look-up of a name may take long; one good answer is enough."""
    deadline = monotonic() + PATIENCE_S
    answers: SimpleQueue[str] = SimpleQueue()

    def ask(address: Address) -> None:
        """Put what is wrong with an address, if that is known in time."""
        try:
            with socket.create_connection(address, timeout=PATIENCE_S) as connection:
                greet(connection, deadline - monotonic())
        except TimeoutError:
            pass  # the others have no longer
        except OSError as error:
            answers.put(str(error))
        else:
            answers.put("")

    for address in addresses:
        Thread(target=ask, args=(address,), daemon=True).start()
    fault = _SILENCE
    try:
        for _ in addresses:
            fault = answers.get(timeout=max(0.0, deadline - monotonic()))
            if not fault:
                return
    except Empty:
        pass
    raise _refused(absent, addresses, fault, remedy)


def _refused(absent: str, addresses: Sequence[Address], fault: str, remedy: str) -> Refused:
    names = ", ".join(f"{host}:{port}" for host, port in addresses)
    return Refused(f"{absent} answers at {names}: {fault}; {remedy}")


def _silent(_: socket.socket, __: float) -> None:
    """Of these services, a connection is enough."""


def _ask_master(connection: socket.socket, left_s: float) -> None:
    connection.settimeout(max(0.1, left_s))
    connection.sendall(_QUESTION)
    answer = connection.recv(_HEAD, socket.MSG_WAITALL)
    rest = int.from_bytes(answer[:-1]) - _HEAD
    if len(answer) < _HEAD or answer[-1] != _FAILURE or not 0 < rest <= _LONGEST:
        raise OSError(f"something else answers, with {answer!r}")
    connection.recv(rest, socket.MSG_WAITALL)  # or it would log that the connection was reset


def _managers(environment: Mapping[str, str]) -> Iterator[Address]:
    """The resource managers in YARN's configuration; none if only Spark's own scripts know where that is."""
    named = environment.get("HADOOP_CONF_DIR") or environment.get("YARN_CONF_DIR")
    if named is None:
        raise Refused(
            "--master yarn: HADOOP_CONF_DIR must name the directory of yarn-site.xml, got nothing; set it"
        )
    path = Path(named, "yarn-site.xml")
    try:
        properties = ET.parse(path).iterfind("property")  # noqa: S314 - the user's own configuration
    except (OSError, ET.ParseError) as error:
        raise Refused(f"--master yarn: {path} cannot be read: {error}; correct HADOOP_CONF_DIR") from None
    for entry in properties:
        value = (entry.findtext("value") or "").strip()
        if _MANAGER.fullmatch((entry.findtext("name") or "").strip()) and "$" not in value:
            yield _address(f"//{value}", _MANAGER_PORT)
