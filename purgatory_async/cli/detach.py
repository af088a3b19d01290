"""``purgatory demo --detach``: start the demo in the background, and return once it answers."""

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from purgatory_async.cli.demo import ANNOUNCEMENT, how_to_look
from purgatory_async.clock import monotonic
from purgatory_async.service.process.listeners import StartRefused

PATIENCE: Final = 30.0  # seconds; a cold start on a busy machine takes two or three
_PAUSE: Final = 0.05


def detach(arguments: Sequence[str], seconds: float) -> None:
    """Start a command in the background, wait until it answers, and print how to use and stop it.

    Args:
        arguments: The arguments of a command that announces its address.
        seconds: After which it stops by itself.

    Raises:
        StartRefused: The command ended or did not answer in time; the message names its log.
    """
    descriptor, name = tempfile.mkstemp(prefix="purgatory-demo-", suffix=".log")
    log = Path(name)
    with os.fdopen(descriptor, "wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own program, with arguments we made
            [sys.executable, "-m", "purgatory_async", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # closing the terminal must not end it
        )
    try:
        address = _answering_address(process, log)
    except BaseException:
        process.terminate()
        raise
    click.echo(
        f"{ANNOUNCEMENT}{address}\n{how_to_look(address)}\n"
        f"  log:   tail -f {log}\n"
        f"  stop:  kill {process.pid}  (or wait: it stops by itself after {seconds:g} s)"
    )


def _answering_address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = monotonic() + PATIENCE
    while monotonic() < until:
        written = log.read_text(encoding="utf-8", errors="replace")
        if process.poll() is not None:
            last = written.strip().splitlines() or ["it wrote nothing"]
            raise StartRefused(f"the demo ended with code {process.returncode}: {last[-1]} (its log: {log})")
        line, newline, _ = written.partition("\n")
        if newline and line.startswith(ANNOUNCEMENT):
            address = line.removeprefix(ANNOUNCEMENT)
            if _is_ready(address):
                return address
        time.sleep(_PAUSE)
    raise StartRefused(f"the demo did not answer within {PATIENCE:g} s; its log is {log}")


def _is_ready(address: str) -> bool:
    parts = urlsplit(address)
    # http.client ignores the environment's proxy, which urllib would use for a loopback address.
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=1)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
