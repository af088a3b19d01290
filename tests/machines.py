"""The base of Hypothesis' state machines: how long their stories are, and the loops that they run on."""

import asyncio
from collections.abc import Callable
from importlib.util import find_spec

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.conftest import new_uvloop

__all__ = ["LoopMachine", "explore", "on_each_loop"]


def explore(machine: Callable[[], RuleBasedStateMachine], examples: int, steps: int) -> None:
    """Look for the shortest story of up to ``steps`` steps that breaks a promise, in so many examples."""
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))


class LoopMachine(RuleBasedStateMachine):
    """A machine whose rules act on a loop of its own; it stands still between them."""

    new_loop: Callable[[], asyncio.AbstractEventLoop] = staticmethod(asyncio.SelectorEventLoop)
    loop: asyncio.AbstractEventLoop | None = None

    def open_loop(self) -> None:
        """Begin a story; what hooks and callbacks raise is noted in ``reported``."""
        self.loop = self.new_loop()
        self.reported: list[dict[str, object]] = []
        self.loop.set_exception_handler(lambda _, context: self.reported.append(context))

    def end(self) -> None:
        """Check what must hold at the end of a story that has begun, on the loop that is still open."""

    def teardown(self) -> None:
        """End the story."""
        if self.loop is not None:
            try:
                self.end()
            finally:
                self.loop.close()


def on_each_loop(machine: type[LoopMachine]) -> pytest.MarkDecorator:
    """A parameter ``machine`` for a test: the machine on the stock loop, and on uvloop where it is installed."""
    other = type(f"{machine.__name__}OnUvloop", (machine,), {"new_loop": staticmethod(new_uvloop)})
    lacking = pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed")
    return pytest.mark.parametrize(
        "machine", [pytest.param(machine, id="asyncio"), pytest.param(other, id="uvloop", marks=lacking)]
    )
