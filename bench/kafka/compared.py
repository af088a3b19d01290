"""The same measurement at each broker, round by round, and the medians."""

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

from bench.kafka.brokers import MOCK, OURS, TANSU, missing
from bench.kafka.settings import KafkaSettings
from bench.measure.collector import Collector
from bench.measure.line import Line, Skipped
from bench.measure.loops import UVLOOP
from bench.measure.section import Row

__all__ = ["Figure", "compared"]


BROKERS = OURS, MOCK, TANSU
"""Those fit to be timed."""


class Figure(NamedTuple):
    """One figure of one round.

    Attributes:
        name: What was measured.
        value: How much.
        unit: What is counted.
    """

    name: str
    value: float
    unit: str


def compared(
    measured: Callable[[str, KafkaSettings], Iterator[Figure]],
    settings: KafkaSettings,
    goals: Mapping[str, str],
    *,
    rounds: int,
) -> Iterator[Row]:
    """Measure each broker that is installed; the brokers take turns.

    Args:
        measured: Starts a broker by its name, and yields its figures. What it raises at another broker leaves that
            one out, with the reason.
        settings: How much is measured.
        goals: Ours, by the figure's name.
        rounds: How often.

    Returns:
        For each figure each broker's median; a broker that is left out has a row that says why.
    """
    found: dict[str, dict[str, list[Figure]]] = {}
    left_out = {name: f"run: {command}" for name in BROKERS if (command := missing(name))}
    for _ in range(rounds):
        for broker in filter(lambda name: name not in left_out, BROKERS):
            try:
                for figure in measured(broker, settings):
                    found.setdefault(figure.name, {}).setdefault(broker, []).append(figure)
            except (RuntimeError, OSError) as error:  # also TimeoutError and ConnectionError
                if broker == OURS:
                    raise
                left_out[broker] = f"{type(error).__name__}: {error}"
    for name, by_broker in found.items():
        for broker in filter(by_broker.__contains__, BROKERS):
            figures = by_broker[broker]
            yield Line(
                name=f"{name}: {broker}",
                loop=UVLOOP,
                collector=Collector.DEFAULT,
                unit=figures[0].unit,
                ours=median(figure.value for figure in figures),
                note=f"goal {goals[name]}" if broker == OURS and name in goals else "",
            )
    for broker, why in left_out.items():
        yield Skipped(f"{broker} left out: {why}")
