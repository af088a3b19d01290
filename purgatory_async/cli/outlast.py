"""Waits that outlast restarts of the service."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import click

from purgatory_async.client import (
    Client,
    KeyState,
    Operation,
    RequestRefused,
    ServiceError,
    ServiceUnreachable,
)
from purgatory_async.client.values import new_id
from purgatory_async.clock import monotonic

# Seconds between tries, in addition to the client's own: a balancer may alternate two services.
PAUSE: Final = 1.0

_AWAY: Final = 503


class _Outages:
    """The outages during one wait, and what is left of its timeout.

    Args:
        timeout: Seconds; None for as long as it takes.
    """

    def __init__(self, timeout: float | None) -> None:
        self._began = monotonic()
        self._timeout = self.left = timeout
        self._said = False

    def over(self) -> None:
        """The service answers again; the next outage is said anew."""
        self._said = False

    def pause(self) -> None:
        """Say once an outage that the service restarts, and wait a moment."""
        if not self._said:
            click.echo("purgatory: the service is restarting; still waiting", err=True)
            self._said = True
        time.sleep(PAUSE if self.left is None else min(PAUSE, self.left))
        if self._timeout is not None:
            self.left = max(0.0, self._timeout - (monotonic() - self._began))


def _is_away(error: ServiceError) -> bool:
    """Whether an error is one of a service that stops, is gone or starts."""
    return isinstance(error, ServiceUnreachable) or getattr(error, "status", None) == _AWAY


def wait_through_restarts(
    client: Client, keys: Sequence[str], *, need: object, timeout: float | None
) -> Operation:
    """Submit an operation and wait until it has ended, across restarts of the service.

    A restarted service gets the operation again, with the rest of the timeout. Each restart prints one line on
    standard error. Interrupted, it cancels the operation.

    Args:
        client: A client of the service.
        keys: Keys to watch.
        need: As for `Client.wait`.
        timeout: Seconds until the operation expires; None for never.

    Returns:
        The ended operation.

    Raises:
        RequestRefused, ServiceUnreachable: As `Client.wait`, before the submission or after the timeout.
    """
    operation_id = new_id()

    def _submit(left: float | None) -> Operation:
        """Submit it with the rest of the timeout."""
        return client.submit(keys, need=need, timeout=left, operation_id=operation_id)

    try:
        return follow_through_restarts(client, _submit, timeout=timeout)
    except BaseException:
        with suppress(ServiceError):
            client._run(client._verbs.give_up(operation_id))
        raise


def follow_through_restarts(
    client: Client, submit: Callable[[float | None], Operation], *, timeout: float | None = None
) -> Operation:
    """Submit an operation and wait until it has ended, across restarts of the service; each prints one line.

    Args:
        client: A client of the service.
        submit: Submits the operation, again after a restart that lost it; gets what is left of the timeout.
        timeout: How long to wait through outages, in seconds; None for as long as it takes.

    Returns:
        The ended operation.

    Raises:
        RequestRefused, ServiceUnreachable: As `Client.follow`, before the submission or after the timeout.
    """
    outages = _Outages(timeout)
    operation: Operation | None = None
    missing = False
    while True:
        try:
            if missing or operation is None:
                missing = False  # if the answer is lost, the next request finds out
                operation = submit(outages.left)
                outages.over()
            return client.follow(operation.id) if operation.pending else operation
        except (RequestRefused, ServiceUnreachable) as error:
            missing = isinstance(error, RequestRefused) and error.slug == "unknown-operation"
            if operation is None or not (missing or (_is_away(error) and outages.left != 0)):
                raise
            outages.pause()


def watch_through_restarts(client: Client, key: str, index: int, *, timeout: float | None) -> KeyState | None:
    """Wait until a key has a signal above an index, also where the service restarts meanwhile.

    Args:
        client: A client of the service.
        key: Which.
        index: As for `Client.watch`; one above the newest index is answered at once.
        timeout: Seconds; None for as long as it takes.

    Returns:
        The newest signal; None if there was none in time.

    Raises:
        RequestRefused, ServiceUnreachable: As `Client.watch`, before the first answer or when the timeout is over.
    """
    state = client.watch(key, index, timeout=0)
    if state is not None or timeout == 0:
        return state
    outages = _Outages(timeout)
    while True:
        try:
            return client.watch(key, index, timeout=outages.left)
        except (RequestRefused, ServiceUnreachable) as error:
            if not _is_away(error) or outages.left == 0:
                raise
            outages.pause()
