"""wrk, driven with pairs of requests: ``exchanges.lua`` beside this file has them."""

import asyncio
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CONNECTIONS", "EXCHANGES", "Load", "find_wrk", "run_wrk"]

# As many threads, so that each has one connection, on which its second request follows the answer to its first.
CONNECTIONS = 8
EXCHANGES = ("submit, complete", "signal, read", "publish, subscribe")
_SCRIPT = Path(__file__).with_name("exchanges.lua")


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk measured.

    Attributes:
        requests_per_s: Requests a second; an exchange is two.
        p50_ms: Half the requests took no longer.
        p99_ms: All but one in a hundred took no longer.
    """

    requests_per_s: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, printed: str) -> "Load":
        """Read what ``exchanges.lua`` printed last.

        Raises:
            RuntimeError: A request was refused, or failed: then it is no measure of what was asked for.
        """
        figures = json.loads(printed.rstrip().rpartition("\n")[2])
        wrong = {name: figures[name] for name in ("refused", "failed") if figures[name]}
        if wrong or not figures["requests"]:
            raise RuntimeError(f"of {figures['requests']} requests of wrk some went wrong: {wrong}")
        return cls(
            figures["requests"] / figures["duration_us"] * 1e6,
            figures["p50_us"] / 1e3,
            figures["p99_us"] / 1e3,
        )


def find_wrk() -> str | None:
    """Return where wrk is; None if it is not installed."""
    return shutil.which("wrk")


async def run_wrk(wrk: str, port: int, exchange: str, stamp: str, seconds: int) -> Load:
    """Drive a server on this machine as fast as it goes.

    Args:
        wrk: Where it is.
        port: Of the server.
        exchange: One of `EXCHANGES`.
        stamp: Of the names it uses, different in each run against the same server.
        seconds: For how long.

    Returns:
        What it measured.

    Raises:
        RuntimeError: It failed, or some requests did.
    """
    threads = str(CONNECTIONS)
    process = await asyncio.create_subprocess_exec(
        *(wrk, "-t", threads, "-c", threads, "-d", f"{seconds}s", "-s", str(_SCRIPT)),
        *(f"http://127.0.0.1:{port}", "--", exchange, stamp),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"wrk ended with {process.returncode}: {printed.decode()}")
    return Load.of(printed.decode())
