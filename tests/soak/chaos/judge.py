"""Compares what clients were answered with what the log says."""

from tests.soak.chaos import answers as told
from tests.soak.chaos.answers import Answers
from tests.soak.chaos.witness import History

__all__ = ["judge"]


def judge(answers: Answers, history: History) -> None:
    """Count what was lost, doubled, early or different, in the answers. O(all)."""
    for what in history.doubled:
        answers.wrong("doubled", what)
    for what in history.early:
        answers.wrong("early", what)
    for position in history.differing:
        answers.wrong("different", f"a worker's digest at position {position}")
    _operations(answers, history)
    for number, signal in answers.signals.items():
        _signal(answers, history, number, signal)
    for number, item in answers.items.items():
        _item(answers, history, number, item)
    for lease_id, lease in answers.leases.items():
        _lease(answers, history, lease_id, lease)


def _operations(answers: Answers, history: History) -> None:
    for known_as, operation in answers.operations.items():
        found = history.operations.get(known_as)
        if found is None:
            if operation.known:
                answers.wrong("lost", f"the submission of {known_as}")
        elif operation.state and operation.state != found.state:
            answers.wrong("different", f"{known_as} is {operation.state}, {found.state} in the log")
        elif found.state == "pending" and found.timeout_us is not None:
            answers.wrong("lost", f"the end of {known_as}, which has a timeout")


def _signal(answers: Answers, history: History, number: int, signal: told.Signal) -> None:
    found = history.signals.get(number, [])
    if len(found) > 1:
        answers.wrong("doubled", f"signal {number} has positions {[position for position, _ in found]}")
    if signal.index is None:
        return
    if not found:
        answers.wrong("lost", f"signal {number}")
    elif found[0] != (signal.index, signal.completed):
        answers.wrong("different", f"signal {number}: {signal} was answered, {found[0]} is in the log")


def _item(answers: Answers, history: History, number: int, item: told.Item) -> None:
    found, times = history.items.get(number, []), history.acknowledged[number]
    if len(found) > 1:
        answers.wrong("doubled", f"item {number} was put {len(found)} times")
    if times > 1:
        answers.wrong("doubled", f"item {number} was acknowledged {times} times")
    # In the end all queues were emptied.
    if found and not times:
        answers.wrong("lost", f"item {number} was never acknowledged")
    if item.delivered is None:
        return
    if not found:
        answers.wrong("lost", f"the put of item {number}")
    elif found[0] is not item.delivered:
        answers.wrong("different", f"item {number}: delivered={item.delivered} was answered")


def _lease(answers: Answers, history: History, lease_id: str, lease: told.Lease) -> None:
    found = history.leases.get(lease_id)
    if found is None or found.number != lease.number:
        answers.wrong("different", f"the lease {lease_id} of item {lease.number} is {found} in the log")
    elif lease.ended and lease.ended != found.ended:
        answers.wrong("lost", f"{lease.ended} of item {lease.number}; it is {found.ended!r} in the log")
