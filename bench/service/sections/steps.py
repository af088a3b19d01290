"""Entries that do much at once, without HTTP: how long the loop is away, and what they cost."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import uvloop
from msgspec import Raw

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.section import Section
from bench.measure.stall import StallWatch
from bench.service.line import figure
from bench.service.settings import ServiceSettings
from purgatory_async.durable.documents import CountNeed, KeyedSignal, WireNeed
from purgatory_async.durable.fold.entries import (
    Entry,
    NewItem,
    PurgeQueue,
    PutItems,
    SignalKey,
    SignalKeys,
    SubmitOperation,
    WantItem,
)
from purgatory_async.durable.later import at_last
from purgatory_async.durable.state import Guard
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.settings.settings import Settings

__all__ = ["SECTION"]

LONGEST_MS = 50
NEVER = 2**53 - 1
SIGNALS, KEYS, ITEMS, LEASES = (
    1000,
    64,
    1000,
    100,
)  # as many as a batch, an operation, an entry and a taker may have
HOUR_US = 3_600_000_000
DUE_S = 2.0  # from the end of the preparations until a herd is due, at least
SPREAD_S = 1.0  # after it
PER_ENTRY_S = 0.0002  # of a herd's preparations, on a slow machine


class Scene(NamedTuple):
    """What is there, and then one entry; or what is all due at the same time, made of the microseconds until then."""

    name: str
    before: list[Entry]
    act: Entry | None
    herd: Callable[[int, int], Entry] | None = None
    entries: int = 0


def scenes(pending: int) -> Iterator[Scene]:
    """The scenes, at a number of pending operations; some of them take a part of it."""
    half, some, few = pending // 2, pending // 50, pending // 200
    keys = tuple(f"key{number}" for number in range(KEYS))
    amount, voters = CountNeed(amount=NEVER), CountNeed(voters=NEVER)
    yield Scene(f"{some:,} amounts, {SIGNALS:,} signals", _submits(some, amount), _batch())
    yield Scene(f"{pending:,} amounts, {SIGNALS:,} signals", _submits(pending, amount), _batch())
    yield Scene(f"{few:,} needs of voters, {SIGNALS:,} voters", _submits(few, voters), _batch(voters=True))
    yield Scene(f"90 amounts on {KEYS} keys, {SIGNALS:,} signals", _submits(90, amount, keys), _batch(keys))
    yield Scene(f"a signal ends {half:,} operations", _submits(half), SignalKey(key="hot"))
    yield Scene(f"a signal is counted by {half:,}", _submits(half, amount), SignalKey(key="hot"))
    yield Scene(f"{pending:,} delayed items purged", _puts(pending, HOUR_US), PurgeQueue(queue="q"))
    yield Scene(f"{pending:,} ready items purged", _puts(pending), PurgeQueue(queue="q"))
    yield Scene(f"{half:,} operations expire at once", [], None, _expiring, half)
    yield Scene(f"{half:,} leases end at once", _puts(half), None, _lease, half // LEASES)


def lines(settings: ServiceSettings) -> Iterator[Line]:
    """The longest pass of each scene."""
    for scene in scenes(settings.pending):
        with collector_set(Collector.OFF):
            watch, seconds = uvloop.run(_play(scene))
        note = f"{seconds * 1e3:,.0f} ms in all; {watch}"
        found = figure(scene.name, watch.longest_ms, "ms", target=LONGEST_MS, note=note)
        yield replace(found, collector=Collector.OFF)


async def _play(scene: Scene) -> tuple[StallWatch, float]:
    """Return the passes of a scene, and its processor seconds."""
    service, watch = HttpService(Settings()), StallWatch()
    for entry in scene.before:
        await _propose(service, entry)
    if scene.act is not None:
        doing = asyncio.create_task(_propose(service, scene.act))
    else:
        doing = asyncio.create_task(asyncio.sleep(await _gather(service, scene)))
    begin = time.process_time()
    while not doing.done():
        await watch.watch_pass()
    seconds = time.process_time() - begin
    await doing
    await service.aclose()
    return watch, seconds


async def _propose(service: HttpService, entry: Entry) -> None:
    await at_last(service.state.propose(entry, Guard()))


async def _gather(service: HttpService, scene: Scene) -> float:
    """Make a herd that is due at one time; return for how many seconds to watch."""
    assert scene.herd is not None, f"scene {scene.name!r} must have an entry or a herd"
    due = time.monotonic() + DUE_S + scene.entries * PER_ENTRY_S
    for number in range(scene.entries):
        await _propose(service, scene.herd(number, max(round((due - time.monotonic()) * 1e6), 1)))
    return max(due - time.monotonic(), 0.0) + SPREAD_S


def _submits(count: int, need: WireNeed = "any", keys: tuple[str, ...] = ("hot",)) -> list[Entry]:
    return [SubmitOperation(id=f"op{number}", keys=keys, need=need) for number in range(count)]


def _batch(keys: tuple[str, ...] = ("hot",), *, voters: bool = False) -> SignalKeys:
    signals = [KeyedSignal(key=keys[number % len(keys)]) for number in range(SIGNALS)]
    for number, signal in enumerate(signals if voters else ()):
        signal.voter = f"voter{number}"
    return SignalKeys(signals=tuple(signals))


def _puts(count: int, delay: int = 0) -> list[Entry]:
    new = NewItem(Raw(b"1"), delay)
    sizes = [min(ITEMS, count - begun) for begun in range(0, count, ITEMS)]
    return [PutItems(queue="q", items=(new,) * size) for size in sizes]


def _expiring(number: int, left_us: int) -> SubmitOperation:
    return SubmitOperation(id=f"op{number}", keys=(f"key{number}",), timeout_us=left_us)


def _lease(number: int, left_us: int) -> WantItem:
    return WantItem(queue="q", lease_id=f"lease{number}", lease_us=left_us, max=LEASES)


SECTION = Section(
    name="steps",
    title="Entries that do much at once",
    timed=(
        "the longest pass of the loop of a service in memory, in this process and without HTTP, from the moment at "
        "which the entry is proposed, or a herd is complete, until all of it has happened; with the collector off"
    ),
    lines=lines,
)
