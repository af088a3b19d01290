"""The service's state as a fold of its log, without HTTP: what an entry costs, and a restart."""

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial

from msgspec import Raw

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.loops import UVLOOP
from bench.measure.sampling import Spread
from bench.measure.section import Section
from bench.service.settings import ServiceSettings
from purgatory_async.durable.fold import codec
from purgatory_async.durable.fold.checkpoint import parts
from purgatory_async.durable.fold.entries import (
    Alive,
    AnyEntry,
    EndLease,
    PutItem,
    SignalKey,
    SubmitOperation,
    WantItem,
)
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.restoring import restored

__all__ = ["SECTION"]

MAX_ENTRY_US = 10  # 100 000 entries a second
MAX_READY_S = 3  # for 100 000 pending
START_US = 1_700_000_000_000_000
STEP_US = 10
WRITER = "5f2c9be1a07d4436b1e8c3d2"
MINUTE_US = 60_000_000


def lines(settings: ServiceSettings) -> Iterator[Line]:
    """What an entry costs, by kind, and what a restart does."""
    count, rounds = settings.pending, settings.heavy_rounds
    for name, entries, target in (
        ("submit and its signal, by a writer", list(pairs(count // 2)), MAX_ENTRY_US),
        ("submit, all pending", list(submits(count)), MAX_ENTRY_US),
        ("put, want and done", list(leases(count // 3)), MAX_ENTRY_US),
    ):
        yield line(f"an entry: {name}", rounds, partial(fold_all, entries), "us", target)
    texts = [codec.encode(entry) for entry in pairs(count // 2)]
    yield line(
        "an entry's JSON read", rounds, lambda: processor_s(lambda: read(texts)) / len(texts), "us", None
    )
    with closing(Fold()) as fold:
        run(fold, submits(count))
        saved = list(parts(fold))
        size = sum(map(len, saved)) / 1e6
        yield line(
            f"{count:,} pending written", rounds, lambda: processor_s(lambda: list(parts(fold))), "s", None,
            note=f"{size:.0f} MB",
        )  # fmt: skip
    target_s = MAX_READY_S * count / 100_000
    yield line(f"{count:,} pending restored", rounds, lambda: restore(saved), "s", target_s)


def pairs(count: int) -> Iterator[AnyEntry]:
    """Operations, each completed by the next entry."""
    yield Alive(writer=WRITER, number=1)
    for number in range(count):
        key, count_before = f"order-{number}", 2 * number + 1
        yield SubmitOperation(
            writer=WRITER,
            number=count_before + 1,
            id=f"op{number}",
            keys=(key,),
            timeout_us=MINUTE_US + number,
        )
        yield SignalKey(writer=WRITER, number=count_before + 2, key=key, value=Raw(b'{"paid":true}'))


def submits(count: int) -> Iterator[AnyEntry]:
    """Operations that stay pending."""
    for number in range(count):
        yield SubmitOperation(id=f"op{number}", keys=(f"order-{number}",), timeout_us=MINUTE_US + number)


def leases(count: int) -> Iterator[AnyEntry]:
    """Items, each taken and acknowledged."""
    for number in range(count):
        queue, lease_id = f"queue{number % 10}", f"lease{number}"
        yield PutItem(queue=queue, item=Raw(b'{"to":"a@example.org"}'), delay_us=0)
        yield WantItem(queue=queue, lease_id=lease_id, lease_us=MINUTE_US, wait_us=MINUTE_US, max=1)
        yield EndLease(lease_id=lease_id)


def run(fold: Fold, entries: Iterable[AnyEntry]) -> None:
    """Apply entries, ten microseconds of log time apart."""
    apply = fold.apply
    for position, entry in enumerate(entries, 1):
        apply(position, START_US + position * STEP_US, entry)


def fold_all(entries: list[AnyEntry]) -> float:
    """Return the processor seconds of one entry."""
    with closing(Fold()) as fold:
        return processor_s(lambda: run(fold, entries)) / len(entries)


def read(texts: list[bytes]) -> None:
    """Decode entries."""
    for text in texts:
        codec.decode(text)


def restore(saved: list[bytes]) -> float:
    """Return the processor seconds of a restart from a checkpoint."""
    folds: list[Fold] = []
    seconds = processor_s(lambda: folds.append(restored(saved)))
    folds[0].close()
    return seconds


def processor_s(act: Callable[[], object]) -> float:
    """Return the processor seconds of an act."""
    begin = time.process_time()
    act()
    return time.process_time() - begin


def line(
    name: str,
    rounds: int,
    sample: Callable[[], float],
    unit: str,
    target: float | None,
    *,
    note: str = "",
) -> Line:
    """The median of some samples."""
    with collector_set(Collector.OFF):
        found = []
        for _ in range(rounds):
            gc.collect()
            found.append(sample())
    ours = Spread.of(found).median * (1e6 if unit == "us" else 1)
    return Line(
        name=name, loop=UVLOOP, collector=Collector.OFF, unit=unit, ours=ours, target=target, note=note
    )


SECTION = Section(
    name="fold",
    title="the state of the service, folded from its log",
    timed=(
        "processor time of one step, from an entry as an object to its result, effects and running digest, with the "
        "collector off (the service lets it run seldom); a checkpoint written from, and restored into, memory"
    ),
    lines=lines,
)
