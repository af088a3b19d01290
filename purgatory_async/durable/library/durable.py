"""`Durable`: operations, signals and queues that outlive this process, in the application's own store."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, cast

from purgatory_async import PurgatoryClosed, PurgatoryError, PurgatoryFull, Timer
from purgatory_async.client._async_verbs import AsyncVerbs
from purgatory_async.client._backend import Backend
from purgatory_async.client._bodies import asked
from purgatory_async.client._model import Operation
from purgatory_async.client.values import UNSET
from purgatory_async.clock import MAX_TIMEOUT
from purgatory_async.cluster import Log, LogDamaged, LogError
from purgatory_async.durable.backing import Backing, as_on_log, keep
from purgatory_async.durable.checkpoints.checkpointer import RETRY_S, Checkpointer
from purgatory_async.durable.documents.asks import check_by
from purgatory_async.durable.documents.messages import MAX_BY
from purgatory_async.durable.documents.problems import Problem
from purgatory_async.durable.fold.entries import SetLimits
from purgatory_async.durable.fold.shared import Limits, microseconds
from purgatory_async.durable.library.asking import Caller
from purgatory_async.durable.library.backend import InProcess
from purgatory_async.durable.library.waits import LocalWaits
from purgatory_async.durable.links.link import Signer, random_signer
from purgatory_async.durable.links.links import Links
from purgatory_async.durable.links.public_url import public_url as parsed_public_url
from purgatory_async.durable.links.secrets_file import read_secrets
from purgatory_async.durable.store_url import IN_MEMORY
from purgatory_async.durable.tracing import Telemetry, check_telemetry
from purgatory_async.durable.urls import Store, parsed
from purgatory_async.durable.verbs.keeper import Keeper, utc_now
from purgatory_async.durations import Duration, as_seconds
from purgatory_async.errors import check_limit, refuse_number
from purgatory_async.events import Observer

LEAVING_S: Final = 1.0
"""How long leaving waits for the store to take what ended calls leave there."""
_LOGGER: Final = logging.getLogger(__name__)


class Durable(AsyncVerbs):
    """The verbs of `AsyncClient` without a service: the state is in this process, and its log in a store of yours.

    Any number of processes, services among them, may open one store: they have one state, in one order. An answer that
    is given in one of them wakes a wait in another within one read of the log. Opened by ``async with``, once, on the
    loop that uses it; a store that is away is awaited, and the log of the process says so once. While it is away later,
    reads and changes raise `RequestRefused` with the slug ``store-unavailable`` after 5 s; waits wait, as does `ask`.
    A log that is damaged ends all waits with that refusal, and is logged once: nothing goes on here. Leaving ends the
    calls of this process with `PurgatoryClosed`; the store keeps what is pending. Methods, results and refusals are
    those of the clients, see `purgatory_async.client.Client`.

    Args:
        store: ``sqlite:///PATH``, ``postgresql://HOST/DATABASE``, ``redis://HOST:PORT/0``, ``memory:``, or a log of
            `purgatory_async.cluster` that is not open. Such a log can be opened only once, so it is not awaited if its
            engine is away, and this process saves no checkpoints of it.
        retention: How long ended operations and their ids are kept: seconds, a `timedelta`, or text such as ``10m``.
        max_pending: The most pending operations.
        max_bytes: The most bytes of all that is kept.
        owner: Owns what this process makes, and answers by this name; None for no name.
        public_url: The URL of a service on the same store, below which people open links; None for no links.
        link_secret: The file of secrets that signs links, the same as the service's.
        checkpoints: Whether this process may save checkpoints, in a process of its own, as each process on the store
            does: one of them after each 100 000 entries. Without any, the store grows, and opening takes longer.
        observer: Gets the events of the operations.
        telemetry: Makes traces, such as `purgatory_async.otel.Traces`; None makes none, and costs nothing.

    A limit that is not given stays as it is in the store; a new store begins with what the service begins with.

    Raises:
        TypeError: The store is neither text nor a log, or ``telemetry`` is none.
        ValueError: The store cannot be one, or a setting is out of its bounds.

    Example:
        >>> async def main():
        ...     async with Durable("memory:") as durable:
        ...         await durable.attach("deploy-7", ask={"title": "Deploy?", "choices": ["yes", "no"]})
        ...         await durable.answer("deploy-7", "yes", by="ann")
        ...         return await durable.ask("deploy-7", "Deploy?", choices=["yes", "no"], keep=None)
        >>> asyncio.run(main()).choice
        'yes'
    """

    def __init__(
        self,
        store: str | Log,
        *,
        retention: Duration | None = None,
        max_pending: int | None = None,
        max_bytes: int | None = None,
        owner: str | None = None,
        public_url: str | None = None,
        link_secret: str | os.PathLike[str] | None = None,
        checkpoints: bool = True,
        observer: Observer | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        check_telemetry(telemetry)
        self._backing: Final = replace(
            _backing(store, retention, max_pending, max_bytes), telemetry=telemetry
        )
        self._caller: Final = Caller(_checked_owner(owner))
        self._links: Final = _links(public_url, link_secret, in_memory=self._backing.in_memory)
        self._checkpoints: Final = checkpoints
        self._observer: Final = observer
        self._open: _Open | None = None
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "not open" if self._open is None else f"at {self.position}"
        return f"<Durable {self._shown} {state}>"

    @property
    def _shown(self) -> str:
        """The store, without its password."""
        store = self._backing.store
        return store.shown if isinstance(store, Store) else str(store or "memory:")

    async def __aenter__(self) -> Self:
        """Open the store, and load the state.

        Raises:
            PurgatoryError: It was opened before.
            LogRefused: The engine's settings rule it out.
            LogDamaged, FoldError: The log cannot be applied.
            LogUnavailable: A log that was given is away.
        """
        if self._open is not None:
            raise PurgatoryError(f"{self!r} was entered before: make another one")
        self._open = opened = _Open(self)
        try:
            await opened.load()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the calls of this process, and close the store, which keeps what is pending. Idempotent.

        To cancel this cuts nothing short. In a forked child it does nothing.
        """
        opened = self._open
        if opened is not None and opened.pid == os.getpid():
            opened.check_loop()
            self._closed = True
            await opened.aclose()

    async def wait(
        self, *keys: str, need: object = "any", timeout: Duration | None = None, data: object = UNSET
    ) -> Operation:
        """Submit an operation and wait until it ends; an exception on the way cancels it. See `Client.wait`."""
        if timeout is None and len(keys) > 1:
            refuse_number(keys)
        return await self._opened.backend.wait(asked(keys, need, timeout, data))

    @property
    def _backend(self) -> Backend:
        """What carries out the verbs, if this is the process and the loop that opened it."""
        return cast("Backend", self._opened.backend)

    @property
    def _opened(self) -> "_Open":
        opened = self._open
        if opened is None:
            raise PurgatoryError(f"{self!r} must be entered by async with before its verbs are called")
        if self._closed:
            raise PurgatoryClosed(f"{self!r} cannot be used any more: make another one")
        if opened.pid != os.getpid():
            raise PurgatoryError(
                f"{self!r} was opened in process {opened.pid} and used in {os.getpid()}: open one after the fork"
            )
        opened.check_loop()
        return opened

    async def caught_up(self, position: int | None = None, *, timeout: Duration | None = None) -> None:
        """Wait until this process has applied all that was answered anywhere, or a position.

        Args:
            position: What another process has answered with; None for all that is in the store now.
            timeout: How long to wait for the position; None for ever.

        Raises:
            OperationExpired: The position was not reached in time.
            RequestRefused: ``store-unavailable``: the store is away, without a position; with one it is awaited.
        """
        await self._opened.backend.caught_up(position, timeout)

    @property
    def connected(self) -> bool:
        """Whether the state is loaded, and its store answers and takes changes, as of the last 5 s."""
        return self._open is not None and not self._closed and self._open.keeper.state.connected

    @property
    def lag(self) -> float:
        """Seconds since this process had applied all that it knew of; 0.0 if it has."""
        return 0.0 if self._open is None else self._open.keeper.state.lag

    @property
    def position(self) -> int:
        """The newest position that this process has applied; 0 before it is open."""
        return 0 if self._open is None else self._open.keeper.fold.position

    @property
    def epoch(self) -> str:
        """Names the history that positions and indexes belong to; empty before it is open."""
        return "" if self._open is None else self._open.keeper.state.epoch


