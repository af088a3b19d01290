"""Both builds answer alike to the interpreter and to subclasses, and refuse what would corrupt a list."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest

from purgatory_async import DelayedOperation, Purgatory, PurgatoryError, Timer
from purgatory_async.testing import ManualClock
from purgatory_async.timing import HashedWheel, TimerEntry, TimingWheel
from tests.native.built import environment_of, needs_compiled_core
from tests.source_tree import ROOT


def answers(*, pure: bool) -> list[str]:
    """The lines of one build."""
    shown = subprocess.run(
        [sys.executable, "-m", "tests.native.surface"],
        cwd=ROOT,
        env=environment_of(pure=pure),
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stderr == ""
    return shown.stdout.splitlines()


@needs_compiled_core
def test_both_builds_give_the_same_answers() -> None:
    reference, compiled = answers(pure=True), answers(pure=False)
    assert len(reference) > 700
    differing = [pair for pair in zip(reference, compiled, strict=True) if len(set(pair)) > 1]
    assert differing == []


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize(
    "make",
    [
        DelayedOperation,
        lambda: Purgatory(timer=Timer(clock=ManualClock())),
        Timer,
        lambda: Timer(clock=ManualClock()).call_later(1, int),
        lambda: TimerEntry(3),
        TimingWheel,
        HashedWheel,
    ],
    ids=["operation", "purgatory", "timer", "handle", "entry", "timing wheel", "hashed wheel"],
)
def test_what_is_linked_cannot_be_copied_or_pickled(
    make: Callable[[], object], copier: Callable[[object], object]
) -> None:
    it = make()
    with pytest.raises(TypeError, match=rf"^cannot copy or pickle a {type(it).__name__}; make a new one$"):
        copier(it)


def test_the_coroutine_of_a_wait_is_no_operation() -> None:
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    wait = purgatory.wait("k")
    with pytest.raises(TypeError, match=r"^operation must be a DelayedOperation, got <coroutine object"):
        purgatory.try_complete_else_watch(wait, ["k"])  # type: ignore[arg-type]  # as a caller may
    wait.close()


def test_a_wait_without_a_loop_is_refused_and_leaves_nothing() -> None:
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    for coroutine in (purgatory.wait("k", timeout=3), purgatory.run(DelayedOperation(3), ["k"])):
        with pytest.raises(PurgatoryError, match=r"^no event loop is running: cannot await an operation$"):
            coroutine.send(None)
    assert (purgatory.pending, purgatory.timer.pending) == (0, 0)


def test_a_table_without_lists_is_no_system_error() -> None:
    purgatory = Purgatory(timer=Timer(clock=ManualClock()))
    with pytest.raises((AttributeError, TypeError)):
        purgatory._leave_shared(None, DelayedOperation())  # type: ignore[arg-type]  # as misuse does
    lists = purgatory._watchers
    purgatory._watchers = None  # type: ignore[assignment]  # as misuse does
    with pytest.raises((AttributeError, TypeError)):
        purgatory.try_complete_else_watch(DelayedOperation(), ["k"])
    purgatory._watchers = lists
