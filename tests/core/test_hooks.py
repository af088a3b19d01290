"""Hooks: first-in first-out, never nested, after the whole walk, and each exactly once, even if they raise."""

import asyncio
from collections.abc import Callable

import pytest

from purgatory_async import DelayedOperation, Outcome, Purgatory, Timer
from purgatory_async.testing import settle
from tests.core.recording import Recorded, Switch, errors_of_loop, errors_without_loop

CHAIN = 100_000
INTERRUPTS = [KeyboardInterrupt, SystemExit]
ERRORS = [ValueError, RecursionError, MemoryError, StopIteration, GeneratorExit, asyncio.CancelledError]


class Nesting(DelayedOperation[None]):
    """Notes the beginning and the end of its hook, with something done in between."""

    def __init__(self, log: list[str], name: str, meanwhile: Callable[[], object] = list) -> None:
        super().__init__()
        self.log = log
        self.name = name
        self.meanwhile = meanwhile

    def on_complete(self) -> None:
        self.log.append(f"+{self.name}")
        self.meanwhile()
        self.log.append(f"-{self.name}")


def raising(exception: BaseException | type[BaseException]) -> Callable[[], None]:
    def fails() -> None:
        raise exception

    return fails


def watched(purgatory, *operations, keys=("k",)):
    for operation in operations:
        purgatory.try_complete_else_watch(operation, keys)
    return operations


# Order.


def test_a_hook_ending_another_operation_queues_its_hook_last(purgatory):
    log: list[str] = []
    last = Nesting(log, "last")
    first = Nesting(log, "first", last.force_complete)
    watched(purgatory, first, Nesting(log, "second"), Nesting(log, "third"))
    watched(purgatory, last, keys=["other"])
    purgatory.complete_for_key("k")
    assert log == ["+first", "-first", "+second", "-second", "+third", "-third", "+last", "-last"]


VERBS = [
    pytest.param(lambda p, switch: p.check_and_complete("k"), id="check_and_complete"),
    pytest.param(lambda p, switch: p.complete_for_key("k"), id="complete_for_key"),
]


@pytest.mark.parametrize("verb", VERBS)
def test_hooks_run_after_the_whole_walk_before_the_call_returns(verb, purgatory):
    switch = Switch()
    pending: list[int] = []
    operations = [
        Recorded([], holds=switch, then=lambda: pending.append(purgatory.pending)) for _ in range(5)
    ]
    watched(purgatory, *operations)
    switch.on = True
    verb(purgatory, switch)
    assert pending == [0] * 5


def test_hooks_of_another_purgatory_wait_for_the_end_of_the_walk(purgatory):
    log: list[str] = []
    switch = Switch()
    other = Purgatory("other", timer=purgatory.timer)
    watched(other, Recorded(log, "elsewhere"))

    def ask() -> bool:
        if switch():
            other.complete_for_key("k")
        return switch()

    watched(purgatory, Recorded(log, "a", holds=ask), Recorded(log, "b", holds=switch))
    switch.on = True
    log.clear()
    purgatory.check_and_complete("k")
    assert log == ["a checked", "b checked", "elsewhere completed", "a completed", "b completed"]


@pytest.mark.asyncio
async def test_hooks_of_unwatched_operations_also_wait_for_the_walk(purgatory):
    log: list[str] = []
    switch = Switch()

    def ask() -> bool:
        if switch():
            Recorded(log, "free").force_complete()
        return switch()

    watched(purgatory, Recorded(log, "a", holds=ask), Recorded(log, "b", holds=switch))
    switch.on = True
    log.clear()
    purgatory.check_and_complete("k")
    assert log == ["a checked", "b checked", "free completed", "a completed", "b completed"]


KINDS = [
    pytest.param("same", id="same purgatory"),
    pytest.param("other", id="other purgatory"),
    pytest.param("free", id="never watched"),
]


def placed(kind, purgatory, operation):
    """The operation, watched here, elsewhere or nowhere."""
    if kind != "free":
        place = purgatory if kind == "same" else Purgatory("other", timer=purgatory.timer)
        place.try_complete_else_watch(operation, [object()])
    return operation


@pytest.mark.parametrize("outer", KINDS)
@pytest.mark.parametrize("inner", KINDS)
def test_hooks_never_nest(outer, inner, purgatory):
    log: list[str] = []
    second = placed(inner, purgatory, Nesting(log, "second"))
    first = placed(outer, purgatory, Nesting(log, "first", second.force_complete))
    first.force_complete()
    assert log == ["+first", "-first", "+second", "-second"]


