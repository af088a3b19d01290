"""SIGTERM while thousands of polls are held: all are answered, and the process ends in time."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from bench.measure.collector import Collector, collector_set
from bench.measure.line import Line
from bench.measure.loops import UVLOOP, run_on
from bench.measure.section import Section
from bench.service.answers import Answer
from bench.service.crowd import Crowd, all_files
from bench.service.dialects import OURS
from bench.service.holding import until_held
from bench.service.line import figure
from bench.service.served import Served
from bench.service.settings import ServiceSettings

__all__ = ["SECTION", "answered_draining"]

MAX_S = 5
FLAGS = ("--max-wait", "600s", "--jitter", "0")
UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Stop:
    """How a service stopped.

    Attributes:
        exit_s: From the signal to the end of the process, in seconds.
        last_s: From the signal to the last answer.
        code: The process's exit code.
        draining: How many polls were answered 503 ``draining``.
        statuses: How many polls got which status; None for no answer.
    """

    exit_s: float
    last_s: float
    code: int
    draining: int
    statuses: Counter[int | None]


def lines(settings: ServiceSettings) -> Iterator[Line]:
    """How long it took, who was answered, and how the process ended."""
    number = settings.leaving
    with all_files(), Served(*FLAGS) as served, collector_set(Collector.OFF):
        stop = run_on(UVLOOP, _play(served, number))
    name = f"SIGTERM, {number:,} polls held"
    answered = f"{stop.draining:,} were, the last after {stop.last_s:.2f} s; statuses {dict(stop.statuses)}"
    yield figure(f"{name}: exit after", stop.exit_s, "s", target=MAX_S)
    yield figure(
        f"{name}: not answered 503 draining", number - stop.draining, "polls", target=0, note=answered
    )
    yield figure(f"{name}: exit code", abs(stop.code), "", target=0)


async def _play(served: Served, number: int) -> Stop:
    polls = [OURS[place % len(OURS)].poll(f"key{place}") for place in range(number)]
    crowd = await Crowd.gather(served.port, polls)
    await until_held(served, number)
    begin_ns = time.perf_counter_ns()
    served.terminate()
    exit_s = await served.exited() - begin_ns / 1e9
    await crowd.all_settled()
    last_ns = max(poll.answered_ns for poll in crowd.polls)
    crowd.reset()
    return Stop(
        exit_s=exit_s,
        last_s=max(0, last_ns - begin_ns) / 1e9,
        code=served.process.returncode,
        draining=sum(answered_draining(poll.answer) for poll in crowd.polls),
        statuses=Counter(crowd.statuses()),
    )


def answered_draining(answer: Answer | None) -> bool:
    """Whether an answer says that the service drains."""
    return answer is not None and answer.status == UNAVAILABLE and b":draining" in answer.body


SECTION = Section(
    name="stopped",
    title="A service that gets SIGTERM while it holds polls",
    timed=(
        "A third each are blocking reads of a key, one-shot waits and takes from a queue. Wall time from "
        "SIGTERM until the process has exited (checked every 20 ms), and until the last answer has reached "
        "the client. Every poll must be answered 503 with the problem draining, and the process must exit "
        "with 0."
    ),
    lines=lines,
)
