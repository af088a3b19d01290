"""`checking`: the key of the check that is going on."""

import asyncio
from contextlib import nullcontext

import pytest

from purgatory_async import DelayedOperation, Purgatory, PurgatoryError
from tests.core.recording import Recorded, Switch


class Noting(DelayedOperation[None]):
    """Records the key of each check, and calls `then` in the check."""

    def __init__(self, purgatory, notes, then=lambda: False) -> None:
        super().__init__()
        self.purgatory, self.notes, self.then = purgatory, notes, then

    def try_complete(self) -> bool:
        self.notes.append(self.purgatory.checking)
        return self.then() and self.force_complete()

    def on_complete(self) -> None:
        self.notes.append(("hook", self.purgatory.checking))


def test_checking_is_the_key_of_the_check_and_else_none(purgatory):
    notes: list[object] = []
    keys = ["a", ("b", 1), 0]
    purgatory.try_complete_else_watch(Noting(purgatory, notes), keys)
    assert notes == [None]  # the first check is for all keys
    for key in keys:
        purgatory.check_and_complete(key)
        assert purgatory.checking is None
    assert notes == [None, *keys]
    purgatory.cancel_for_key("a")


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_checking_is_the_key_in_checks_and_none_in_hooks(limit, purgatory):
    notes: list[object] = []
    switch = Switch()
    for _ in range(2):
        purgatory.try_complete_else_watch(Noting(purgatory, notes, switch), ["a", "b"])
    notes.clear()
    switch.on = True
    completed = purgatory.check_and_complete("b", limit=limit)
    assert notes == ["b"] * completed + [("hook", None)] * completed
    purgatory.close()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_checking_is_none_after_a_check_that_raises(error, purgatory):
    switch = Switch()

    def then() -> bool:
        if switch():
            raise error("check")
        return False

    notes: list[object] = []
    purgatory.try_complete_else_watch(Noting(purgatory, notes, then), ["a"])
    purgatory.try_complete_else_watch(Noting(purgatory, notes), ["a", "b"])
    switch.on = True
    with pytest.raises(KeyboardInterrupt) if error is KeyboardInterrupt else nullcontext():
        purgatory.check_and_complete("a")
    assert purgatory.checking is None
    notes.clear()
    purgatory.check_and_complete("b")
    assert notes == ["b"]
    purgatory.close()


def test_checking_is_of_one_purgatory(purgatory):
    with_two: list[object] = []
    other = Purgatory(timer=purgatory.timer)
    inner = Noting(other, with_two, lambda: with_two.append(purgatory.checking))
    other.try_complete_else_watch(inner, ["inner"])
    switch = Switch()
    outer = Noting(purgatory, with_two, lambda: switch() and other.check_and_complete("inner") > 0)
    purgatory.try_complete_else_watch(outer, ["outer"])
    switch.on = True
    with_two.clear()
    purgatory.check_and_complete("outer")
    assert with_two == ["outer", "inner", "outer"]
    with_two.clear()
    other.check_and_complete("inner")
    assert with_two == ["inner", None]
    purgatory.close()
    other.close()


def test_a_refused_check_inside_a_check_keeps_the_key(purgatory):
    switch = Switch()
    seen = []

    def then() -> None:
        if switch():
            with pytest.raises(PurgatoryError):
                purgatory.check_and_complete("b")
            seen.append(purgatory.checking)

    purgatory.try_complete_else_watch(Noting(purgatory, [], then), ["a"])
    switch.on = True
    purgatory.check_and_complete("a")
    assert seen == ["a"]
    purgatory.close()


def test_a_first_check_by_a_hook_has_no_key(purgatory):
    notes: list[object] = []
    switch = Switch()
    late = Noting(purgatory, notes)
    first = Recorded([], holds=switch, then=lambda: purgatory.try_complete_else_watch(late, ["b"]))
    purgatory.try_complete_else_watch(first, ["a"])
    switch.on = True
    purgatory.check_and_complete("a")
    assert notes == [None]
    late.cancel()


def test_until_can_ask_for_the_key_of_its_check(purgatory):
    notes: list[object] = []

    async def main() -> None:
        task = asyncio.create_task(
            purgatory.wait("a", "b", until=lambda: notes.append(purgatory.checking) or len(notes) == 3)
        )
        await asyncio.sleep(0)
        purgatory.check_and_complete("b")
        purgatory.check_and_complete("a")
        await task

    asyncio.run(main())
    assert notes == [None, "b", "a"]
