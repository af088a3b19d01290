"""Both builds, driven by the same random script in two processes, do and say the same.

Every result, exception, event, count, deadline and repr is compared. `tests.native.trace` shows one build alone.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from os.path import commonprefix

import pytest

from tests.native.built import NOT_BUILT, environment_of, needs_compiled_core
from tests.native.trace import BLOCK
from tests.source_tree import ROOT

# Thousands of steps of each script, and of the slow test: together more than a million.
BLOCKS = 2
MANY_BLOCKS = {
    "arguments": 200,
    "eager tasks": 200,
    "purgatory": 200,
    "tasks": 200,
    "timers": 200,
    "wheels": 200,
}
AROUND = 300  # characters of a step that are shown before and after the first difference
PLANTED = 1_234  # a step
Build = tuple[bool, tuple[str, ...]]
PURE, COMPILED = (True, ()), (False, ())
ABSENT = () if hasattr(asyncio, "eager_task_factory") else ("eager tasks",)
each_script = pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            script, marks=pytest.mark.skipif(script in ABSENT, reason="eager tasks need CPython 3.12")
        )
        for script in MANY_BLOCKS
    ],
)


def traces(builds: tuple[Build, Build], script: str, *arguments: str) -> list[list[str]]:
    """What two builds print, each in a process of its own: which core ran, then the lines asked for."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.native.trace", script, *arguments, *more],
            cwd=ROOT,
            env=environment_of(pure=pure) | {"PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for pure, more in builds
    ]
    printed = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, printed, strict=True):
        assert process.returncode == 0, errors
    for (out, _), (pure, _) in zip(printed, builds, strict=True):
        assert out.partition("\n")[0] == ("pure" if pure else "compiled"), NOT_BUILT
    return [out.splitlines()[1:] for out, _ in printed]


def first_difference(builds: tuple[Build, Build], script: str, seed: int, blocks: int) -> str | None:
    """The first step that two builds tell differently, as both tell it; None if there is none."""
    hashes = traces(builds, script, str(seed), "--blocks", str(blocks))
    assert len(hashes[0]) == blocks
    for number, pair in enumerate(zip_longest(*hashes)):
        if len(set(pair)) > 1:
            steps = traces(builds, script, str(seed), "--show", str(number))
            first, second = next(pair for pair in zip_longest(*steps) if pair[0] != pair[1])
            again = f"python -m tests.native.trace {script} {seed} --show {number}"
            step = first.partition(":")[0]
            return "\n".join((f"{again}, {step}", *shortened(first, second)))
    return None


def shortened(first: str, second: str) -> Iterator[str]:
    """Two texts from shortly before they begin to differ."""
    same = len(commonprefix((first, second)))  # noqa: RUF071 - these are no paths
    for text in (first, second):
        yield f"...{text[max(0, same - AROUND) : same]} >>> {text[same : same + AROUND]}..."


@needs_compiled_core
@each_script
def test_both_builds_tell_the_same_story(script: str) -> None:
    difference = first_difference((PURE, COMPILED), script, seed=1, blocks=BLOCKS)
    assert difference is None, difference


@needs_compiled_core
@pytest.mark.slow
@each_script
def test_both_builds_tell_the_same_story_in_a_million_steps(script: str) -> None:
    difference = first_difference((PURE, COMPILED), script, seed=2, blocks=MANY_BLOCKS[script])
    assert difference is None, difference


def test_a_planted_difference_is_shown_with_its_step() -> None:
    builds = (PURE, (True, ("--plant", str(PLANTED))))
    shown = first_difference(builds, "wheels", seed=1, blocks=BLOCKS)
    assert shown is not None
    where, first, second = shown.splitlines()
    assert where == f"python -m tests.native.trace wheels 1 --show {PLANTED // BLOCK}, step {PLANTED}"
    assert first.endswith(" >>> ...")
    assert second.endswith(" >>>  planted...")