@pytest.mark.parametrize("outer", KINDS)
@pytest.mark.parametrize("inner", KINDS)
@pytest.mark.asyncio
async def test_hooks_never_nest_on_a_loop_either(outer, inner, purgatory):
    log: list[str] = []
    second = placed(inner, purgatory, Nesting(log, "second"))
    first = placed(outer, purgatory, Nesting(log, "first", second.force_complete))
    first.force_complete()
    assert log == ["+first", "-first", "+second", "-second"]


def test_completed_in_a_hook_it_has_its_outcome_before_its_hook(purgatory):
    seen = []
    log: list[str] = []
    second = Recorded(log, "second")
    first = Recorded(
        log, "first", then=lambda: seen.append((second.force_complete(), second.outcome, list(log)))
    )
    watched(purgatory, first)
    watched(purgatory, second, keys=["other"])
    log.clear()
    first.force_complete()
    assert seen == [(True, Outcome.COMPLETED, ["first completed"])]
    assert log == ["first completed", "second completed"]


def test_an_expiry_runs_both_hooks_of_one_before_those_it_caused(purgatory, manual_clock):
    log: list[str] = []
    caused = Recorded(log, "caused")
    watched(purgatory, caused, keys=["other"])
    watched(purgatory, Recorded(log, "late", timeout=1, then=caused.force_complete))
    log.clear()
    manual_clock.advance(1)
    assert log == ["late completed", "late expired", "caused completed"]


# Long chains.


class Link(DelayedOperation[None]):
    """Ends the next when it has ended."""

    next_one: DelayedOperation[None] | None = None
    ran = 0

    def on_complete(self) -> None:
        Link.ran += 1
        if self.next_one is not None:
            self.next_one.force_complete()


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.parametrize(
    "places",
    [
        pytest.param(("a",), id="one purgatory"),
        pytest.param(("a", "b"), id="two purgatories"),
        pytest.param((None,), id="never watched"),
        pytest.param(("a", None), id="every other one never watched"),
        pytest.param(("a", "b", None), id="two purgatories and never watched"),
    ],
)
async def test_a_chain_of_100_000_ends_before_the_call_returns(places):
    Link.ran = 0
    homes = {name: Purgatory(name) for name in "ab"}
    links = [Link() for _ in range(CHAIN)]
    for number, link in enumerate(links):
        link.next_one = links[number + 1] if number + 1 < CHAIN else None
        place = places[number % len(places)]
        if place is not None:
            homes[place].try_complete_else_watch(link, [number])
    links[0].force_complete()
    assert Link.ran == CHAIN
    assert all(link.outcome is Outcome.COMPLETED for link in links)
    for home in homes.values():
        assert home.pending == 0
        home.close()


@pytest.mark.slow
def test_a_chain_of_100_000_through_signals_of_keys_is_fine(purgatory):
    ran: list[int] = []

    class Signalling(DelayedOperation[None]):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def on_complete(self) -> None:
            ran.append(self.number)
            purgatory.complete_for_key(self.number + 1)

    for number in range(CHAIN):
        purgatory.try_complete_else_watch(Signalling(number), [number])
    assert purgatory.complete_for_key(0) == 1
    assert ran == list(range(CHAIN))


# Hooks that raise.


@pytest.mark.asyncio
@pytest.mark.parametrize("error", ERRORS)
async def test_an_exception_in_a_hook_goes_to_the_loop_handler(error, purgatory):
    reported = errors_of_loop()
    exception = error("mine")
    log: list[str] = []
    bad = Recorded(log, "bad", then=raising(exception))
    watched(purgatory, Recorded(log, "a"), bad, Recorded(log, "b"))
    log.clear()
    assert purgatory.complete_for_key("k", "r") == 3
    assert log == ["a completed", "bad completed", "b completed"]
    assert (bad.outcome, bad.result, await bad) == (Outcome.COMPLETED, "r", Outcome.COMPLETED)
    assert [context["exception"] for context in reported] == [exception]
    assert "Recorded" in reported[0]["message"]
    assert "on_complete" in reported[0]["message"]


@pytest.mark.asyncio
async def test_an_exception_in_an_unwatched_hook_goes_to_the_handler():
    reported = errors_of_loop()
    operation = Recorded([], then=raising(ValueError("mine")))
    assert operation.force_complete()
    assert [str(context["exception"]) for context in reported] == ["mine"]


