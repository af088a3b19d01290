"""A wait that outlasts restarts of the service."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import click

from purgatory_async.client import Client, Operation, RequestRefused, ServiceError, ServiceUnreachable
from purgatory_async.client._verbs import new_id

__all__ = ["wait_through_restarts"]

PAUSE: Final = (
    1.0  # seconds between two tries, beside the client's own: balanced over two services, each forgets
)

_AWAY: Final = 503


def wait_through_restarts(
    client: Client, keys: Sequence[str], *, need: object, timeout: float | None
) -> Operation:
    """Submit an operation and wait until it has ended, also where the service restarts meanwhile.

    A service that has forgotten the operation gets it again, with what is left of the timeout. Each restart is one
    line on standard error. Interrupted, it cancels the operation.

    Args:
        client: Of the service.
        keys: What the operation watches.
        need: As for `Client.wait`.
        timeout: Seconds until it expires; None for as long as it takes.

    Returns:
        The operation, ended.

    Raises:
        RequestRefused, ServiceUnreachable: As `Client.wait`, before it is submitted or when the timeout is over.
    """
    operation_id = new_id()
    try:
        return _wait(client, operation_id, keys, need, timeout)
    except BaseException:
        with suppress(ServiceError):
            client._run(client._verbs.give_up(operation_id))
        raise


def _wait(
    client: Client, operation_id: str, keys: Sequence[str], need: object, timeout: float | None
) -> Operation:
    began, left = time.monotonic(), timeout
    operation: Operation | None = None
    missing = said = False
    while True:
        try:
            if missing or operation is None:
                missing = False  # if the answer is lost, the next look tells
                operation = client.submit(keys, need=need, timeout=left, operation_id=operation_id)
                said = False
            return client.follow(operation_id) if operation.pending else operation
        except (RequestRefused, ServiceUnreachable) as error:
            status, slug = (error.status, error.slug) if isinstance(error, RequestRefused) else (_AWAY, "")
            missing = slug == "unknown-operation"
            if operation is None or not (missing or (status == _AWAY and left != 0)):
                raise
            if not said:
                click.echo("purgatory: the service is restarting; still waiting", err=True)
                said = True
            time.sleep(PAUSE if left is None else min(PAUSE, left))
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
