"""The service beside nginx with nchan, and beside a handler written by hand."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Final, TypeVar

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line, Skipped
from bench.measure.loops import UVLOOP, run_on
from bench.measure.sampling import ratios
from bench.measure.section import Row, Section
from bench.service.beside.exchanging import CHANNELS, UNDER_WAY, Exchanged
from bench.service.beside.nchan import find_nginx
from bench.service.beside.peers import Peer, PeerServer, peers
from bench.service.beside.scenes import (
    KEPT,
    Abandoned,
    Messages,
    abandon,
    exchanged,
    herd,
    not_served,
    restarted,
)
from bench.service.crowd import all_files
from bench.service.dialects import READ
from bench.service.latencies import Latencies
from bench.service.line import figure
from bench.service.settings import ServiceSettings
from bench.service.visitors import FAILURES, HOLD_S

__all__ = ["SECTION"]

Pairs = Sequence[tuple[Peer, Peer]]
T = TypeVar("T")
_MISSING: Final = (
    "nginx with nchan is not installed; on Debian: apt-get install nginx-light libnginx-mod-nchan"
)
_RESTARTS: Final = 3
_PUBLISHED_TO: Final = 10  # of so many keys whose clients have just left, one gets a message


def lines(settings: ServiceSettings) -> Iterator[Row]:
    """Every figure of a server, beside nchan's; or what is missing."""
    nginx = find_nginx()
    if nginx is None:
        yield Skipped(_MISSING)
        return
    pairs = peers(nginx)
    each = {peer.name: peer for pair in pairs for peer in pair}
    with all_files(), collector_set(Collector.OFF):
        loads, herds = _in_turns(each, settings)
        yield from _message_lines(pairs, loads)
        yield from _herd_lines(pairs, herds, settings.herd)
        abandoned = {name: _abandoned(peer, settings) for name, peer in each.items()}
        yield from _memory_lines(pairs, abandoned, settings.abandoned)
        for name, peer in each.items():
            yield from _left_lines(peer, abandoned[name])
        for peer in each.values():
            yield from _restart_lines(peer, settings)


def _in_turns(
    each: Mapping[str, Peer], settings: ServiceSettings
) -> tuple[dict[str, list[Messages]], dict[str, list[Latencies]]]:
    """Load all servers in turns; the first round is thrown away."""
    loads: dict[str, list[Messages]] = {name: [] for name in each}
    herds: dict[str, list[Latencies]] = {name: [] for name in each}
    with ExitStack() as stack:
        servers: dict[str, PeerServer] = {
            name: stack.enter_context(peer.start()) for name, peer in each.items()
        }
        for turn in range(settings.rounds + 1):
            for name, peer in each.items():
                load = exchanged(peer, servers[name], f"load{turn}", settings.load_s)
                if turn:
                    loads[name].append(load)
        for turn in range(settings.heavy_rounds):
            for name, peer in each.items():
                herds[name].append(run_on(UVLOOP, herd(peer, servers[name], f"herd{turn}", settings.herd)))
    return loads, herds


def _message_lines(pairs: Pairs, loads: Mapping[str, Sequence[Messages]]) -> Iterator[Line]:
    for pair in pairs:
        load, nchan = (loads[peer.name][-1].load for peer in pair)
        cost = _beside(pair, loads, lambda each: 1e6 * each.cpu_s / each.load.messages)
        rate = _beside(pair, loads, lambda each: each.load.messages / each.load.wall_s)
        clients = f"of the clients {_clients(load)}; nchan's {_clients(nchan)}"
        yield _line(pair, "CPU of 1 000 messages", "ms", cost, note=clients)
        yield _line(pair, "messages", "1/s", rate, note=str(load.latencies))


def _clients(load: Exchanged) -> str:
    return (
        f"{1e6 * load.client_cpu_s / load.messages:.0f} ms, {load.client_cpu_s / load.wall_s:.2f} of a core"
    )


def _herd_lines(pairs: Pairs, herds: Mapping[str, Sequence[Latencies]], number: int) -> Iterator[Line]:
    for pair in pairs:
        name = f"herd of {number:,}"
        yield _line(pair, f"{name}, p50", "ms", _beside(pair, herds, lambda each: each.p50))
        yield _line(pair, f"{name}, p99", "ms", _beside(pair, herds, lambda each: each.p99))


