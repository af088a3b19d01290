"""A process's share in a state: what may be asked of it, and the one-shot waits, which only this process has.

Everything that changes is an entry, which the state applies. Others hear of it by the events of the operations, and by
the effects of each step. Nothing polls.

`HttpService` is a keeper whose requests come over HTTP; `Durable` has one, whose calls are its process's own.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec import UnsetType

from purgatory_async import Timer
from purgatory_async.durable.at_once import AtOnce
from purgatory_async.durable.backing import Backing, state_on
from purgatory_async.durable.documents import problems
from purgatory_async.durable.fold import entries
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.operations import Operation, OperationSubmitted
from purgatory_async.durable.fold.results import (
    Attached,
    Different,
    Put,
    PutSome,
    Refused,
    Result,
    Signalled,
    Submitted,
)
from purgatory_async.durable.fold.shared import Effect
from purgatory_async.durable.grants import UNBOUND, Grant
from purgatory_async.durable.later import Later, after
from purgatory_async.durable.listing import Listing
from purgatory_async.durable.state import Answer, Guard, State, caught_up
from purgatory_async.durable.verbs.levels import propose
from purgatory_async.durable.verbs.refusals import Proposal, forgotten, over_pending, problem_of
from purgatory_async.durable.waiting.pacing import Pace
from purgatory_async.durable.waiting.waits import Waits
from purgatory_async.events import Observer, Observers

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Submission(NamedTuple):
    """An operation; whether an earlier request submitted it, and whether that was an equal one with its id."""

    operation: Operation
    replayed: bool = False
    attached: bool = False


def utc_now() -> dt.datetime:
    """Return the wall clock's time."""
    return dt.datetime.now(dt.UTC)


_SomeSignals = entries.SignalKey | entries.SignalKeys


