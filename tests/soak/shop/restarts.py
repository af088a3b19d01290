"""What happens to the shop's processes meanwhile: workers that are replaced and killed, mailers, cashiers."""

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from itertools import count

from tests.processes import PATIENCE_S

EACH_S = 1.0
LEAVING_S = 60  # of a worker that was asked to leave


class Crew:
    """The processes of a shop.

    Args:
        shop: A `Shop`, whose application runs.

    Attributes:
        counts: How many processes were ended, by kind and signal.
        outputs: Where the mailers printed.
        killed_mailers: The outputs of the mailers that were killed.
    """

    def __init__(self, shop):
        self.counts, self.outputs, self.killed_mailers = Counter(), [], set()
        self._shop, self._names = shop, count(1)
        self._mailers = [self._mailer() for _ in range(2)]
        self._cashier, self._turn = None, asyncio.Lock()

    def _mailer(self):
        output = self._shop.folder / f"mails-{next(self._names)}"
        self.outputs.append(output)
        with output.open("w") as stream:
            return self._shop.start("python mailer.py", stdout=stream), output

    async def transfer(self, order, price):
        """Pay by a line of the bank's statement, which a cashier that was killed reads again."""
        async with self._turn:
            while True:
                if self._cashier is None:
                    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
                    self._cashier = await asyncio.create_subprocess_exec(
                        *self._shop.words("python cashier.py"), **self._shop.options, **pipes
                    )
                with suppress(ConnectionError):
                    self._cashier.stdin.write(f"{order} {price}\n".encode())
                    if answer := await self._cashier.stdout.readline():
                        assert answer.decode() == f"{order} paid\n"
                        return
                assert await self._cashier.wait() == -signal.SIGKILL
                self._cashier = None

    async def restart(self, books):
        """Without end: replace a worker each second, and a cashier and a mailer now and then.

        Where workers take long to start, they get the time: only after an answer another one is ended.
        """
        leaving, answered = {}, -1
        for number in count(1):
            await asyncio.sleep(EACH_S)
            workers = self._shop.workers
            leaving = {worker: since for worker, since in leaving.items() if worker in workers}
            slow = [worker for worker, since in leaving.items() if number - since > LEAVING_S]
            assert not slow, f"the workers {slow} have not left within {LEAVING_S} s"
            others = [worker for worker in workers if worker not in leaving]
            if others and books.answered > answered:
                answered = books.answered
                killed = not number % 3
                self._end("workers", others[0], signal.SIGKILL if killed else signal.SIGTERM)
                leaving[others[0]] = number
            if not number % 4 and self._cashier is not None:
                self._end("cashiers", self._cashier.pid)
            if not number % 2:
                await self._replace_mailer(kill=not number % 6)

    def _end(self, kind, process, by=signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(process, by)
            self.counts[kind, by] += 1

    async def _replace_mailer(self, *, kill):
        mailer, output = self._mailers.pop(0)
        self._end("mailers", mailer.pid, signal.SIGKILL if kill else signal.SIGTERM)
        if kill:
            self.killed_mailers.add(output)
        code = await asyncio.to_thread(mailer.wait, PATIENCE_S)
        # One that had not begun to work has died of the signal.
        assert code in ({-signal.SIGKILL} if kill else {0, -signal.SIGTERM}), (code, output)
        self._mailers.append(self._mailer())

    def close(self):
        """Kill what still runs."""
        for mailer, _ in self._mailers:
            mailer.kill()
            mailer.wait()
        if self._cashier is not None:
            with suppress(ProcessLookupError):
                self._cashier.kill()