def _abandoned(peer: Peer, settings: ServiceSettings) -> Abandoned:
    published = settings.abandoned // _PUBLISHED_TO
    with peer.start() as server:
        return run_on(UVLOOP, abandon(peer, server, settings.abandoned, published))


def _memory_lines(pairs: Pairs, seen: Mapping[str, Abandoned], number: int) -> Iterator[Line]:
    taken = {name: [each] for name, each in seen.items()}
    for pair in pairs:
        ours, nchan = (seen[peer.name] for peer in pair)
        held = _beside(pair, taken, lambda each: each.memory.proportional_bytes)
        left = _beside(pair, taken, lambda each: each.left.proportional_bytes)
        resident = f"resident {ours.memory.resident_bytes:,}, nchan {nchan.memory.resident_bytes:,}"
        came = f"held after {ours.held_s:.1f} s, nchan {nchan.held_s:.1f} s"
        yield _line(pair, f"{number:,} held, each", "bytes", held, note=f"{resident}; {came}")
        again = _beside(pair, taken, lambda each: each.again.proportional_bytes)
        yield _line(pair, "their clients left, each", "bytes", left)
        yield _line(pair, "as many again, each", "bytes", again)


def _left_lines(peer: Peer, seen: Abandoned) -> Iterator[Line]:
    target = _promised(peer)
    after = f"{seen.freed_s:.1f} s after their clients left"
    yield figure(f"{peer.name}: polls still held", seen.still_held, "polls", target=target, note=after)
    yield figure(f"{peer.name}: messages lost then", seen.lost, "messages", target=target)


def _restart_lines(peer: Peer, settings: ServiceSettings) -> Iterator[Line]:
    times = min(_RESTARTS, settings.restarts)
    counts, lost = run_on(UVLOOP, restarted(peer, settings.guests, times))
    failed = ", ".join(f"{counts[failure]} {failure}" for failure in FAILURES)
    note = (
        f"{failed}; {counts['answered']:,} answered, of these {counts['draining']:,} sent away; "
        f"{lost} of {KEPT} messages from before lost"
    )
    name = f"{peer.name}, {times} restarts: refused, reset or lost"
    yield figure(name, not_served(counts), "requests", target=_promised(peer), note=note)


def _promised(peer: Peer) -> float | None:
    """Return how many the service may lose; of the others that is only shown."""
    return 0 if peer.dialect is READ else None


def _beside(
    pair: tuple[Peer, Peer], taken: Mapping[str, Sequence[T]], figure: Callable[[T], float]
) -> tuple[list[float], list[float]]:
    """Return one figure of both sides, round by round."""
    ours, reference = ([figure(each) for each in taken[peer.name]] for peer in pair)
    return ours, reference


def _line(
    pair: tuple[Peer, Peer], name: str, unit: str, sides: tuple[list[float], list[float]], *, note: str = ""
) -> Line:
    ours, reference = sides
    return Line(
        name=f"{pair[0].name} / {pair[1].name}: {name}",
        loop="",
        collector="",
        unit=unit,
        ours=median(ours),
        reference=median(reference),
        ratio=ratios(ours, reference),
        note=note,
    )


SECTION = Section(
    name="peers",
    title="The service beside nginx with nchan, and beside a Starlette handler on an event of its key",
    timed=(
        f"Each server's name ends with how many processes serve. A message is published to one of {CHANNELS} keys, "
        "answers the one poll that is held there, and that client polls again, from the place after it: two requests. "
        f"{UNDER_WAY} messages are under way at a time; every one is checked. The clients are one process, on epoll "
        "without a loop; what they cost stands in the note. Servers and clients share the cores, and nothing is "
        "pinned, because two workers and the clients are three. CPU is of all the server's processes, user and "
        "system, as the system counts it. Memory is the growth of their proportional set size (shared pages divided), "
        "per poll, each on a key of its own. Then all clients reset their connections at once, and a message is "
        f"published to every {_PUBLISHED_TO}th key that they left, which must answer a later poll. Herd: from "
        "sending the message to the last byte of an answer, by a client in Python, whose own work is included. "
        f"Restarts: clients in a loop ask something, then poll for {HOLD_S} s. The service in memory and the handler "
        "stop and start on one socket, as under systemd; of two workers one is replaced; nginx reloads."
    ),
    lines=lines,
)
