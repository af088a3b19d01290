"""A job queue in one process: workers of several kinds, priorities, back-pressure, and no lost job.

Each job goes to one worker; a worker that is cancelled while it gets a job leaves it to the next. A submitter
waits while the queue is full. Nothing is on disk, and a job that fails or is interrupted is not repeated. It
runs on virtual time; `asyncio.run` does the same in real time.
"""

import asyncio

from purgatory_async import Purgatory, PurgatoryClosed, PurgatoryFull
from purgatory_async.patterns import HandOff
from purgatory_async.testing import VirtualTimeLoop

ROOM = 4
WORK_S = 1


class JobQueue:
    """At most ``ROOM`` jobs, by kind."""

    def __init__(self) -> None:
        self.workers = Purgatory("idle workers")
        self.submitters = Purgatory("submitters without room")
        self.jobs: HandOff[str, str] = HandOff(self.workers, max_items=ROOM)

    async def submit(self, kind: str, job: str) -> bool:
        """Put a job once there is room; returns whether a worker took it at once."""
        while True:
            try:
                return self.jobs.put(kind, job)
            except PurgatoryFull:
                say(f"no room for {kind} {job} yet")
                await self.submitters.wait("room", until=lambda: len(self.jobs) < ROOM)

    async def next_job(self, *kinds: str) -> tuple[str, str]:
        """Wait for a job of one of these kinds; earlier kinds come first."""
        job = await self.jobs.take(*kinds)
        self.submitters.check_and_complete("room")
        return job

    def close(self) -> list[tuple[str, str]]:
        """End all waits, and return the jobs not begun."""
        self.workers.close()
        self.submitters.close()
        return self.jobs.clear()


async def work(queue: JobQueue, name: str, *kinds: str) -> None:
    """Take and do jobs until cancelled or closed."""
    try:
        while True:
            kind, job = await queue.next_job(*kinds)
            say(f"{name} begins {kind} {job}")
            await asyncio.sleep(WORK_S)
    except asyncio.CancelledError:
        say(f"{name} is cancelled")
        raise
    except PurgatoryClosed:
        say(f"{name} goes home")


async def submit_all(queue: JobQueue, *jobs: tuple[str, str]) -> None:
    for number, (kind, job) in enumerate(jobs):
        try:
            await queue.submit(kind, job)
        except PurgatoryClosed:
            say(f"handed in too late: {jobs[number:]}")
            return


async def a_day(queue: JobQueue, tasks: asyncio.TaskGroup) -> None:
    say("five jobs, room for four, and no worker yet")
    morning = [
        ("video", "trip"),
        ("thumbnail", "cat"),
        ("thumbnail", "dog"),
        ("mail", "bill"),
        ("mail", "news"),
    ]
    tasks.create_task(submit_all(queue, *morning))
    await asyncio.sleep(WORK_S)
    say("at work: an artist, who does thumbnails before videos, and a clerk, who does mail")
    artist = tasks.create_task(work(queue, "the artist", "thumbnail", "video"))
    tasks.create_task(work(queue, "the clerk", "mail"))
    await asyncio.sleep(4 * WORK_S)

    (artist_waits,) = queue.workers.operations("thumbnail")
    tasks.create_task(work(queue, "a colleague", "thumbnail", "video"))
    await asyncio.sleep(0)
    await queue.submit("thumbnail", "owl")
    artist.cancel()
    say(f"owl is handed in; the artist's wait: {artist_waits.outcome}, and cancelled in the same moment")
    await asyncio.sleep(2 * WORK_S)

    say("a rush, and closing time half a second later")
    tasks.create_task(submit_all(queue, *(("mail", f"offer-{number}") for number in range(1, 8))))
    await asyncio.sleep(WORK_S / 2)
    say(f"not begun: {', '.join(f'{kind} {job}' for kind, job in queue.close())}")


def say(text: str) -> None:
    print(f"{asyncio.get_running_loop().time():4.1f} s  {text}")


async def main() -> None:
    queue = JobQueue()
    async with asyncio.TaskGroup() as tasks:
        await a_day(queue, tasks)
    say(f"left behind: {len(queue.jobs)} jobs, {queue.workers.pending} workers")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
