"""Streams of events under way."""

import asyncio

from purgatory_async.testing import settle
from tests.web.exchange import Stream
from tests.web.turns import end_of

PATIENCE = 60  # seconds for a signal to be heard


async def begun(source, **request):
    stream = Stream(source, **request).start()
    await settle()
    assert stream.started
    return stream


async def ended(source, **request):
    stream = await begun(source, **request)
    await end_of(stream.task)
    assert stream.answered
    return stream


async def hung_up(stream):
    stream.hang_up()
    await end_of(stream.task)


async def items(*values):
    for value in values:
        yield value


async def over(streams):
    """Wait, really: how many turns a loop takes to hear of a signal is its own affair."""
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(stream.task for stream in streams))
