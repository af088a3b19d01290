"""Changes that the level of the store must have: an older worker that shares it would not understand them."""

from functools import partial

from purgatory_async.durable.fold.entries import Entry
from purgatory_async.durable.fold.fold import LEVEL
from purgatory_async.durable.later import Later, after
from purgatory_async.durable.state import Answer, Guard, State, caught_up
from purgatory_async.service.contract import problems


def propose(state: State, entry: Entry, by: Guard) -> Later[Answer]:
    """Propose an entry, if the state has its level; see `State.propose`.

    Raises:
        Problem: ``upgrade-pending``; nothing was proposed.
    """
    level = state.fold.level
    if level == LEVEL or entry.needed_level <= level:  # to ask an entry takes longer
        return state.propose(entry, by)
    return after(caught_up(state), partial(_propose, state, entry, by))


def _propose(state: State, entry: Entry, by: Guard, _: None) -> Later[Answer]:
    if entry.needed_level > state.fold.level:
        raise problems.upgrade_pending(state.fold.level, entry.needed_level)
    return state.propose(entry, by)
