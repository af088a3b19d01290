"""Two workers on one SQLite log, as a model of what they do with its end mark: every interleaving, every kill.

A worker appends one entry, polls the file as a follower, and answers reads. A step is one call of the system or of
SQLite, which no other worker can see half done. A worker may die before each of its steps; its lock is free then.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple


class Worker(NamedTuple):
    """Where one is in its three tasks, and what it knows."""

    alive: bool = True
    applied: int = 0
    append: str = "lock"
    place: int = 0  # of its entry
    poll: str = "fetch"
    fetched: int = 0  # the newest entry that a poll found
    polls: int = 1
    ask: str = "look"
    goal: int = 0  # the end when a read was asked for
    floor: int = 0  # what had been shown by then
    asks: int = 1


class State(NamedTuple):
    """What is on the disk, and what clients were shown."""

    stored: int = 0
    mark: int = 0
    holder: object = None  # of the lock: a worker and its task
    shown: int = 0
    workers: tuple[Worker, ...] = (Worker(), Worker())


class BrokenError(AssertionError):
    """A promise is broken."""


def explore(rule: str, polls: int = 1, asks: int = 1) -> int:
    """Visit every state that a rule allows; return how many there are, or raise `BrokenError`.

    Args:
        rule: "whole" as built; "uncounted" hands out what the mark does not count, "turnless" counts it without a turn,
            "early" writes the mark before the commit, "patient" leaves what a dead writer did not count.
        polls: How often each worker polls.
        asks: How often each is asked.
    """
    begin = State(workers=(Worker(polls=polls, asks=asks),) * 2)
    seen, todo = {begin}, [begin]
    while todo:
        state = todo.pop()
        moved = list(_moves(state, rule))
        if not moved:
            _check_progress(state, rule)
        for after in moved:
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return len(seen)


def _moves(state: State, rule: str) -> Iterator[State]:
    for index, worker in enumerate(state.workers):
        if not worker.alive:
            continue
        if index == 0:
            freed = None if _holds(state, index) else state.holder
            yield _with(state, index, alive=False)._replace(holder=freed)
        yield from _append(state, index, worker, rule)
        yield from _poll(state, index, worker, rule)
        yield from _ask(state, index, worker)


def _append(state: State, index: int, worker: Worker, rule: str) -> Iterator[State]:
    me, steps = (index, "append"), ["lock", "commit", "mark", "unlock", "answer", "done"]
    if rule == "early":
        steps[1:3] = ["mark", "commit"]
    then = dict(pairwise(steps))
    match worker.append:
        case "lock" if state.holder is None:
            yield _with(state, index, append=then["lock"])._replace(holder=me)
        case "commit":
            yield _with(state, index, append=then["commit"], place=state.stored + 1)._replace(
                stored=state.stored + 1
            )
        case "mark":
            place = state.stored + 1 if rule == "early" else worker.place
            yield _with(state, index, append=then["mark"])._replace(mark=place)
        case "unlock":
            yield _with(state, index, append="answer")._replace(holder=None)
        case "answer":
            if worker.applied == worker.place - 1:
                yield _with(state, index, append="done", applied=worker.place)._replace(
                    shown=max(state.shown, worker.place)
                )
            elif worker.applied >= worker.place:
                yield _with(state, index, append="done")._replace(shown=max(state.shown, worker.place))


def _poll(state: State, index: int, worker: Worker, rule: str) -> Iterator[State]:
    me = (index, "poll")
    found = max(worker.applied, worker.fetched)
    match worker.poll:
        case "fetch" if worker.polls:
            yield _with(state, index, poll="look", fetched=state.stored, polls=worker.polls - 1)
        case "look" if worker.fetched <= state.mark or rule == "uncounted":
            yield _with(state, index, poll="fetch", applied=found)
        case "look" if rule == "turnless":
            yield _with(state, index, poll="count")
        case "look" if state.holder is None and rule != "patient":
            yield _with(state, index, poll="count")._replace(holder=me)
        case "look":  # a writer has its turn: only what is counted
            yield _with(state, index, poll="fetch", applied=max(worker.applied, min(found, state.mark)))
        case "count" if rule == "turnless":
            yield _with(state, index, poll="fetch", applied=found)._replace(mark=worker.fetched)
        case "count":
            yield _with(state, index, poll="leave")._replace(mark=max(state.mark, state.stored))
        case "leave":
            yield _with(state, index, poll="fetch", applied=found)._replace(holder=None)


def _ask(state: State, index: int, worker: Worker) -> Iterator[State]:
    match worker.ask:
        case "look" if worker.asks:
            yield _with(state, index, ask="show", goal=state.mark, floor=state.shown, asks=worker.asks - 1)
        case "show" if worker.applied >= worker.goal:
            if worker.applied < worker.floor:
                raise BrokenError(f"a read showed {worker.applied} after {worker.floor} was shown: {state}")
            yield _with(state, index, ask="look")._replace(shown=max(state.shown, worker.applied))


def _check_progress(state: State, rule: str) -> None:
    """Assert that one more poll of a worker that lives shows all that is stored, and that no read hangs."""
    for index, worker in enumerate(state.workers):
        if worker.alive:
            after = _with(state, index, polls=1)
            while (polled := next(_poll(after, index, after.workers[index], rule), None)) is not None:
                after = polled
            if after.workers[index].applied != state.stored or after.workers[index].goal > state.stored:
                raise BrokenError(f"worker {index} never shows what is stored: {after}")


def _with(state: State, index: int, **changes: object) -> State:
    changed = state.workers[index]._replace(**changes)
    return state._replace(workers=(*state.workers[:index], changed, *state.workers[index + 1 :]))


def _holds(state: State, index: int) -> bool:
    return isinstance(state.holder, tuple) and state.holder[0] == index
