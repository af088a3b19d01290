"""What the command line of the proposal's benchmark offers."""

import argparse
from collections.abc import Callable
from pathlib import Path

from bench.designs import DESIGNS
from bench.measure.loops import LOOPS
from bench.proposal.plan import OWN
from bench.proposal.point import CASES, HARNESS
from bench.proposal.waits import WAITS

__all__ = ["CONTESTANTS", "parser", "positive"]

CONTESTANTS = (HARNESS, *DESIGNS, *WAITS)
RATES = (10_000, 20_000, 30_000, 50_000, 80_000, 120_000, 200_000)


def parser(purpose: str | None) -> argparse.ArgumentParser:
    """Make the parser; its result has an attribute for each field of `bench.proposal.plan.Plan`, and more."""
    made = argparse.ArgumentParser(prog="python -m bench.proposal", description=purpose)
    made.add_argument("--quick", action="store_true", help="small numbers: shows that it runs, not how fast")
    _who(made)
    made.add_argument(
        "--loops", type=_some_of(LOOPS), default=LOOPS, help=f"of {','.join(LOOPS)}; default: all"
    )
    made.add_argument("--cases", type=_some_of(tuple(CASES)), default=tuple(CASES), help="of low,high")
    made.add_argument(
        "--collectors", type=_some_of(("default", "recipe")), default=("default",), help="of default,recipe"
    )
    made.add_argument(
        "--wheel-sizes",
        type=_sizes,
        default=(OWN, 20),
        metavar="SIZES",
        help="of the designs that have a wheel, such as own,20,512; default: own,20",
    )
    made.add_argument(
        "--rates", type=_rates, default=RATES, help="offered per second; the flood is always added"
    )
    made.add_argument("--requests", type=positive, default=1_000_000, help="of a point, at most")
    made.add_argument(
        "--longest", type=float, default=10.0, help="seconds for which requests of a point come"
    )
    made.add_argument("--repeats", type=positive, default=3, help="readings of each point")
    made.add_argument("--seed", type=int, default=1, help="of arrivals, latencies and the order of points")
    made.add_argument(
        "--out", type=Path, metavar="DIR", help="write readings.json and readings.parquet there"
    )
    return made


def _who(made: argparse.ArgumentParser) -> None:
    """Some by name, or one of the two kinds; the harness goes with a kind, so that net figures can be shown."""
    who = made.add_mutually_exclusive_group()
    who.add_argument(
        "--only",
        action="append",
        choices=CONTESTANTS,
        dest="contestants",
        metavar="CONTESTANT",
        help=f"repeatable; of {', '.join(CONTESTANTS)}",
    )
    for flag, names in (("--callback", DESIGNS), ("--awaited", WAITS)):
        who.add_argument(
            flag,
            action="store_const",
            const=(HARNESS, *names),
            dest="contestants",
            help=f"only {', '.join((HARNESS, *names))}",
        )


def _some_of(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def _read(text: str) -> tuple[str, ...]:
        """Names separated by commas, each once."""
        chosen = tuple(dict.fromkeys(text.split(",")))
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)!r} is not among {', '.join(known)}")
        return chosen

    return _read


def positive(text: str) -> int:
    """A whole number of at least 1, from the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def _rates(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(positive, text.split(","))))


def _sizes(text: str) -> tuple[int, ...]:
    sizes = (OWN if word == "own" else positive(word) for word in text.split(","))
    return tuple(dict.fromkeys(sizes))
