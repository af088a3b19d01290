"""What clients asked for and were answered, and what was wrong about it at once."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = ["Answers", "Fault", "Faults", "Item", "Lease", "Operation", "Signal"]

Fault = Literal["lost", "doubled", "asked twice", "early", "different"]
EXAMPLES: Final = 20


@dataclass(slots=True)
class Operation:
    """An operation.

    Attributes:
        timeout: In seconds; None for none.
        sent: When it was first submitted, in seconds of the clients' clock.
        known: Whether its submission was answered.
        state: How it ended, as was answered first; empty if it is not known to have ended.
        ended: When that was answered.
    """

    timeout: float | None
    sent: float
    known: bool = False
    state: str = ""
    ended: float = 0.0


@dataclass(slots=True)
class Signal:
    """A signal; the index and how many operations it completed are None until it is answered."""

    key: str
    index: int | None = None
    completed: int | None = None


@dataclass(slots=True)
class Item:
    """An item; what is None is not known.

    Attributes:
        delivered: Whether a taker got it at once, as was answered.
        acknowledged: When its acknowledgement was answered.
    """

    delivered: bool | None = None
    acknowledged: float | None = None


@dataclass(slots=True)
class Lease:
    """An item that was taken.

    Attributes:
        number: The item's.
        began: When the request for it was sent.
        answered: When it was answered.
        ended: How its end was answered: ``ack``, ``return``, empty if it was not.
    """

    number: int
    began: float
    answered: float
    ended: str = ""


@dataclass(slots=True)
class Faults:
    """What was wrong, counted, with the first ones as examples; other counts are beside them."""

    counts: Counter[str] = field(default_factory=Counter[str])
    examples: list[str] = field(default_factory=list[str])

    def wrong(self, fault: Fault, what: str) -> None:
        """Count a fault, and keep the first ones as examples."""
        self.counts[fault] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{fault}: {what}")


@dataclass(slots=True)
class Answers(Faults):
    """Everything that was asked and answered; the numbers are those in the values of signals and in the items."""

    operations: dict[str, Operation] = field(default_factory=dict[str, Operation])
    signals: dict[int, Signal] = field(default_factory=dict[int, Signal])
    items: dict[int, Item] = field(default_factory=dict[int, Item])
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    indexes: dict[str, int] = field(default_factory=dict[str, int])  # the highest answered, by key

    def show(self, operation_id: str, state: str, began: float, answered: float) -> None:
        """Note the state in which an answer showed an operation.

        Args:
            operation_id: Its id.
            state: As shown.
            began: When the request was sent that showed it.
            answered: When that was answered.
        """
        operation = self.operations[operation_id]
        if state == "pending":
            if operation.state and operation.ended < began:
                self.wrong("different", f"{operation_id} is pending after it was {operation.state}")
            return
        if operation.state not in {"", state}:
            self.wrong("different", f"{operation_id} is {state} after it was {operation.state}")
        if not operation.state:
            operation.state, operation.ended = state, answered
        if state == "expired" and (
            operation.timeout is None or answered < operation.sent + operation.timeout
        ):
            self.wrong(
                "early",
                f"{operation_id} with timeout {operation.timeout} expired {answered - operation.sent:.4f} s after it",
            )