def test_without_a_loop_an_exception_goes_to_the_excepthook(purgatory, monkeypatch):
    reported = errors_without_loop(monkeypatch)
    free = Recorded([], "free", then=raising(ValueError("free")))
    watched(purgatory, Recorded([], "watched", then=raising(ValueError("watched"))))
    assert purgatory.complete_for_key("k") == 1
    assert free.force_complete()
    assert [str(unraisable.exc_value) for unraisable in reported] == ["watched", "free"]
    assert "Recorded" in repr(reported[0].object)


class Troubled(Recorded):
    """Raises in both hooks."""

    def on_complete(self) -> None:
        super().on_complete()
        raise ValueError("on_complete")

    def on_expiration(self) -> None:
        super().on_expiration()
        raise ValueError("on_expiration")


@pytest.mark.asyncio
async def test_on_expiration_runs_after_on_complete_raises(purgatory, manual_clock):
    reported = errors_of_loop()
    log: list[str] = []
    operation = Troubled(log, timeout=1)
    watched(purgatory, operation, Recorded(log, "next", timeout=1))
    log.clear()
    manual_clock.advance(1)
    assert log == ["op completed", "op expired", "next completed", "next expired"]
    assert [str(context["exception"]) for context in reported] == ["on_complete", "on_expiration"]
    assert operation.outcome is Outcome.EXPIRED


# Interrupts.


@pytest.mark.parametrize("interrupt", INTERRUPTS)
@pytest.mark.parametrize("verb", VERBS)
def test_an_interrupt_in_a_hook_leaves_the_rest_to_the_next_call(verb, interrupt, purgatory):
    log: list[str] = []
    switch = Switch()
    operations = watched(
        purgatory,
        Recorded(log, "a", holds=switch),
        Recorded(log, "bad", holds=switch, then=raising(interrupt)),
        Recorded(log, "b", holds=switch),
        Recorded(log, "c", holds=switch),
    )
    switch.on = True
    with pytest.raises(interrupt):
        verb(purgatory, switch)
    assert [operation.outcome for operation in operations] == [Outcome.COMPLETED] * 4
    log.clear()
    watched(purgatory, Recorded(log, "next", holds=switch))
    purgatory.check_and_complete("nothing")
    assert sorted(log) == ["b completed", "c completed", "next checked", "next completed"]
    assert log.index("b completed") < log.index("c completed") < log.index("next completed")


@pytest.mark.parametrize("interrupt", INTERRUPTS)
@pytest.mark.asyncio
async def test_on_a_loop_the_rest_runs_once_in_its_next_turn(interrupt, purgatory):
    log: list[str] = []
    watched(
        purgatory,
        Recorded(log, "bad", then=raising(interrupt)),
        Recorded(log, "worse", then=raising(ValueError("mine"))),
        Recorded(log, "b"),
    )
    reported = errors_of_loop()
    log.clear()
    with pytest.raises(interrupt):
        purgatory.complete_for_key("k")
    assert log == ["bad completed"]
    await settle()
    assert log == ["bad completed", "worse completed", "b completed"]
    assert [str(context["exception"]) for context in reported] == ["mine"]


@pytest.mark.parametrize("interrupt", INTERRUPTS)
def test_an_interrupt_in_an_expiry_hook_keeps_other_deadlines(interrupt, manual_clock):
    log: list[str] = []
    purgatory = Purgatory(timer=Timer(clock=manual_clock))
    operations = watched(
        purgatory,
        Recorded(log, "a", timeout=1),
        Recorded(log, "bad", timeout=1, then=raising(interrupt)),
        Recorded(log, "b", timeout=1),
        Recorded(log, "c", timeout=1),
    )
    log.clear()
    with pytest.raises(interrupt):
        manual_clock.advance(1)
    manual_clock.advance(1)
    assert [operation.outcome for operation in operations] == [Outcome.EXPIRED] * 4
    hooks = [f"{name} {hook}" for name in ("a", "bad", "b", "c") for hook in ("completed", "expired")]
    assert log == hooks
    purgatory.check_invariants()
    assert purgatory.timer.pending == 0


@pytest.mark.parametrize("interrupt", INTERRUPTS)
def test_two_interrupts_in_a_row_lose_nothing(interrupt, purgatory):
    log: list[str] = []
    watched(
        purgatory,
        *(Recorded(log, name, then=raising(interrupt)) for name in "ab"),
        Recorded(log, "c"),
    )
    log.clear()
    with pytest.raises(interrupt):
        purgatory.complete_for_key("k")
    free = DelayedOperation()
    with pytest.raises(interrupt):
        free.force_complete()
    assert free.outcome is Outcome.COMPLETED
    DelayedOperation().force_complete()
    assert log == ["a completed", "b completed", "c completed"]
