"""What depends on the level of the store: an older worker that shares it would not understand a newer change.

A state that is being loaded for the first time has level 1 until it is there, whatever its store has. A level that was
seen counts for good, as no store loses one; level 1 only once the state has caught up.
"""

from functools import partial

from purgatory_async.durable.documents import problems
from purgatory_async.durable.fold.entries import Entry
from purgatory_async.durable.fold.fold import FIRST_LEVEL, LEVEL
from purgatory_async.durable.later import Later, after
from purgatory_async.durable.state import Answer, Guard, State, caught_up


def propose(state: State, entry: Entry, by: Guard) -> Later[Answer]:
    """Propose an entry, if the state has its level; see `State.propose`.

    Raises:
        Problem: ``upgrade-pending``; nothing was proposed.
    """
    if state.fold.level == LEVEL:  # to ask an entry takes longer
        return state.propose(entry, by)
    return after(check_level(state, entry), lambda _: state.propose(entry, by))


def check_level(state: State, entry: Entry) -> Later[None]:
    """Check that the state has the level of an entry, which no state loses.

    Raises:
        Problem: ``upgrade-pending``.
    """
    if entry.needed_level <= state.fold.level:
        return None
    return after(caught_up(state), partial(_check, state, entry))


def past_the_first(state: State) -> Later[bool]:
    """Whether the store is above level 1."""
    return True if _is_past(state) else after(caught_up(state), lambda _: _is_past(state))


def _is_past(state: State) -> bool:
    return state.fold.level > FIRST_LEVEL


def _check(state: State, entry: Entry, _: None) -> None:
    if entry.needed_level > state.fold.level:
        raise problems.upgrade_pending(state.fold.level, entry.needed_level)
