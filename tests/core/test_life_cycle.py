"""The life cycle of an operation: the code does what the table of transitions says, and the docstring draws it."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryError, Timer
from purgatory_async.core import operation as documented
from purgatory_async.core.operation import phase_of
from purgatory_async.core.outcome import TRANSITIONS, Phase
from purgatory_async.testing import ManualClock

State = Phase | Outcome
EVENTS = ("watch", "admit", "refuse", "force_complete", "fail", "cancel", "deadline", "close")
OF_A_CHECK = ("admit", "refuse")
STATES: tuple[State, ...] = (*Phase, *Outcome)
PAIRS = [
    (state, event)
    for state in STATES
    for event in EVENTS
    if state is Phase.CHECKING or event not in OF_A_CHECK
]


class Subject(DelayedOperation[None]):
    """One operation on a purgatory of its own; its first check runs `then`."""

    def __init__(self) -> None:
        super().__init__(1)
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock))
        self.then: Callable[[], object] = lambda: None
        self.seen: list[State] = []

    def try_complete(self) -> bool:
        self.then()
        self.seen.append(phase_of(self))
        return False

    def happen(self, event: str) -> None:
        """Apply an event, also one that is refused in the present phase."""
        events: dict[str, Callable[[], object]] = {
            "watch": lambda: self.purgatory.try_complete_else_watch(self, ["k"]),
            "force_complete": self.force_complete,
            "fail": lambda: self.fail(KeyError()),
            "cancel": self.cancel,
            "deadline": lambda: self.clock.advance(2),
            "close": self.purgatory.close,
        }
        with suppress(PurgatoryError):
            events[event]()


def after(subject: Subject, phase: State, event: str) -> State:
    """The state in which an event leaves an operation that it found in a phase."""
    if phase is Phase.CHECKING:
        if event == "refuse":
            subject.then = subject.purgatory.close
        elif event != "admit":
            subject.then = lambda: subject.happen(event)
        subject.happen("watch")
        return phase_of(subject) if event in OF_A_CHECK else subject.seen[0]
    if phase is not Phase.NEW:
        subject.happen("watch")
    for way, end in TRANSITIONS[Phase.PENDING].items():
        if end is phase:
            subject.happen(way)
    assert phase_of(subject) is phase
    subject.seen.clear()
    subject.happen(event)
    return subject.seen[0] if subject.seen else phase_of(subject)


@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_an_event_leads_where_the_table_says(state: State, event: str) -> None:
    subject = Subject()
    row = TRANSITIONS[state] if isinstance(state, Phase) else {}
    assert after(subject, state, event) is row.get(event, state)
    subject.purgatory.close()


def test_every_state_can_be_reached_and_only_outcomes_are_final() -> None:
    assert {end for row in TRANSITIONS.values() for end in row.values()} == {*Phase, *Outcome}
    assert set(TRANSITIONS) == set(Phase)
    assert {event for row in TRANSITIONS.values() for event in row} == set(EVENTS)


def drawn() -> str:
    """The table as text, a row for each phase and a column for each event."""
    rows = [["", *EVENTS]]
    for phase, row in TRANSITIONS.items():
        rows.append(
            [phase.name.lower(), *(row[event].name.lower() if event in row else "." for event in EVENTS)]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"    {line}\n" for line in lines)


def test_the_docstring_of_operation_draws_the_table() -> None:
    assert drawn() in (documented.__doc__ or "")
