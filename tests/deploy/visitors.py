"""Clients of a service behind nginx that go on while its hosts are replaced, and note what they saw."""

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from itertools import takewhile

from purgatory_async.client import Client, Policy
from tests.deploy.tools import PATIENCE_S

AGAIN = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE}
LAST = -1  # value
PACE_S = 0.02  # between two requests of a client, so that the machine also starts hosts


class Visitors:
    """Clients in threads: they signal and read, ask and answer, until they are asked to finish.

    Args:
        address: Where nginx is.
        token: With every scope.

    Attributes:
        statuses: How often each status came, of the requests that are sent here, without the library.
        errors: What went wrong.
    """

    def __init__(self, address: str, token: str) -> None:
        self.statuses = Counter[int]()
        self.errors: list[str] = []
        self.questions = 0
        self._address, self._token = address, token
        self._finish = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self, of_each: int) -> None:
        """Start so many clients of each kind."""
        for number in range(of_each):
            for todo in (
                self._signal_once_and_read,
                self._signal_and_read,
                self._ask_and_answer,
                self._ask_for_long,
            ):
                self._begin(todo, number)

    def finish(self) -> None:
        """Let all finish what they began, and wait for them."""
        self._finish.set()
        give_up = time.monotonic() + 2 * PATIENCE_S
        for thread in self._threads:
            thread.join(max(0.0, give_up - time.monotonic()))
            if thread.is_alive():
                self.errors.append(f"{thread.name} did not finish")

    def _begin(self, todo: Callable[[int], None], number: int) -> threading.Thread:
        name = f"{todo.__name__} {number}"

        def run() -> None:
            try:
                todo(number)
            except Exception as error:  # noqa: BLE001 - it is shown
                self.errors.append(f"{name}: {error!r}")

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _signal_once_and_read(self, number: int) -> None:
        """Signals with an Idempotency-Key arrive once each, in order, however often they are sent."""
        self._signals(f"once/{number}", lambda value: {"Idempotency-Key": f"{number}-{value}"})

    def _signal_and_read(self, number: int) -> None:
        """Signals without one are sent again only after 503: they arrive once each as long as no host is killed."""
        self._signals(f"plain/{number}", lambda value: {})

    def _signals(self, key: str, fields: Callable[[int], dict[str, str]]) -> None:
        sent, lost, path = list[int](), set[int](), f"/v1/keys/{key.replace('/', '%2F')}/signal"
        reader = self._begin(lambda _: self._read(key, sent, lost), 0)
        for value in itertools.count():
            if self._finish.is_set():
                break
            sent.append(value)
            if self._send("POST", path, {"value": value}, fields(value)) == HTTPStatus.BAD_GATEWAY:
                lost.add(value)
            threading.Event().wait(PACE_S)
        assert self._send("POST", path, {"value": LAST}, {"Idempotency-Key": key}) == HTTPStatus.OK
        reader.join(PATIENCE_S)

    def _read(self, key: str, sent: list[int], lost: set[int]) -> None:
        """Read until the last; those whose answer was a 502 may be missing, none may come twice."""
        with self._client() as client:
            came = [
                signal.value
                for signal in takewhile(lambda each: each.value != LAST, client.signals(key, since=0))
            ]
        if came != (wanted := [value for value in sent if value not in lost or value in came]):
            self.errors.append(f"{key}: {wanted} were sent, {came} came")

    def _ask_and_answer(self, number: int) -> None:
        """Questions that are asked by one and answered by another get the right answer."""
        with self._client() as answerer:
            for count in itertools.count():
                if self._finish.is_set():
                    break
                later = threading.Timer(PACE_S, answerer.complete, (f"soon-{number}-{count}", count))
                self._ask(f"soon-{number}-{count}", count, later)

    def _ask_for_long(self, number: int) -> None:
        """One that is held all the time, and polled again whenever its host goes."""
        with self._client() as answerer:
            self._ask(
                f"late-{number}",
                number,
                self._begin_late(lambda: answerer.complete(f"late-{number}", number)),
            )

    def _begin_late(self, todo: Callable[[], object]) -> threading.Thread:
        return threading.Thread(target=lambda: self._finish.wait() and todo(), daemon=True)

    def _ask(self, name: str, result: object, answering: threading.Thread) -> None:
        with self._client() as asker:
            asker.attach(name, timeout="10m", keep="10m", data=name)
            answering.start()
            ended = asker.follow(name)
            answering.join(PATIENCE_S)
        if (ended.state, ended.result) != ("completed", result):
            self.errors.append(f"{name}: {ended}")
        with self._lock:
            self.questions += 1

    def _send(self, method: str, path: str, body: object, fields: dict[str, str]) -> int:
        """Send a request until its answer is not 503; one with a key also after 502. Returns the status."""
        give_up = time.monotonic() + PATIENCE_S
        host, _, port = self._address.removeprefix("http://").partition(":")
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}", **fields}
        while True:
            with closing(http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)) as connection:
                connection.request(method, path, json.dumps(body), headers)
                status = connection.getresponse().status
            with self._lock:
                self.statuses[status] += 1
            again = AGAIN if fields else AGAIN - {HTTPStatus.BAD_GATEWAY}
            if status not in again or time.monotonic() > give_up:
                return status
            threading.Event().wait(PACE_S)

    def _client(self) -> Client:
        return Client(self._address, token=self._token, policy=Policy(patience=PATIENCE_S))