class Keeper:
    """Operations, keys and queues of one process.

    Its subclasses and owners let others hear what happens: `hearers` and `hear`.

    Args:
        backing: Where the state is.
        timer: For every wait.
        now: Where log time begins, in memory.

    Attributes:
        backing, timer: As given.
        state: The state.
        waits: One-shot waits.
        draining: Whether new waits are refused.
        hearers: Observe the operations of the state, also of one that is loaded later; see `follow`.
        answering: The one of them that answers one-shot waits.
        hear: Called with the effects of each step.
    """

    def __init__(self, backing: Backing, timer: Timer, now: dt.datetime) -> None:
        self.backing: Final = backing
        self.timer: Final = timer
        self._pace: Final = Pace()
        limits = backing.limits
        self.waits: Final = Waits(
            *(timer, self._pace, limits.max_pending, limits.max_kept, self._count_undelivered),
            observed=backing.in_memory,
        )
        self.draining = False
        self.hearers: tuple[Observer, ...] = ()
        self.answering: Observer = Observers()
        self.hear: Callable[[Sequence[Effect]], object] = _pass
        self._epoch = ""
        started_us = (now - _EPOCH) // dt.timedelta(microseconds=1)
        self.state: Final[State] = state_on(
            backing, timer, started_us, waits=self.waits, heard=self._heard, replaced=self._replace
        )
        self._listing = Listing(self.state.fold)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'draining' if self.draining else 'serving'} pending={self.pending}>"

    @property
    def fold(self) -> Fold:
        """The state, for reading."""
        return self.state.fold

    @property
    def pending(self) -> int:
        """How many operations and one-shot waits are pending. O(1)."""
        return self.fold.operations.purgatory.pending + self.waits.purgatory.pending

    def caught_up(self) -> Later[None]:
        """Catch up with all that was answered anywhere."""
        return caught_up(self.state)

    # Operations and keys.

    def submit(self, entry: entries.SubmitOperation, by: Guard, most: int | None = None) -> Later[Submission]:
        """Submit an operation; with a timeout of 0 it ends at once. One that was submitted before is returned.

        Args:
            entry: The operation.
            by: Who submits it.
            most: How many operations and one-shot waits its owner may have pending; None for any number.

        Raises:
            Problem: ``duplicate-id``, ``idempotency-mismatch``, ``overloaded``, ``limited`` or ``draining``; nothing
                is registered then.
        """
        if most is not None:
            entry.most = max(most - self.waits.pending_of(entry.owner), 0)
        if isinstance(entry.idem, UnsetType):
            return self._submit(entry, by, most, known=False)
        return after(_knows(self.state, entry), lambda known: self._submit(entry, by, most, known=known))

    def _submit(
        self, entry: entries.SubmitOperation, by: Guard, most: int | None, *, known: bool
    ) -> Later[Submission]:
        if not known:
            self.check_change()
            self.check_accepting()
        return after(propose(self.state, entry, by), partial(self._submitted, entry, most))

    def _submitted(self, entry: entries.SubmitOperation, most: int | None, answer: Answer) -> Submission:
        result = answer.result
        if isinstance(result, Submitted) and not result.replayed:
            operation = _new_in(answer.effects)
            self._made(operation)
            return Submission(operation)
        if result == LIMITED and most is not None:
            raise over_pending(most, self._pending_of(entry.owner))
        result = accepted(self.fold, entry, answer)
        if isinstance(result, Different):
            raise problems.duplicate_id(entry.id)
        assert isinstance(result, Submitted | Attached), f"a submission cannot give {result!r}"
        attached = isinstance(result, Attached)
        return Submission(self.find(result.id), replayed=not attached, attached=attached)

    def find(self, operation_id: str, grant: Grant = UNBOUND) -> Operation:
        """Return the operation of an id, pending or ended, if a token may see it. O(1).

        Raises:
            Problem: ``forgotten`` or ``unknown-operation``.
        """
        operations = self.fold.operations
        operation = operations.by_id.get(operation_id)
        if operation is not None:
            keys = operation.watch_keys
            if grant.sees(operation.owner, *keys) or grant.answers(*keys):
                return operation
        gone = operations.remembered(operation_id)  # its keys are not known any more
        if gone is not None and grant.sees_forgotten(gone.owner):
            raise forgotten(operation_id, self.fold)
        raise problems.unknown_operation(operation_id)

    def end(self, entry: entries.EndOperation, by: Guard) -> Later[bool]:
        """Complete or cancel an operation; return whether it was pending until now.

        Raises:
            Problem: ``overloaded``: it could not be recorded.
        """
        self.check_change()
        return after(self.state.propose(entry, by), lambda answer: not isinstance(answer.result, Refused))

    def signal(self, entry: _SomeSignals, by: Guard) -> Later[tuple[Signalled, int]]:
        """Signal a key, or some in one step. O(operations and one-shot waits that watch them).

        Returns the result, and how many operations and one-shot waits were completed.

        Raises:
            Problem: ``idempotency-mismatch``, or ``overloaded``: it could not be recorded.
        """
        self.check_change()
        return after(self.state.propose(entry, by), partial(_signalled, self.fold, entry))

    def listed(self, key: str | None, after: int = 0) -> Iterator[Operation]:
        """Iterate over the pending operations in the order of submission; see `Listing.after`."""
        return self._listing.after(after, key)

    # Queues.

    def put(self, entry: entries.PutItem | entries.PutItems, by: Guard) -> Later[Put | PutSome]:
        """Give items to the queue's oldest takers, or keep them. O(log items of the queue) each.

        Raises:
            Problem: ``overloaded``, ``draining`` or ``idempotency-mismatch``.
        """
        known = _knows(self.state, entry) if self.draining else True
        return after(known, partial(self._put, entry, by))

    def _put(self, entry: entries.PutItem | entries.PutItems, by: Guard, known: bool) -> Later[Put | PutSome]:
        if not known:
            raise problems.draining()
        return after(self.state.propose(entry, by), partial(_given, self.fold, entry))

    def change_lease(self, entry: entries.EndLease | entries.ExtendLease, by: Guard) -> Later[Result]:
        """End or extend a lease. O(log items of the queue).

        Raises:
            Problem: ``lease-expired`` or ``unknown-lease``.
        """
        return after(self.state.propose(entry, by), partial(_changed, entry.lease_id))

    # The end.

    def drain(self) -> int:
        """Refuse new waits; return how many requests that ends. Idempotent. Signals, completions and reads go on."""
        self.draining = True
        self._pace.finish()  # what was completed is answered so
        return 0

    async def aclose(self) -> None:
        """Drain, and close the state; only in memory are pending operations ended, as closed. Idempotent."""
        self.drain()
        await self.state.aclose()
        self._end()

    def close(self) -> None:
        """Do as `aclose`, for a state in memory."""
        self.drain()
        if isinstance(self.state, AtOnce):
            self.state.close()
        self._end()

    def _end(self) -> None:
        self.waits.purgatory.close()
        self.timer.close()

    # What others hear, and may refuse.

    def follow(self, fold: Fold) -> None:
        """Let the hearers hear a state: the present one once they are there, and each that is loaded later."""
        self._listing = Listing(fold)
        self.waits.follow(fold, Observers(*self.hearers, self._listing), self.answering)

    def check_change(self) -> None:
        """Check that a change can be made; a `Problem` if not."""

    def check_accepting(self) -> None:
        """Check that a new wait may begin.

        Raises:
            Problem: ``draining``.
        """
        if self.draining:
            raise problems.draining()

    def _made(self, operation: Operation) -> None:
        """Note a new operation, before its submission is answered."""

    def _count_undelivered(self) -> None:
        """Note that a wait was cancelled as it got its answer."""

    def _look_again(self, *, lost: bool) -> None:
        """Let what waits look at a state that was loaded; ``lost`` if what it has read may be of another history."""

    def _replace(self, fold: Fold) -> None:
        """Go on with a state that was just loaded. What waits here looks at it again, or fails if the epoch changed."""
        lost = self._epoch not in {"", self.state.epoch}
        self._epoch = self.state.epoch
        self._pace.finish()
        self._look_again(lost=lost)
        self.waits.lose()
        self.follow(fold)

    def _heard(self, result: Result, effects: Sequence[Effect]) -> Answer:
        """Tell the effects of a step, and make its answer."""
        self.hear(effects)
        completed, self.waits.completed = self.waits.completed, 0
        return Answer(result, effects, completed)

    def _pending_of(self, owner: str | None) -> int:
        """How many operations and one-shot waits of an owner are pending. O(1)."""
        return self.fold.operations.pending_of.get(owner or "", 0) + self.waits.pending_of(owner)


