"""A day with 1 000 heartbeats and 1 000 periodic tasks on one timer: exact counts, no drift, one wakeup, nothing left.

Task ``i`` of the thousand has a period of ``P + 337 i`` milliseconds; link ``i`` an interval of ``L + 600 i``, which is
longer. What is due at the whole multiples of so many milliseconds is due ``hours * 3 600 000 // milliseconds`` times
in so many hours; with a fixed delay, once after a period and then each period and what the work takes. Of each three
links, one is fed by the task of its number, more often than its interval is long, and is never pinged; one answers
each ping at once, and is pinged every interval; one is silent: it is pinged after one interval and after two, and is
dead after three.
"""

import asyncio

import pytest

from purgatory_async import Timer
from purgatory_async.patterns import Heartbeat, Periodic
from purgatory_async.testing import ManualClock
from tests.loop.worlds import reports

HOW_MANY = 1000
HOUR_MS = 3_600_000
WORK_MS = 1500
SEND_MS = 250

each_length = pytest.mark.parametrize(
    "hours", [1, pytest.param(24, marks=pytest.mark.slow)], ids=["an hour", "a day"]
)


class Link:
    """A connection with a heartbeat: busy, answering or silent, by its number."""

    def __init__(self, timer: Timer, number: int, base_ms: int, send_ms: int = 0) -> None:
        self.kind = ("busy", "answering", "silent")[number % 3]
        self.interval_ms = base_ms + 600 * number
        self.pings: list[float] = []
        self.deaths: list[float] = []
        self._timer = timer
        self._send_s = send_ms / 1000
        send = self._send_later if send_ms else self._send
        self.heart = Heartbeat(timer, interval=self.interval_ms / 1000, send=send, on_dead=self._die)

    def feed(self) -> None:
        if self.kind == "busy":
            self.heart.saw_read()
            self.heart.saw_write()

    def _send(self) -> None:
        self.pings.append(self._timer.time())
        if self.kind == "answering":
            self.heart.saw_read()

    async def _send_later(self) -> None:
        self._send()
        await self._timer.sleep(self._send_s)

    def _die(self) -> None:
        self.deaths.append(self._timer.time())

    def check(self, hours: int) -> None:
        """Check that it was pinged and found dead at the exact millisecond."""
        pings = {"busy": 0, "answering": hours * HOUR_MS // self.interval_ms, "silent": 2}[self.kind]
        deaths = 1 if self.kind == "silent" else 0
        if self.kind == "silent":
            pings = min(pings, hours * HOUR_MS // self.interval_ms)
            deaths = min(deaths, hours * HOUR_MS // (3 * self.interval_ms))
        assert [round(time * 1000) for time in self.pings] == self._due_ms(pings)
        assert [round(time * 1000) for time in self.deaths] == self._due_ms(3)[2 : 2 + deaths]
        assert self.heart.alive is (deaths == 0)

    def _due_ms(self, times: int) -> list[int]:
        # An interval is not three whole ticks; of its thirds, each third one falls on a tick again.
        return [self.interval_ms * number for number in range(1, times + 1)]


class Task:
    """Periodic work that feeds a link, and notes when it began."""

    def __init__(
        self, timer: Timer, number: int, base_ms: int, link: Link, *, takes_ms: int = 0, rest: bool = False
    ) -> None:
        self.period_ms = base_ms + 337 * number
        self.cycle_ms = self.period_ms + (takes_ms if rest else 0)
        self.begun: list[float] = []
        self._timer = timer
        self._link = link
        self._takes_s = takes_ms / 1000
        self.beat = Periodic(
            timer,
            self.period_ms / 1000,
            self._work_later if takes_ms else self._work,
            mode="fixed_delay" if rest else "fixed_rate",
        )

    def _work(self) -> None:
        self.begun.append(self._timer.time())
        self._link.feed()

    async def _work_later(self) -> None:
        self._work()
        await self._timer.sleep(self._takes_s)

    def check(self, hours: int) -> None:
        """See that it ran as often as it was due, and the last time at the exact millisecond."""
        runs = 1 + (hours * HOUR_MS - self.period_ms) // self.cycle_ms
        assert (self.beat.runs, self.beat.skipped, len(self.begun)) == (runs, 0, runs)
        due_ms = [self.period_ms + self.cycle_ms * number for number in range(runs)]
        assert [round(time * 1000) for time in self.begun] == due_ms


def at_work(timer: Timer, link_ms: int, task_ms: int, **settings: int) -> tuple[list[Link], list[Task]]:
    """A thousand of each."""
    send_ms, takes_ms = settings.get("send_ms", 0), settings.get("takes_ms", 0)
    links = [Link(timer, number, link_ms, send_ms) for number in range(HOW_MANY)]
    tasks = [
        Task(timer, number, task_ms, link, takes_ms=takes_ms, rest=bool(takes_ms) and number % 2 == 1)
        for number, link in enumerate(links)
    ]
    return links, tasks


def check_all(links: list[Link], tasks: list[Task], hours: int) -> None:
    for each in (*links, *tasks):
        each.check(hours)
    assert sum(len(link.pings) for link in links) > HOW_MANY
    assert sum(task.beat.runs for task in tasks) > HOW_MANY * hours


@each_length
def test_a_manual_clock_runs_all_on_time_and_leaves_nothing(hours: int) -> None:
    clock = ManualClock()
    timer = Timer(clock=clock)
    links, tasks = at_work(timer, 600_000, 500_000)
    for _ in range(hours * 60):
        clock.advance(60)
        assert len([wakeup for _, _, wakeup in clock._wakeups if not wakeup.cancelled]) == 1
    dead = sum(len(link.deaths) for link in links)
    assert timer.pending == 2 * HOW_MANY - dead
    timer.check_invariants()
    check_all(links, tasks, hours)
    for each in (*(link.heart for link in links), *(task.beat for task in tasks)):
        each.close()
    assert (timer.pending, timer.next_deadline, timer.close()) == (0, None, [])
    assert [wakeup for _, _, wakeup in clock._wakeups if not wakeup.cancelled] == []


@each_length
@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_a_virtual_loop_runs_async_work_and_sends_on_time(hours: int) -> None:
    loop, reported = asyncio.get_running_loop(), reports()
    timer = Timer()
    links, tasks = at_work(timer, 900_000, 800_000, send_ms=SEND_MS, takes_ms=WORK_MS)
    for _ in range(hours * 60):
        await asyncio.sleep(60)
        assert len([wakeup for wakeup in loop._scheduled if not wakeup.cancelled()]) == 1
    await asyncio.sleep(0.0005)  # what is due at this very moment comes in this pass or in the next
    check_all(links, tasks, hours)
    for each in (*(link.heart for link in links), *(task.beat for task in tasks)):
        await each.aclose()
    assert (timer.pending, timer.next_deadline, timer.close()) == (0, None, [])
    assert [wakeup for wakeup in loop._scheduled if not wakeup.cancelled()] == []
    assert (asyncio.all_tasks(), reported) == ({asyncio.current_task()}, [])
