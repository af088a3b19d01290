"""Read a log in a test."""

from contextlib import aclosing


async def read(log, until, after=0):
    """The entries after one position up to another."""
    return [entry for entries in await reads(log, until, after) for entry in entries]


async def reads(log, until, after=0):
    taken = []
    async with aclosing(log.follow(after)) as stream:
        while after < until:
            taken.append(list(await anext(stream)))
            after = taken[-1][-1].position
    return taken


async def drained(stream):
    async for _ in stream:
        pass


async def each(parts):
    for part in parts:
        yield part


async def saved(log, below=None):
    checkpoint = await log.load(below=below)
    return checkpoint and (checkpoint.position, [part async for part in checkpoint.parts])


def positions(entries):
    return [entry.position for entry in entries]
