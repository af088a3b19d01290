"""Values of a megabyte and clients that do not read: the service stays within its budgets of bytes."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

from bench.cluster.stores import STORES, NotInstalled, store_named
from bench.measure.line import Line
from bench.measure.section import Section
from bench.service.hoard import DEAF, fill, keep_deaf
from bench.service.line import LeftOut, figure
from bench.service.served import Served
from bench.service.settings import ServiceSettings

__all__ = ["SECTION"]

BYTES_MIB, UNSENT_MIB = 64, 16
MOST_MIB = 2 * (BYTES_MIB + UNSENT_MIB) + 100
FLAGS = ("--max-bytes", f"{BYTES_MIB}MiB", "--max-unsent", f"{UNSENT_MIB}MiB")
SETTLE_S = 2.0  # for the answers to be written


def lines(settings: ServiceSettings) -> Iterator[Line | LeftOut]:
    """How much memory the service had at most, on each store."""
    yield _line("memory", settings.values, *FLAGS)
    for name in STORES:
        try:
            with store_named(name) as store:
                yield _line(name, settings.values, *FLAGS, "--store", store.url)
        except NotInstalled as missing:
            yield LeftOut(sentence=str(missing))


def _line(name: str, values: int, *flags: str) -> Line:
    with Served(*flags) as served, ExitStack() as stack:
        begun = served.peak_kib()
        statuses = fill(served.port, values)
        keep_deaf(stack, served.port)
        time.sleep(SETTLE_S)
        statuses += fill(served.port, values // 4, values)
        peak = served.peak_kib() / 1024
    note = f"{begun / 1024:.0f} MiB at first; {_told(statuses)}"
    return figure(f"{name}: resident at most", peak, "MiB", target=MOST_MIB, note=note)


def _told(statuses: Counter[int]) -> str:
    return ", ".join(f"{count:,} times {status}" for status, count in sorted(statuses.items()))


SECTION = Section(
    name="budgets",
    title="Values of a megabyte, and clients that do not read",
    timed=(
        f"the most memory that the service's process had resident, with {' '.join(FLAGS)}: first a client sends values "
        f"of a megabyte as signals, operations and items, then {DEAF} clients ask for them and read nothing, while the "
        "first goes on; the target is twice the budgets and 100 MiB"
    ),
    lines=lines,
)
