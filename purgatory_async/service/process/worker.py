"""One worker of a supervisor: a whole server on inherited sockets.

Run as ``python -m purgatory_async.service.process.worker CHANNEL SOCKET...``, with the descriptors of its end of the
channel and of the listening sockets. The settings come through the channel: other users can read a process's arguments.
"""

import logging
import signal
import socket
import sys
from typing import TYPE_CHECKING, cast

import anyio

from purgatory_async.clock import MonotonicClock
from purgatory_async.durable.on_log import OnLog
from purgatory_async.service.access.rates import Rates, SharedTimes
from purgatory_async.service.api.admin import answer_peer
from purgatory_async.service.channel import (
    Answer,
    Ask,
    Channel,
    Epoch,
    Forwarded,
    Ready,
    Refused,
    Serving,
    Start,
)
from purgatory_async.service.logs import stderr_log
from purgatory_async.service.process.listeners import Listeners
from purgatory_async.service.process.server import (
    DAMAGED,
    DAMAGES,
    REFUSALS,
    REFUSED,
    Server,
    calm_collector,
    run_on_uvloop,
)
from purgatory_async.service.settings.settings import Settings

if TYPE_CHECKING:
    from purgatory_async.durable.state import Answer as StateAnswer


async def _work(channel: Channel, listeners: Listeners) -> int:
    """Serve until the supervisor forwards a signal or is gone; return the exit code."""
    start = await channel.receive()
    if not isinstance(start, Start):
        return 0  # the supervisor is gone
    code, reason = 0, ""
    try:
        await _serve(start, channel, listeners)
    except REFUSALS as error:
        code, reason = REFUSED, str(error)
    except DAMAGES as error:
        code, reason = DAMAGED, str(error)
    if code:
        channel.send(Refused(reason))
    await channel.aclose()
    return code


async def _serve(start: Start, channel: Channel, listeners: Listeners) -> None:
    server = Server(Settings(**start.settings), listeners, stderr_log(worker=start.number))
    if start.rates is not None:
        server.app.rates = Rates(MonotonicClock.time_ns, SharedTimes(start.rates))
    service = server.app.service
    service.peers.join(start.number, channel.send, start.serving)
    state = service.state
    if isinstance(state, OnLog):
        cast("OnLog[StateAnswer]", state).take_over(start.epoch, lambda epoch: channel.send(Epoch(epoch)))
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:

        def _announce(_: str) -> None:
            # Not before: what is forwarded needs a server that runs.
            tasks.start_soon(_listen, server, channel)
            channel.send(Ready())

        try:
            await server.run(_announce)
        except (*REFUSALS, *DAMAGES) as error:
            failure = error  # from inside it would come out in a group
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _listen(server: Server, channel: Channel) -> None:
    """Take what the supervisor and, through it, the other workers send."""
    service = server.app.service
    while (message := await channel.receive()) is not None:
        match message:
            case Serving() | Answer():
                service.peers.note(message)
            case Ask(what, worker, number):
                body = answer_peer(service, what)
                channel.send(Answer(worker, number, service.peers.number or 0, body))
            case Forwarded(number, repeated):
                server.obey(signal.Signals(number), repeated=repeated)
            case _:
                pass  # for the supervisor
    server.abandon()


def main() -> None:
    """Run a worker; the arguments are descriptors.

    Raises:
        SystemExit: Always: 0 stopped, 2 its start was refused, 3 its state is damaged.
    """
    descriptors = [int(argument) for argument in sys.argv[1:]]
    ours, *listening = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    for sock in (ours, *listening):
        sock.set_inheritable(False)
    logging.captureWarnings(True)
    calm_collector()
    codes: list[int] = []

    async def _main() -> None:
        codes.append(await _work(await Channel.over(ours), Listeners(listening)))

    run_on_uvloop(_main)
    sys.exit(codes[0])


if __name__ == "__main__":
    main()
