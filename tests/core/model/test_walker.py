"""A purgatory and its reference, driven by chance for many steps, tell the same story."""

import pytest

from tests.core.model.lockstep import Lockstep
from tests.core.model.walker import DivergenceError, walk, walk_episode

FAST_STEPS, SLOW_STEPS = 15_000, 1_000_000

# Some plans make a check return a true value that completed nothing; the first one of a run is warned of.
pytestmark = pytest.mark.filterwarnings("ignore:.*RealOperation.try_complete returned:RuntimeWarning")


def test_fifteen_thousand_random_steps_do_as_the_reference() -> None:
    # The same every time, so that what is red on one machine is red on the next; others: walker.py's command.
    assert walk(seed=1, steps=FAST_STEPS) >= FAST_STEPS


@pytest.mark.slow
def test_a_million_random_steps_do_as_the_reference() -> None:
    assert walk(seed=2, steps=SLOW_STEPS) >= SLOW_STEPS


def test_a_divergence_prints_the_line_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.core.model.reference.Reference.due_ns", lambda reference, timeout: 1)
    with pytest.raises(DivergenceError, match=r"python -m tests\.core\.model\.walker 1 --episode 0$"):
        walk_episode(seed=1, episode=0)


def test_an_episode_is_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[list[object]] = [[], []]
    for performed in walks:
        monkeypatch.setattr(Lockstep, "perform", lambda lockstep, command, to=performed: to.append(command))
        walk_episode(seed=1, episode=3)
    assert walks[0] == walks[1]
