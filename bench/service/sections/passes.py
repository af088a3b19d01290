"""Requests that ask for much, and herds that one request answers: how long the loop is away."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import uvloop
from msgspec import Raw

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.section import Section
from bench.measure.stall import StallWatch
from bench.service.dialects import request
from bench.service.line import figure
from bench.service.request_probe import Wire, context_of
from bench.service.settings import ServiceSettings
from purgatory_async.durable.fold.entries import Entry, NewItem, PutItems, SignalKey, SubmitOperation
from purgatory_async.durable.later import at_last
from purgatory_async.durable.state import Guard
from purgatory_async.service.app import create_app
from purgatory_async.service.logs import stderr_log
from purgatory_async.service.settings.settings import Settings

__all__ = ["SECTION"]

LONGEST_MS = 50
BODY = 1_000_000  # bytes, of at most a mebibyte
SIGNALS = 1000  # as many as a batch may have
ARRIVING = 50  # requests of a herd between two passes
AFTER = 20  # passes that are watched behind the last answer
_SIGNAL = request("POST", "/v1/keys/herd/signal", b"{}")
_BATCH = b'{"signals": [%b]}'


class Scene(NamedTuple):
    """What is there, the requests that are held, and the request that is watched."""

    name: str
    asked: bytes
    held: Sequence[bytes] = ()
    before: Callable[[], Iterable[Entry]] = tuple
    longest_ms: float = LONGEST_MS


def scenes(polls: int, pending: int) -> Iterator[Scene]:
    """The scenes: herds of so many polls, and requests to a state with so many operations, items or keys."""
    herds: list[tuple[str, bytes, Callable[[int], str], float]] = [
        ("one-shot waits, one key", _SIGNAL, lambda _: "/v1/wait?key=herd", 5),
        ("reads, one key", _SIGNAL, lambda _: "/v1/keys/herd?index=0", 5),
        ("one-shot waits, different keys", _SIGNAL, lambda n: f"/v1/wait?key=herd&key=own{n}", 15),
        ("reads, a batch on 1,000 keys", _batch("key"), lambda n: f"/v1/keys/key{n % SIGNALS}?index=0", 15),
        ("followers of a prefix, a batch", _batch("herd"), lambda _: "/v1/wait?prefix=herd&since=0", 15),
    ]
    for name, asked, target, most in herds:
        held = [request("GET", _waiting(target(number))) for number in range(polls)]
        yield Scene(f"herd of {polls:,}: {name}", asked, held, longest_ms=most)
    submits = [
        request("POST", "/v1/operations?wait=50s", b'{"keys": ["herd"], "id": "op%d"}' % number)
        for number in range(polls)
    ]
    yield Scene(f"herd of {polls:,}: submissions with ids", _SIGNAL, submits, longest_ms=30)
    yield Scene(f"{polls:,} submissions drained", request("POST", "/v1/admin/drain", b"{}"), submits)
    members = b",".join(b'"k%d":1' % number for number in range(BODY // 11))
    for name, value in (
        ("integers", b"[%b]" % b",".join([b"1"] * (BODY // 2))),
        ("members", b"{%b}" % members),
        ("members, the last one twice", b'{"k0":1,%b}' % members),
    ):
        body = b'{"value":%b}' % value
        yield Scene(f"a body of {name}", request("POST", "/v1/keys/k/signal", body))
        yield Scene(f"the same, repeatable: {name}", request("POST", "/v1/keys/k/signal", body, once="x"))
    for path, before in (
        ("/v1/operations?limit=1000&key=hot", _submits(pending)),
        ("/v1/admin/stats", _submits(pending)),
        ("/v1/admin/stats?digest=1", _submits(pending)),
        ("/metrics", _submits(pending)),
        ("/ui/operations?search=none", _submits(pending)),
        ("/v1/queues/q/items?limit=1000&delayed=1", _puts(pending)),
        ("/v1/wait?prefix=key&since=0", _signals(pending)),
    ):
        yield Scene(f"GET {path}", request("GET", path), before=before)


def lines(settings: ServiceSettings) -> Iterator[Line]:
    """The longest pass of each scene."""
    for scene in scenes(settings.polls, settings.pending):
        with collector_set(Collector.OFF):
            watch = uvloop.run(_play(scene))
        found = figure(scene.name, watch.longest_ms, "ms", target=scene.longest_ms, note=str(watch))
        yield replace(found, collector=Collector.OFF)


async def _play(scene: Scene) -> StallWatch:
    """Return the passes of a scene.

    Raises:
        RuntimeError: A request that should be held was answered.
    """
    app = create_app(Settings(jitter=0), log=stderr_log())
    context = context_of(app)
    for entry in scene.before():
        await at_last(app.service.state.propose(entry, Guard()))
    herd = [Wire(context) for _ in scene.held]
    for number, (wire, asked) in enumerate(zip(herd, scene.held, strict=True)):
        wire.send(asked)
        if number % ARRIVING == 0:
            await asyncio.sleep(0)
    early = next((wire.answer for wire in herd if wire.answer), b"")
    if early:
        raise RuntimeError(f"the requests of {scene.name!r} must be held, got {early[:200]!r}")
    asking, watch = Wire(context), StallWatch()
    asyncio.get_running_loop().call_soon(asking.send, scene.asked)
    while not all(wire.answer for wire in (asking, *herd[-1:])):
        await watch.watch_pass()
    for _ in range(AFTER):
        await watch.watch_pass()
    await app.service.aclose()
    return watch


def _waiting(target: str) -> str:
    return f"{target}&wait=50s"


def _batch(prefix: str) -> bytes:
    signals = b",".join(b'{"key": "%b%d"}' % (prefix.encode(), number) for number in range(SIGNALS))
    return request("POST", "/v1/signals", _BATCH % signals)


def _submits(count: int) -> Callable[[], Iterable[Entry]]:
    return lambda: (SubmitOperation(id=f"op{number}", keys=("hot",)) for number in range(count))


def _puts(count: int) -> Callable[[], Iterable[Entry]]:
    items = (NewItem(Raw(b"1"), 3_600_000_000),) * SIGNALS
    return lambda: (PutItems(queue="q", items=items) for _ in range(count // SIGNALS))


def _signals(count: int) -> Callable[[], Iterable[Entry]]:
    return lambda: (SignalKey(key=f"key{number}") for number in range(count))


SECTION = Section(
    name="passes",
    title="Requests that ask for much, and herds",
    timed=(
        "the longest pass of the loop of a service in memory, in this process and over transports in memory, from the "
        "last bytes of the request until it and the last of the herd are answered; with the collector off"
    ),
    lines=lines,
)
