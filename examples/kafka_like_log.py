"""What a Kafka broker keeps in its purgatory, over one small log: produce, fetch and join group.

Two followers copy from a leader. The high watermark is how far all three have got, and so how far consumers
may read. It runs on virtual time, where Kafka's timeouts take no time; `asyncio.run` does the same in real
time. It stores nothing, elects no leader, and never drops an absent follower.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from purgatory_async import DelayedOperation, Purgatory, PurgatoryClosed
from purgatory_async.patterns import Barrier, Quorum, Watermark
from purgatory_async.testing import VirtualTimeLoop

REPLICAS = ("leader", "follower-1", "follower-2")
NETWORK_S = 0.02


class DelayedFetch(DelayedOperation[list[str]]):
    """Records once they have ``min_bytes``; on expiry, those that exist."""

    def __init__(self, read: Callable[[], list[str]], min_bytes: int, max_wait: float) -> None:
        super().__init__(max_wait)
        self.read = read
        self.min_bytes = min_bytes

    def try_complete(self) -> bool:
        """Checked first, and whenever the high watermark has moved."""
        return sum(map(len, self.read())) >= self.min_bytes and self.force_complete()

    def on_complete(self) -> None:
        """Runs on expiry too."""
        self.result = self.read()


@dataclass
class Log:
    """The leader's records, each replica's progress, and the requests that wait for it."""

    waiting: Purgatory
    end: Watermark  # followers wait here for records to copy
    high: Watermark  # consumers read up to here
    records: list[str] = field(default_factory=list)
    copied: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REPLICAS, 0))

    async def produce(self, record: str, timeout: float = 30) -> Quorum[str]:
        """Append a record, and wait until every replica has it: ``acks=all``."""
        acks = Quorum(len(REPLICAS), of=REPLICAS, timeout=timeout)
        acks.vote("leader")  # counts before the first watch
        self.records.append(record)
        self.replicated("leader", self.end.value + 1)
        self.end.advance(self.end.value + 1)
        await self.waiting.run(acks, [("acks", len(self.records) - 1)])
        return acks

    async def follow(self, replica: str) -> None:
        """Copy from the leader until its log closes."""
        with suppress(PurgatoryClosed):  # no more records come
            while True:
                end = await self.end.reach(self.copied[replica] + 1)
                await asyncio.sleep(NETWORK_S)
                self.replicated(replica, end)

    def replicated(self, replica: str, end: int) -> None:
        """Count a replica's vote for each record up to ``end``, and wake fetches."""
        for offset in range(self.copied[replica], end):
            for acks in self.waiting.operations(("acks", offset)):
                if isinstance(acks, Quorum):
                    acks.vote(replica)
        self.copied[replica] = end
        self.high.advance(min(self.copied.values()))
        self.waiting.check_and_complete("fetch")

    def committed(self, offset: int) -> list[str]:
        """The records that a consumer may read from an offset on."""
        return self.records[offset : self.high.value]

    async def fetch(self, offset: int, min_bytes: int, max_wait: float = 0.5) -> list[str]:
        """Wait for ``min_bytes`` from an offset on, at most ``max_wait`` seconds."""
        fetch = DelayedFetch(lambda: self.committed(offset), min_bytes, max_wait)
        await self.waiting.run(fetch, ["fetch"])
        return fetch.result or []


async def produce_and_fetch(log: Log, followers: asyncio.TaskGroup) -> None:
    followers.create_task(log.follow("follower-1"))
    follower_2 = followers.create_task(log.follow("follower-2"))
    acks = await log.produce("apple")
    say(f"produce apple: {acks.outcome}, acked by {names(acks.votes)}")

    fetch = followers.create_task(log.fetch(0, min_bytes=12))
    await log.produce("banana")
    committed = sum(map(len, log.committed(0)))
    say(f"{committed} bytes are committed, the fetch of 12 {'is done' if fetch.done() else 'still waits'}")
    await log.produce("cherry")
    say(f"fetch of 12 bytes: {names(await fetch)}")
    say(f"fetch of 99 bytes: {names(await log.fetch(0, min_bytes=99))}, because max wait is over")

    follower_2.cancel()
    acks = await log.produce("damson")
    say(f"produce damson: {acks.outcome}, acked by {names(acks.votes)}, not by {names(acks.missing or ())}")
    say(f"of {len(log.records)} records in the log a consumer reads {names(log.committed(0))}")
    followers.create_task(log.follow("follower-2"))
    await log.high.reach(len(log.records), timeout=30)
    say(f"follower-2 is back, and a consumer reads {names(log.committed(0))}")
    log.end.close()


async def join_group(waiting: Purgatory) -> None:
    group: Barrier[str] = Barrier(waiting, "group", expect=3, timeout=60, initial_delay=3)
    await rebalance(group, "ann", "bob", "cleo")
    say("ann has left")
    await rebalance(group, "bob", "cleo")


async def rebalance(group: Barrier[str], *members: str) -> None:
    one, *others = await asyncio.gather(*map(group.arrive, members))
    agreed = "all agree" if all(other is one for other in others) else "they disagree"
    say(f"generation {one.number}: {names(one.members)}; complete: {one.complete}; {agreed}")


def say(text: str) -> None:
    print(f"{asyncio.get_running_loop().time():6.2f} s  {text}")


def names(each: Iterable[str]) -> str:
    return " ".join(sorted(each))


async def main() -> None:
    async with Purgatory("broker") as waiting, Watermark() as end, Watermark() as high:
        async with asyncio.TaskGroup() as followers:
            await produce_and_fetch(Log(waiting, end, high), followers)
        await join_group(waiting)
        say(f"left behind: {waiting.pending} operations, {end.waiting + high.waiting} at the watermarks")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
