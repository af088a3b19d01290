"""The bare wheel against a port of Kafka's."""

import time
from collections.abc import Iterator
from functools import partial

from bench.core.settings import CoreSettings
from bench.core.timer_samples import kafka_churn, wheel_churn
from bench.core.workload import SHAPES, Workload
from bench.designs.kafka_wheel import KafkaTask, KafkaTimer
from bench.measure.comparison import compare
from bench.measure.line import Line
from bench.measure.loops import ASYNCIO
from bench.measure.sampling import Sample
from bench.measure.section import Section
from purgatory_async.timing import TimerEntry, TimingWheel

__all__ = ["SECTION"]

CHURN_TARGET = 0.50
EXPIRY_TARGET = 0.30

# So many timers start in one tick, as if they arrived at 100 000 a second.
ARRIVALS_PER_TICK = 100


def wheel_expiry(workload: Workload, shape: str) -> Sample:
    """Take N entries out of the wheel, the clock going from one due bucket to the next."""
    deadlines = _deadlines(workload, shape)

    async def sample() -> float:
        wheel = TimingWheel()
        for tick in deadlines:
            wheel.schedule(TimerEntry(tick))
        expired = 0
        started = time.process_time_ns()
        while (due := wheel.next_tick) is not None:
            expired += len(wheel.advance(due))
        spent = time.process_time_ns() - started
        assert expired == workload.count, f"{expired} of {workload.count} entries expired"
        return spent / workload.count

    return sample


def kafka_expiry(workload: Workload, shape: str) -> Sample:
    """The same for the port."""
    deadlines = _deadlines(workload, shape)

    async def sample() -> float:
        timer = KafkaTimer()
        for tick in deadlines:
            timer.add(KafkaTask(tick), now_ms=0)
        expired = 0
        started = time.process_time_ns()
        while (due := timer.next_expiration) is not None:
            expired += len(timer.advance_clock(due))
        spent = time.process_time_ns() - started
        assert expired == workload.count, f"{expired} of {workload.count} tasks expired"
        return spent / workload.count

    return sample


def lines(settings: CoreSettings) -> Iterator[Line]:
    """Add + cancel and expiry, for each shape of timeouts and setting of the collector."""
    workload = Workload.of(settings.operations, settings)
    for name, ours, reference, target in (
        ("add + cancel", wheel_churn, kafka_churn, CHURN_TARGET),
        ("make entry, add + cancel", partial(wheel_churn, make_entries=True), kafka_churn, None),
        ("expiry", wheel_expiry, kafka_expiry, EXPIRY_TARGET),
    ):
        for shape, words in SHAPES.items():
            for collector in settings.collectors:
                yield compare(
                    f"{name} / Kafka's 20 slots, {words}",
                    loop=ASYNCIO,
                    collector=collector,
                    ours=ours(workload, shape),
                    reference=reference(workload, shape),
                    rounds=settings.rounds,
                    target=target,
                )


def _deadlines(workload: Workload, shape: str) -> list[int]:
    return [
        number // ARRIVALS_PER_TICK + round(timeout * 1e3)
        for number, timeout in enumerate(workload.timeouts(shape))
    ]


SECTION = Section(
    name="kafka",
    title="The bare timing wheel against a port of Kafka's (bench/designs/kafka_wheel.py)",
    timed=(
        "add + cancel: as in section wheel; the port also runs as a bare wheel and reads the clock. Its tasks "
        "are made beforehand, its entries in the timed part, as Kafka does on every add. Expiry: N are added "
        f"untimed ({ARRIVALS_PER_TICK} arrivals a tick); then time moves from one due bucket to the next until "
        "none is left, cascades included."
    ),
    lines=lines,
)
