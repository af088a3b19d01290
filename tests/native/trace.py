"""What one build does in a random script: a hash every thousand steps, or the steps of one block in full.

python -m tests.native.trace timers 7                 20 hashes
python -m tests.native.trace timers 7 --show 12       the thousand steps of block 12
PURGATORY_ASYNC_PURE=1 python -m tests.native.trace timers 7 --show 12
"""

import argparse
import hashlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import purgatory_async
from tests.native.argument_script import argument_steps
from tests.native.purgatory_script import purgatory_steps
from tests.native.task_script import task_steps
from tests.native.timer_script import timer_steps
from tests.native.wheel_script import wheel_steps

BLOCK = 1_000  # steps
SCRIPTS: dict[str, Callable[[int], Iterator[str]]] = {
    "arguments": argument_steps,
    "eager tasks": partial(task_steps, eager=True),
    "purgatory": purgatory_steps,
    "tasks": task_steps,
    "timers": timer_steps,
    "wheels": wheel_steps,
}
ADDRESS = re.compile(r"\b0x[0-9a-f]+")


def steps_of(script: str, seed: int, plant: int | None) -> Iterator[str]:
    """The steps of a script without end, each as a text; the one to plant is changed."""
    for number, text in enumerate(SCRIPTS[script](seed)):
        yield f"step {number}: {ADDRESS.sub('0x', text)}{' planted' if number == plant else ''}"


def blocks_of(steps: Iterator[str], how_many: int) -> Iterator[str]:
    """A hash of each block of steps, and of all before."""
    digest = hashlib.sha256()
    for _ in range(how_many):
        for _ in range(BLOCK):
            digest.update(next(steps).encode())
        yield digest.hexdigest()[:16]


def block(steps: Iterator[str], number: int) -> Iterator[str]:
    """The steps of one block."""
    for _ in range(number * BLOCK):
        next(steps)
    for _ in range(BLOCK):
        yield next(steps)


def main() -> None:
    """Print the core that runs, and what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.native.trace")
    parser.add_argument("script", choices=SCRIPTS)
    parser.add_argument("seed", type=int)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--show", type=int, metavar="BLOCK")
    parser.add_argument("--plant", type=int, metavar="STEP", help="change this step's text")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    steps = steps_of(arguments.script, arguments.seed, arguments.plant)
    shown = blocks_of(steps, arguments.blocks) if arguments.show is None else block(steps, arguments.show)
    sys.stdout.write("compiled\n" if purgatory_async.compiled else "pure\n")
    for line in shown:
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
