"""The service beside nginx with nchan: a C program that does one of the things that the service does."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from statistics import median

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.loops import UVLOOP, run_on
from bench.measure.sampling import ratios
from bench.measure.section import Row, Section
from bench.service.beside.nchan import Nchan, find_nginx
from bench.service.beside.wrk import CONNECTIONS, Load, find_wrk, run_wrk
from bench.service.crowd import all_files
from bench.service.dialects import NCHAN, READ, Dialect
from bench.service.holding import Release, Server, hold, release_at_once, release_one_by_one
from bench.service.line import LeftOut
from bench.service.served import Served
from bench.service.settings import ServiceSettings

__all__ = ["SECTION", "missing"]

OURS = ("submit, complete", "signal, read")
REFERENCE = "publish, subscribe"
# As long as nchan keeps its messages.
FLAGS = ("--max-wait", "600s", "--jitter", "0", "--retention", "5s")


def missing(wrk: str | None, nginx: str | None) -> str | None:
    """Say what must be installed for this section.

    Args:
        wrk: Where it is, None for nowhere.
        nginx: Likewise, with nchan.

    Returns:
        A sentence; None if nothing is missing.
    """
    packages = [
        *([] if wrk else ["wrk"]),
        *([] if nginx else ["nginx-light", "libnginx-mod-nchan"]),
    ]
    if not packages:
        return None
    return f"Left out: it needs {', '.join(packages)}, which Debian installs with apt-get install {' '.join(packages)}."


def lines(settings: ServiceSettings) -> Iterator[Row]:
    """What wrk can drive, then what is held; or what is missing."""
    wrk, nginx = find_wrk(), find_nginx()
    lacking = missing(wrk, nginx)
    if lacking is not None or wrk is None or nginx is None:
        yield LeftOut(sentence=str(lacking))
        return
    with ExitStack() as stack:
        stack.enter_context(all_files())
        servers = stack.enter_context(Served(*FLAGS)), stack.enter_context(Nchan(nginx))
        loads = run_on(UVLOOP, _loads(wrk, servers, settings))
        for exchange in OURS:
            yield from _beside(exchange, loads)
        with collector_set(Collector.OFF):
            yield from run_on(UVLOOP, _held(servers, settings))


async def _loads(wrk: str, servers: tuple[Served, Nchan], settings: ServiceSettings) -> dict[str, list[Load]]:
    """Drive each in turn; the first round is thrown away."""
    ports = {**dict.fromkeys(OURS, servers[0].port), REFERENCE: servers[1].port}
    loads: dict[str, list[Load]] = {exchange: [] for exchange in ports}
    for turn in range(settings.rounds + 1):
        for exchange, port in ports.items():
            load = await run_wrk(wrk, port, exchange, f"wrk{turn}", settings.wrk_s)
            if turn:
                loads[exchange].append(load)
    return loads


def _beside(exchange: str, loads: Mapping[str, Sequence[Load]]) -> Iterator[Line]:
    ours, reference = loads[exchange], loads[REFERENCE]
    name = f"{exchange} / nchan's {REFERENCE}"
    yield _line(
        f"{name}: requests",
        [load.requests_per_s for load in ours],
        [load.requests_per_s for load in reference],
        "1/s",
    )
    yield _line(f"{name}: p99", [load.p99_ms for load in ours], [load.p99_ms for load in reference], "ms")


async def _held(servers: tuple[Served, Nchan], settings: ServiceSettings) -> list[Line]:
    """Hold polls and release them, on each side in turn."""
    ours, nchan = servers
    sides: tuple[tuple[Server, Dialect], ...] = ((ours, READ), (nchan, NCHAN))
    p99s: dict[str, list[float]] = {dialect.name: [] for _, dialect in sides}
    lasts: dict[str, list[float]] = {dialect.name: [] for _, dialect in sides}
    for turn in range(settings.heavy_rounds):
        keys = [f"held{turn}-{number}" for number in range(settings.subscribers)]
        herd = [f"herd{turn}"] * settings.subscribers
        for server, dialect in sides:
            apart = await _release(server, dialect, keys, settings.rate)
            p99s[dialect.name].append(apart.latencies.p99)
            together = await _release(server, dialect, herd, None)
            lasts[dialect.name].append(together.latencies.worst)
    name, pace = f"{settings.subscribers:,} polls", f"{settings.rate:,} signals/s"
    return [
        _line(f"{name}, a key for each / a channel: p99", p99s[READ.name], p99s[NCHAN.name], "ms", note=pace),
        _line(
            f"{name}, one key / one channel: until the last is answered",
            lasts[READ.name],
            lasts[NCHAN.name],
            "ms",
        ),
    ]


async def _release(server: Server, dialect: Dialect, keys: Sequence[str], rate: int | None) -> Release:
    """Hold a poll on each key and release it; without a rate all by one request."""
    crowd = await hold(server, dialect, keys)
    try:
        if rate is None:
            release = await release_at_once(server, dialect, crowd, keys[0])
        else:
            release = await release_one_by_one(server, dialect, crowd, keys, rate)
    finally:
        crowd.reset()
    if release.refused:
        raise RuntimeError(f"{release.refused} of {len(keys)} polls, {dialect.name}, were not answered 200")
    return release


def _line(name: str, ours: Sequence[float], reference: Sequence[float], unit: str, note: str = "") -> Line:
    return Line(
        name=name,
        loop=UVLOOP,
        collector=Collector.DEFAULT,
        unit=unit,
        ours=median(ours),
        reference=median(reference),
        ratio=ratios(ours, reference),
        note=note,
    )


SECTION = Section(
    name="beside-nchan",
    title="The service beside nginx with nchan, which is written in C and keeps messages, but no operations",
    timed=(
        f"wrk with {CONNECTIONS} threads and a connection each, as fast as it goes, two requests to an "
        "exchange, each exchange under a new name. Both sides take turns: a service, and an nginx with one "
        "worker, both of which stay up. Signal, read: POST a value to a new key, GET it; nchan: POST a "
        "message to a new channel, GET it as a late subscriber does. That is the same exchange, and no "
        "request is held. Submit, complete: POST an operation with keys and need, POST its completion. nchan "
        "has no operations, so its publish, subscribe stands beside it and is no equivalent: ours has a "
        "state, a deadline and a listing, and answers 350 bytes of JSON to nchan's 4. p99 is wrk's, of single "
        "requests. Held: polls from one client in Python, ended as in section held; at these rates that "
        "client is a good part of both figures, above all of nchan's. nchan keeps its messages in shared "
        "memory, where several workers find them; the service has one process."
    ),
    lines=lines,
)