class _Keeper(Keeper):
    """The keeper of one process whose calls wait for themselves."""

    waits_here: LocalWaits

    def _look_again(self, *, lost: bool) -> None:
        self.waits_here.look_again(lost=lost)


class _Open:
    """An open state, and the task that keeps it up to date."""

    def __init__(self, owner: Durable) -> None:
        self.pid: Final = os.getpid()
        self.loop: Final = asyncio.get_running_loop()
        self._owner: Final = owner
        self._failure: str | None = None
        backing = owner._backing
        self.keeper: Final = _Keeper(backing, Timer(), utc_now())
        self.waits: Final = LocalWaits(self.keeper, self._why_closed)
        self.keeper.waits_here = self.waits
        observers = () if owner._observer is None else (owner._observer,)
        self.keeper.hearers = (self.waits.keys, self.waits.feed, *observers)
        self.keeper.follow(self.keeper.fold)
        self.backend: Final = InProcess(self.keeper, owner._caller, self.waits, owner._links)
        self._loaded: Final[asyncio.Future[None]] = self.loop.create_future()
        saving = _Saving(f"<Durable {owner._shown}>") if owner._checkpoints else None
        loaded = partial(self._loaded.set_result, None)
        self._task: Final = self.loop.create_task(
            keep(backing, self.keeper.state, loaded, saving), name="purgatory-durable"
        )
        self._task.add_done_callback(self._ended)
        self._closing: asyncio.Task[None] | None = None

    def check_loop(self) -> None:
        """Check that the running loop is the one that opened the state; `PurgatoryError` if not."""
        if asyncio.get_running_loop() is not self.loop:
            raise PurgatoryError(f"{self._owner!r} was opened on another loop: open one on this loop, too")

    async def load(self) -> None:
        """Return once the state is loaded; raises what ends the attempt."""
        await asyncio.wait({self._loaded, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not self._loaded.done():
            self._task.result()

    async def aclose(self) -> None:
        """End the waits, then the state, also if the caller is cancelled meanwhile."""
        self.waits.close()
        if self._closing is None:
            self._closing = self.loop.create_task(self._close())
        cancelled = None
        while not self._closing.done():
            try:
                await asyncio.wait({self._closing})
            except asyncio.CancelledError as error:
                cancelled = error
        self._closing.result()
        if cancelled is not None:
            raise cancelled

    async def _close(self) -> None:
        if not self._loaded.done():
            self._task.cancel()
            await asyncio.wait({self._task})
        try:
            await self._append_rest()
            await self.keeper.aclose()
        finally:
            await asyncio.wait({self._task})  # what it raises was raised, or reported when it came

    async def _append_rest(self) -> None:
        """Append what ended calls leave behind, if the store answers soon: places in line, operations of waits.

        Without it an item would be leased to a taker that is gone, and a cancelled wait's operation stay pending.
        """
        state = as_on_log(self.keeper.state)
        if state is not None and state.connected:
            with suppress(TimeoutError, LogError, PurgatoryFull):
                async with asyncio.timeout(LEAVING_S):
                    await self.waits.takers.gone()
                    await state.proposals.flushed()

    def _why_closed(self) -> LogError | PurgatoryClosed:
        """Make the reason, a new one for each wait: with each raise its traceback grows."""
        if self._failure is not None:
            return LogError(self._failure)
        return PurgatoryClosed(f"{self._owner!r} was left: its calls end")

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """End all waits if the state cannot be kept any more."""
        error = None if task.cancelled() else task.exception()
        if error is None or not self._loaded.done() or self._owner._closed:
            return
        # What is stored at a damaged entry is for the log of the process only.
        at = error.position if isinstance(error, LogDamaged) else None
        why = error if at is None else f"its log is damaged at entry {at}"
        self._failure = f"{self._owner!r} cannot be kept up to date: {why}"
        _LOGGER.error("%r cannot be kept up to date: %s", self._owner, error)
        self.waits.close()


class _Saving:
    """Reports checkpoints that were not saved."""

    def __init__(self, shown: str) -> None:
        self._shown: Final = shown

    def begun(self, checkpointer: Checkpointer) -> None:
        """Do nothing."""

    def failed(self, reason: str) -> None:
        """Log the reason."""
        _LOGGER.error("%s: a checkpoint was not saved, next try in %g s: %s", self._shown, RETRY_S, reason)


def _backing(
    store: str | Log, retention: Duration | None, max_pending: int | None, max_bytes: int | None
) -> Backing:
    given: dict[str, Any] = {}
    where: Store | Log | None
    if retention is not None:
        seconds = as_seconds("retention", retention)
        if not 0 <= seconds <= MAX_TIMEOUT:
            raise ValueError(f"retention must be from 0 to {MAX_TIMEOUT:g} seconds, got {retention!r}")
        given["retention_us"] = microseconds(seconds)
    for name, field, limit in (
        ("max_pending", "max_pending", max_pending),
        ("max_bytes", "max_kept", max_bytes),
    ):
        if (checked := check_limit(name, limit)) is not None:
            given[field] = checked
    if isinstance(store, str):
        where = None if store in IN_MEMORY else parsed(store)
    elif isinstance(store, Log):
        where = store
    else:
        raise TypeError(f"store must be a URL or a log of purgatory_async.cluster, got {store!r}")
    return Backing(store=where, limits=Limits(**given), changed=SetLimits(**given))


def _checked_owner(owner: str | None) -> str | None:
    if owner is not None:
        try:
            check_by(owner)
        except Problem:
            raise ValueError(
                f"owner must have 1 to {MAX_BY} code points, none of them a control character, got {owner!r}"
            ) from None
    return owner


def _links(url: str | None, secret: str | os.PathLike[str] | None, *, in_memory: bool) -> Links:
    if url is None and secret is not None:
        raise ValueError(f"link_secret must be left out without a public_url, got {secret!r}")
    if url is not None and secret is None and not in_memory:
        raise ValueError(
            f"link_secret must be the file of secrets of the services on the store with public_url {url!r}, got none"
        )
    try:
        parsed_url = parsed_public_url(url)
    except ValueError as error:
        raise ValueError(f"public_url {error}") from None
    signers: Callable[[], Signer] = random_signer if secret is None else partial(read_secrets, Path(secret))
    try:
        return Links(parsed_url, signers)
    except ValueError as error:
        raise ValueError(f"link_secret: {error}") from None
