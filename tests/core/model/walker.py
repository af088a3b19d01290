"""A seeded walk over the purgatory and its reference, in episodes of different moods.

python -m tests.core.model.walker 7                   a million steps
python -m tests.core.model.walker 7 --episode 41      what a failing walk prints: that episode alone
"""

import argparse
from random import Random
from time import perf_counter

from tests.core.model.lockstep import Lockstep
from tests.core.model.script import (
    ADVANCES,
    CHECKS,
    GATES,
    GROUPS,
    KEYS,
    QUEUES,
    RAISED,
    TICKS,
    TIMEOUTS,
    Plan,
)

EPISODE = 2_000  # steps
LOOK_INSIDE = 8  # steps between two checks of the invariants; a check costs as much as a step

# How often what is done, in one and the same episode: from outside, and by a hook.
FROM_OUTSIDE = {
    "submit": 30,
    "submit_again": 1,
    "check": 12,
    "complete": 5,
    "fail": 1,
    "cancel": 2,
    "flip": 5,
    "force_complete": 4,
    "force_fail": 1,
    "force_cancel": 4,
    "cancel_among_touchy_keys": 2,
    "reschedule": 4,
    "advance": 20,
    "advance_to_next": 5,
    "close": 0.2,
}
BY_A_HOOK = {
    "submit": 5,
    "submit_again": 1,
    "check": 4,
    "complete": 4,
    "fail": 1,
    "cancel": 1,
    "flip": 2,
    "force_complete": 3,
    "force_fail": 1,
    "force_cancel": 2,
    "throw": 1,
    "reschedule": 2,
    "advance": 1,
    "close": 0.1,
}
# What each verb is drawn from. An age is an operation, counted from the latest.
AGES = (0, 1, 2, 4, 8)
ARGUMENTS = {
    "check": (KEYS,),
    "complete": (KEYS, (None, "result", 0)),
    "fail": (KEYS,),
    "cancel": (KEYS,),
    "force_complete": (AGES, (None, "forced")),
    "force_fail": (AGES,),
    "force_cancel": (AGES,),
    "cancel_among_touchy_keys": (AGES, range(1, 6)),
    "reschedule": (AGES, TIMEOUTS),
    "submit_again": (AGES,),
    "flip": (range(GATES),),
    "throw": (tuple(RAISED),),
    "close": (),
    "advance_to_next": (),
}


class DivergenceError(AssertionError):
    """The purgatory differs from the reference; the message says how to reproduce it."""


def walk(seed, steps):
    """Walk at least this many steps, in whole episodes; returns how many."""
    episodes = -(-steps // EPISODE)
    for episode in range(episodes):
        walk_episode(seed, episode)
    return episodes * EPISODE


def walk_episode(seed, episode):
    """One episode, independent of those before."""
    chance = Chance(Random(f"{seed}:{episode}"))
    lockstep = chance.lockstep()
    step = 0
    try:
        for step in range(EPISODE):
            lockstep.perform(
                ("open",) if lockstep.reference.purgatory.closed else chance.command(FROM_OUTSIDE)
            )
            if step % LOOK_INSIDE == 0:
                lockstep.check_invariants()
        lockstep.close()
    except Exception as error:
        lockstep.real.purgatory.close()
        again = f"python -m tests.core.model.walker {seed} --episode {episode}"
        raise DivergenceError(f"step {step}: {error}\nTo see it again: {again}") from error


class Chance:
    """Draws what happens in one episode.

    Args:
        random: Where chance comes from.
    """

    def __init__(self, random):
        self.random = random
        self.any = random.choice
        # Some episodes are crowded, some nearly idle; some move by parts of a tick, some by months.
        self.crowd = self.any((0.5, 1, 4))
        self.advances = ADVANCES[: self.any((6, 9, len(ADVANCES)))]

    def lockstep(self):
        """A new pair."""
        limits = (None, None, 1, 5, 40)
        return Lockstep(self.any(tuple(QUEUES)), self.any(TICKS), self.any(limits), self.any(limits))

    def command(self, odds, depth=0):
        """A command, and what it needs."""
        weights = [weight * self.crowd if verb == "submit" else weight for verb, weight in odds.items()]
        (verb,) = self.random.choices(tuple(odds), weights)
        return (verb, *self.arguments(verb, depth))

    def arguments(self, verb, depth):
        """The arguments of a verb."""
        if verb == "submit":
            return (self.plan(depth),)
        if verb == "advance":
            return (self.any(self.advances),)
        return tuple(self.any(values) for values in ARGUMENTS[verb])

    def plan(self, depth):
        """What an operation is going to do; the hooks of what a hook submits do nothing of the kind."""
        return Plan(
            keys=self.any((*GROUPS, tuple(self.random.choices(KEYS, k=self.any((1, 1, 2, 4)))))),
            timeout=self.any(TIMEOUTS),
            gate=self.random.randrange(GATES),
            check=self.any(("complete", *CHECKS)),
            on_complete=self.hook(depth),
            on_expiration=self.hook(depth),
            touchy=self.any((0, 0, 0, 1, 2, 3, 5, 8)),
        )

    def hook(self, depth):
        """Commands for a hook; most do nothing."""
        how_many = 0 if depth == 2 else self.any((0, 0, 0, 0, 1, 2))
        return tuple(self.command(BY_A_HOOK, depth + 1) for _ in range(how_many))


def main():
    """Walk from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.core.model.walker")
    parser.add_argument("seed", type=int)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--episode", type=int)
    arguments = parser.parse_args()
    if arguments.episode is not None:
        walk_episode(arguments.seed, arguments.episode)
        print(f"seed {arguments.seed}, episode {arguments.episode}: no divergence")  # noqa: T201
        return
    begin = perf_counter()
    steps = walk(arguments.seed, arguments.steps)
    seconds = perf_counter() - begin
    print(f"seed {arguments.seed}: {steps} steps, no divergence, {steps / seconds:.0f} steps/s")  # noqa: T201


if __name__ == "__main__":
    main()
