"""An application in a process of its own, with a `Durable`: it calls the verbs that its input names, one a line.

Started as ``python -m tests.durable.library.application STORE SETTINGS``; `Application` drives it.
"""

import asyncio
import dataclasses
import itertools
import json
import signal
import sys
import threading
from concurrent.futures import Future

from purgatory_async.client import RequestRefused
from purgatory_async.durable import Durable
from purgatory_async.durable.fold.checkpoint import digest
from tests.processes import PATIENCE_S, python

MODULE = "tests.durable.library.application"


class Application:
    """A process, and the calls that it is to make; as a context manager it is killed at the end.

    Args:
        store: The URL of its store.
        settings: The arguments of its `Durable`.
    """

    def __init__(self, store, **settings):
        self.process = python("-m", MODULE, store, json.dumps(settings), stdin=-1)
        self._calls = {}
        self._numbers = itertools.count(1)
        self._opened = self._calls[0] = Future()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def ready(self):
        """Wait until it has opened its store."""
        self._opened.result(PATIENCE_S)
        return self

    def start(self, verb, *arguments, **options):
        """Start a call; returns the future of what it gives: documents are dictionaries, refusals lists."""
        number = next(self._numbers)
        called = self._calls[number] = Future()
        self.process.stdin.write(json.dumps([number, verb, arguments, options]) + "\n")
        self.process.stdin.flush()
        return called

    def call(self, verb, *arguments, **options):
        """Call a verb, and return what it gives."""
        return self.start(verb, *arguments, **options).result(PATIENCE_S)

    def kill(self):
        """End it with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait(PATIENCE_S) == -signal.SIGKILL

    def leave(self):
        """Let it leave its store and end; returns what it has logged."""
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0
        self._reader.join(PATIENCE_S)
        return self.process.stderr.read()

    def _read(self):
        for line in self.process.stdout:
            number, given = json.loads(line)
            self._calls.pop(number).set_result(given)


async def _serve(store, settings):
    lines, calls = asyncio.Queue(), set()
    loop = asyncio.get_running_loop()

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, json.loads(line))
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    async with Durable(store, **settings) as durable:
        _say(0, "open")
        while (line := await lines.get()) is not None:
            call = asyncio.create_task(_call(durable, *line))
            calls.add(call)
            call.add_done_callback(calls.discard)
    await asyncio.gather(*calls)


async def _call(durable, number, verb, arguments, options):
    try:
        if verb == "digest":
            await durable.caught_up()
            given = [durable.epoch, durable.position, digest(durable._open.keeper.fold)]
        else:
            given = getattr(durable, verb)(*arguments, **options)
            given = [each async for each in given] if hasattr(given, "__aiter__") else await given
    except RequestRefused as refused:
        given = ["refused", refused.status, refused.slug]
    except Exception as error:  # noqa: BLE001 - the test judges
        given = ["raised", type(error).__name__]
    _say(number, given)


def _say(number, given):
    sys.stdout.write(json.dumps([number, given], default=dataclasses.asdict) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], json.loads(sys.argv[2])))
