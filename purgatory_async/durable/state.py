"""The interface of a state: entries go in, and each is applied before its answer comes back.

`AtOnce` is the state of one process, in memory. `OnLog` is a worker's on a log, the same at every worker.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from msgspec import Struct

from purgatory_async.durable.fold.entries import Entry
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.results import Result
from purgatory_async.durable.fold.shared import Effect
from purgatory_async.durable.grants import UNBOUND, Grant, Permission
from purgatory_async.durable.later import Later


class Answer(Struct, frozen=True):
    """The answer to an entry in this process.

    Attributes:
        result: Its result, equal at every replica.
        effects: The effects of its step.
        waits: How many one-shot waits of this process it completed.
    """

    result: Result
    effects: Sequence[Effect]
    waits: int


Heard = Callable[[Result, Sequence[Effect]], Answer]
"""Called with the result and the effects of each step, in order, also of other workers' entries; makes the answer."""


class Guard:
    """Who asks, and what it may do: asked by a state before each change. This one may do all, and has no name."""

    __slots__ = ()

    @property
    def grant(self) -> Grant:
        """What it may do now; ask again after each wait."""
        return UNBOUND

    @property
    def traceparent(self) -> str | None:
        """The trace that it belongs to (W3C Trace Context), as its request says; None if that says none."""
        return None

    def use(self, *names: str) -> None:
        """Note keys, prefixes and queues that are used; raises what `admit` does if they may not be."""

    def use_listed(self, name: str | None = None) -> None:
        """Note what a list is narrowed to: a key, prefix or queue; None for all that it may use. Raises as `use`."""
        self.use(*(self.grant.prefixes or ("",) if name is None else (name,)))

    def need(self, right: Permission) -> None:
        """Note a further right that is needed; raises what `admit` does if it is lacking."""

    def admit(self) -> None:
        """Note that the caller is about to make a change; raises what `State.propose` should raise if it may not."""

    def revocable(self, withdraw: Callable[[Exception], object]) -> AbstractContextManager[None]:
        """Call a function with the refusal if the caller is no longer to make its change, within the block. O(1)."""
        del withdraw
        return nullcontext()


class State(Protocol):
    """A fold, and the way by which entries reach it."""

    @property
    def fold(self) -> Fold:
        """The state, for reading; another object after it was loaded again."""
        ...

    @property
    def epoch(self) -> str:
        """Names the history that positions belong to."""
        ...

    @property
    def writer(self) -> str | None:
        """The name under which this process appends now; None without a log."""
        ...

    def propose(self, entry: Entry, guard: Guard) -> Later[Answer]:
        """Apply an entry, and return what it gave: at once if nothing has to be waited for.

        Args:
            entry: The change.
            guard: Asked right before it: whose change it is.

        Raises:
            Exception: What the guard raises: the caller may not.
            PurgatoryFull: Too many entries wait for the log.
            LogUnavailable: The outcome is unknown; the entry may still be applied later.
        """
        ...

    def post(self, entry: Entry) -> object:
        """Propose an entry without waiting for its result; raises as `propose`."""

    async def settled(self) -> None:
        """Return once no step is under way: the fold may be read as a whole until something else is awaited."""

    def is_caught_up(self) -> bool:
        """Whether everything that was answered anywhere is applied here, and log time is the present.

        False also if that is not known without waiting: then await `caught_up`.
        """
        ...

    async def caught_up(self) -> None:
        """Return once everything that was answered anywhere is applied here, and log time is the present.

        Raises:
            LogUnavailable: The log is away.
        """

    def now_us(self) -> int:
        """Return log time now, in microseconds since 1970."""
        ...

    @property
    def connected(self) -> bool:
        """Whether the state is loaded, and its log answers and takes entries, as of the last 5 s."""
        ...

    @property
    def cause(self) -> str | None:
        """Why the log does not serve now, a key of `CAUSES`; None while it does."""
        ...

    @property
    def lag(self) -> float:
        """Seconds since all that was known was applied; 0.0 if it is."""
        ...

    async def open(self) -> None:
        """Load the state; `run` must follow. Raises as `run`, and `LogRefused` if the log cannot be used."""

    async def run(self) -> None:
        """Keep the state up to date until it is closed.

        Raises:
            LogDamaged, FoldError: It cannot go on; the message has the position.
            LogError: The log has failed for good.
        """

    async def aclose(self) -> None:
        """End: nothing is applied any more. Idempotent."""


def caught_up(state: State) -> Later[None]:
    """Catch up with all that was answered anywhere: at once if that is known to be so; see `State.caught_up`."""
    return None if state.is_caught_up() else state.caught_up()