def _pass(_: Sequence[Effect]) -> None:
    """Nothing waits."""


def _knows(state: State, entry: entries.SubmitOperation | entries.PutItem | entries.PutItems) -> Later[bool]:
    """Whether a request is repeated, so that it changes nothing."""
    if isinstance(entry.idem, UnsetType):
        return False
    key = (entry.owner, entry.idem)
    return after(
        caught_up(state), lambda _: key in state.fold.operations.by_idem or key in state.fold.replays
    )


LIMITED: Final = Refused("limited")


def accepted(fold: Fold, entry: Proposal, answer: Answer) -> Result:
    """Return the result of an entry, or raise why it was refused."""
    if isinstance(answer.result, Refused):
        raise problem_of(answer.result, entry, fold)
    return answer.result


def _new_in(effects: Sequence[Effect]) -> Operation:
    """Return the operation that a step has submitted: with a retention of 0 it may be forgotten already."""
    for each in effects:
        if isinstance(each, OperationSubmitted):
            return each.operation
    raise AssertionError(f"a submission must have its effect, got {effects!r}")


def _signalled(fold: Fold, entry: Proposal, answer: Answer) -> tuple[Signalled, int]:
    result = accepted(fold, entry, answer)
    assert isinstance(result, Signalled), f"a signal cannot give {result!r}"
    return result, result.completed + answer.waits


def _given(fold: Fold, entry: Proposal, answer: Answer) -> Put | PutSome:
    result = accepted(fold, entry, answer)
    assert isinstance(result, Put | PutSome), f"a put cannot give {result!r}"
    return result


def _changed(lease_id: str, answer: Answer) -> Result:
    """Return how a lease was changed."""
    result = answer.result
    if isinstance(result, Refused):
        raise (problems.lease_expired if result.why == "lease-expired" else problems.unknown_lease)(lease_id)
    return result
