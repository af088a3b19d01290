"""A job queue in one process: workers of several kinds, priorities, back-pressure, and no lost job.

Each job goes to one worker; a worker that is cancelled while it gets a job leaves it to the next. A submitter
waits while the queue is full. Nothing is on disk, and a job that fails or is interrupted is not repeated. It
runs on virtual time; `asyncio.run` does the same in real time.
"""

import asyncio

from purgatory_async import Purgatory, PurgatoryClosed
from purgatory_async.patterns import HandOff
from purgatory_async.testing import VirtualTimeLoop

ROOM = 4
WORK_S = 1

Jobs = HandOff[str, str]


async def work(jobs: Jobs, name: str, *kinds: str) -> None:
    """Take jobs of these kinds, earlier kinds first, and do them until cancelled or shut down."""
    try:
        async for kind, job in jobs.items(*kinds):
            say(f"{name} begins {kind} {job}")
            await asyncio.sleep(WORK_S)
        say(f"{name} goes home")
    except asyncio.CancelledError:
        say(f"{name} is cancelled")
        raise


async def submit_all(jobs: Jobs, *several: tuple[str, str]) -> None:
    """Put jobs as there is room for them."""
    for number, (kind, job) in enumerate(several):
        if len(jobs) == ROOM:
            say(f"no room for {kind} {job} yet")
        try:
            await jobs.put_wait(kind, job)
        except PurgatoryClosed:
            say(f"handed in too late: {several[number:]}")
            return


async def a_day(jobs: Jobs, workers: Purgatory, tasks: asyncio.TaskGroup) -> None:
    say("five jobs, room for four, and no worker yet")
    morning = [
        ("video", "trip"),
        ("thumbnail", "cat"),
        ("thumbnail", "dog"),
        ("mail", "bill"),
        ("mail", "news"),
    ]
    tasks.create_task(submit_all(jobs, *morning))
    await asyncio.sleep(WORK_S)
    say("at work: an artist, who does thumbnails before videos, and a clerk, who does mail")
    artist = tasks.create_task(work(jobs, "the artist", "thumbnail", "video"))
    tasks.create_task(work(jobs, "the clerk", "mail"))
    await asyncio.sleep(4 * WORK_S)

    (artist_waits,) = workers.operations("thumbnail")
    tasks.create_task(work(jobs, "a colleague", "thumbnail", "video"))
    await asyncio.sleep(0)
    jobs.put("thumbnail", "owl")
    artist.cancel()
    say(f"owl is handed in; the artist's wait: {artist_waits.outcome}, and cancelled in the same moment")
    await asyncio.sleep(2 * WORK_S)

    say("a rush, and closing time half a second later")
    tasks.create_task(submit_all(jobs, *(("mail", f"offer-{number}") for number in range(1, 8))))
    await asyncio.sleep(WORK_S / 2)
    jobs.shutdown()
    say(f"not begun: {', '.join(f'{kind} {job}' for kind, job in jobs.clear())}")


def say(text: str) -> None:
    print(f"{asyncio.get_running_loop().time():4.1f} s  {text}")


async def main() -> None:
    async with Purgatory("idle workers") as workers:
        jobs: Jobs = HandOff(workers, max_items=ROOM)
        async with asyncio.TaskGroup() as tasks:
            await a_day(jobs, workers, tasks)
        say(f"left behind: {len(jobs)} jobs, {workers.pending} workers")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
