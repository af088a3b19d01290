"""Every way of ending, for everything that can end: reference counts alone free it, with the collector off."""

import asyncio
import sys
from collections.abc import Callable, Coroutine

import pytest

from purgatory_async import DelayedOperation, Purgatory, Timer
from purgatory_async.testing import ManualClock, settle
from tests.faults.test_garbage import collector_off

Awaited = Coroutine[object, object, object]


class Scene:
    """A purgatory on a manual clock, and a condition that holds, does not hold, or raises."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock)
        self.purgatory = Purgatory(timer=self.timer)
        self.tasks: list[asyncio.Task[object]] = []
        self.is_open = self.raises = self.hooks_raise = False

    def condition(self) -> bool:
        if self.raises:
            raise LookupError
        return self.is_open

    def cancel_tasks(self) -> None:
        for task in self.tasks:
            task.cancel()

    def check(self) -> None:
        self.purgatory.check_and_complete("door")

    def check_open(self) -> None:
        self.is_open = True
        self.check()

    def check_raising(self) -> None:
        self.raises = True
        self.check()

    def complete_with_raising_hook(self) -> None:
        self.hooks_raise = True
        self.purgatory.complete_for_key("door", self)


class Visit(DelayedOperation[object]):
    """Asks its scene."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(1)
        self.scene = scene

    def try_complete(self) -> bool:
        try:
            return self.scene.condition() and self.force_complete(self.scene)
        finally:
            del self  # a failed operation keeps its exception, whose traceback keeps this frame

    def on_complete(self) -> None:
        if self.scene.hooks_raise:
            raise LookupError


# What ends. Each starts it, and returns what tasks are to await.


def watched(scene: Scene) -> list[Awaited]:
    scene.purgatory.try_complete_else_watch(Visit(scene), ["door", "gate"])
    return []


def run(scene: Scene) -> list[Awaited]:
    return [scene.purgatory.run(Visit(scene), ["door"])]


def waited_for(scene: Scene) -> list[Awaited]:
    return [scene.purgatory.wait("door", "gate", timeout=1)]


def waited_until(scene: Scene) -> list[Awaited]:
    return [scene.purgatory.wait("door", until=scene.condition, timeout=1)]


def shared(scene: Scene) -> list[Awaited]:
    visit = Visit(scene)
    scene.purgatory.try_complete_else_watch(visit, ["door"])
    return [awaited(visit) for _ in range(3)]


async def awaited(operation: DelayedOperation[object]) -> object:
    try:
        return await operation
    finally:
        del operation  # no cycle through this frame


KINDS = (watched, run, waited_for, waited_until, shared)

ENDINGS: dict[str, Callable[[Scene], object]] = {
    "completed by a check": lambda scene: scene.check_open(),
    "completed by its key": lambda scene: scene.purgatory.complete_for_key("door", scene),
    "failed": lambda scene: scene.purgatory.fail_for_key("door", LookupError()),
    "cancelled for its key": lambda scene: scene.purgatory.cancel_for_key("door"),
    "expired": lambda scene: scene.clock.advance(1),
    "closed": lambda scene: scene.purgatory.close(),
    "its timer closed": lambda scene: scene.timer.close(),
    "its tasks cancelled": lambda scene: scene.cancel_tasks(),
    "completed and its tasks cancelled": lambda scene: (scene.check_open(), scene.cancel_tasks()),
    "failed by its check": lambda scene: scene.check_raising(),
    "its hook raised": lambda scene: scene.complete_with_raising_hook(),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_no_ending_leaves_anything_to_the_collector(
    kind: Callable[[Scene], list[Awaited]], ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # of hooks that raise
    with collector_off():
        scene = Scene()
        scene.tasks = [asyncio.create_task(each) for each in kind(scene)]
        await settle()
        # By the loop: the frames that a traceback leads to keep what they hold, and this one holds the tasks.
        asyncio.get_running_loop().call_soon(ENDINGS[ending], scene)
        await settle()
        scene.purgatory.close()
        await settle()
        assert all(task.done() for task in scene.tasks)
        seen = [task.cancelled() or task.exception() for task in scene.tasks]  # else asyncio reports it
        scene.tasks.clear()
        del scene, seen


# An eager task that raises at once is a cycle by itself, whatever it runs.
unless_eager = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])


def fill(scene: Scene) -> None:
    scene.purgatory.max_pending = 1
    scene.purgatory.try_complete_else_watch(DelayedOperation(), ["gate"])


def raise_at_once(scene: Scene) -> None:
    scene.raises = True


REFUSALS: dict[str, Callable[[Scene], object]] = {
    "full": fill,
    "closed": lambda scene: scene.purgatory.close(),
    "its timer closed": lambda scene: scene.timer.close(),
    "its first check raises": raise_at_once,
}


@unless_eager
@pytest.mark.parametrize("kind", [run, waited_for, waited_until], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_no_refusal_leaves_anything_to_the_collector(
    kind: Callable[[Scene], list[Awaited]], refusal: str
) -> None:
    with collector_off():
        scene = Scene()
        REFUSALS[refusal](scene)
        task = asyncio.create_task(kind(scene)[0])
        await settle()
        scene.purgatory.cancel_for_key("gate")  # a wait without a condition has no first check
        await settle()
        assert task.exception() is not None
        scene.purgatory.close()
        del scene, task


@unless_eager
@pytest.mark.parametrize("keys", [(), (["door"],), ("gate", {})], ids=["no key", "a list", "a dict"])
async def test_no_wrong_key_leaves_anything_to_the_collector(keys: tuple[object, ...]) -> None:
    scene = Scene()
    with collector_off():
        for each in (scene.purgatory.wait(*keys), scene.purgatory.run(Visit(scene), keys)):
            task = asyncio.create_task(each)
            await settle()
            assert isinstance(task.exception(), (TypeError, ValueError))
        del task, each


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_a_wait_that_is_dropped_leaves_nothing_to_the_collector() -> None:
    scene = Scene()
    with collector_off():
        scene.purgatory.wait("door", until=scene.condition)
        scene.purgatory.wait("door").close()


HANDLES: dict[str, Callable[[Timer], object]] = {
    "closed": Timer.close,
    "raising": lambda timer: timer.call_later(0.5, int, "no number"),
    "dropped": lambda _: None,
}


@pytest.mark.parametrize("end", HANDLES)
@pytest.mark.parametrize("delay", [0, 1, float("inf")])
def test_no_handle_leaves_anything_to_the_collector(
    end: str, delay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with collector_off():
        clock = ManualClock()
        timer = Timer(clock=clock)
        handle = timer.call_later(delay, int)
        HANDLES[end](timer)
        clock.advance(0.7)
        handle.reschedule(2)
        clock.advance(3)
        del clock, timer, handle


@pytest.mark.parametrize("end", ["check_open", "check_raising", "complete_with_raising_hook"])
def test_without_a_loop_too_nothing_is_left_to_the_collector(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with collector_off():
        scene = Scene()
        watched(scene)
        getattr(scene, end)()
        del scene
