"""The connection between the supervisor and a worker: how it ends."""

import socket

import pytest

from purgatory_async.service.channel import Channel, Ready

pytestmark = pytest.mark.asyncio


async def test_a_process_that_left_messages_unread_is_an_end():
    ours, theirs = socket.socketpair()
    channel = await Channel.over(ours)
    channel.send(Ready())
    theirs.close()  # as a kill does: a reset, since something is unread
    assert await channel.receive() is None
    channel.send(Ready())  # is dropped
    await channel.aclose()
