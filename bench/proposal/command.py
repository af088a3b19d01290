"""Run the proposal's benchmark: every design and every peer, from a calm rate to the flood.

Requests arrive at random, each carries 100 bytes and is answered after a random latency, or expires after 200 ms. A
request ends in a callback (the designs, which watch the same three keys as in the proposal), or is a task that waits
for a key of its own (the peers). Every point is run in a process of its own, one at a time.
"""

import argparse
import dataclasses
import datetime as dt
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.measure.build import BUILDS, environment
from bench.measure.machine import Machine, describe_machine
from bench.proposal.files import save
from bench.proposal.lost import compared, losses
from bench.proposal.options import CONTESTANTS, parser
from bench.proposal.plan import Plan
from bench.proposal.point import Point, Reading
from bench.proposal.results import Measured, heading, line

__all__ = ["read", "run"]

PATIENCE_S = 600.0


def run(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for.

    Returns:
        0 whatever the figures are; 1 if a reading could not be taken.
    """
    options = parser(__doc__).parse_args(arguments)
    plan = Plan(
        contestants=options.contestants or CONTESTANTS,
        loops=options.loops,
        cases=options.cases,
        rates=(20_000,) if options.quick else options.rates,
        collectors=options.collectors,
        wheel_sizes=options.wheel_sizes,
        pure=BUILDS,
        requests=5_000 if options.quick else options.requests,
        longest_s=options.longest,
        repeats=1 if options.quick else options.repeats,
        seed=options.seed,
    )
    machine = describe_machine()
    print(_described(machine, plan))
    command = _command(sys.argv[1:] if arguments is None else arguments)
    date = f"{dt.datetime.now(dt.UTC):%Y-%m-%d}"
    measured = Measured(readings={}, machine=machine, command=command, date=date)
    # Kept after every round: who kills a run of hours loses minutes.
    for readings, failed in _rounds(plan):
        measured = dataclasses.replace(measured, readings=readings, failed=failed)
        if options.out is not None:
            save(options.out, measured)
    _report(measured, quick=options.quick)
    return 1 if measured.failed else 0


def _command(arguments: Sequence[str]) -> str:
    """The command that repeats the measurement, without the paths of its output."""
    where = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    where.add_argument("--out")
    return shlex.join(["python", "-m", "bench.proposal", *where.parse_known_args(arguments)[1]])


def _described(machine: Machine, plan: Plan) -> str:
    build = "profile-guided build" if machine.optimised_build else "build without profile-guided optimisation"
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.system}; {machine.python}, {build}; uvloop {machine.uvloop}; "
        f"seed {plan.seed}; {plan.repeats} readings of each point, in turns: medians and range"
    )


def _rounds(plan: Plan) -> Iterator[tuple[dict[Point, list[Reading]], list[str]]]:
    """Take all readings; yields what there is after each round, and what failed. An interrupt is the last round."""
    readings: dict[Point, list[Reading]] = {}
    failed: list[str] = []
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            for number, points in enumerate(plan.rounds(readings), 1):
                task = progress.add_task("", total=len(points))
                for point in points:
                    step = f"round {number}: {point.offered} {point.case} {point.loop} {point.name}"
                    progress.update(task, description=step)
                    of_point = readings.setdefault(point, [])
                    try:
                        of_point.append(dataclasses.replace(read(point), round_number=number))
                    except subprocess.SubprocessError as error:
                        failed.append(_failure(point, error))
                    progress.advance(task)
                progress.remove_task(task)
                yield _taken(readings), failed
    except KeyboardInterrupt:
        failed.append("interrupted: what follows in the plan was not measured")
        yield _taken(readings), failed


def _taken(readings: Mapping[Point, list[Reading]]) -> dict[Point, list[Reading]]:
    return {point: of_point for point, of_point in readings.items() if of_point}


def read(point: Point) -> Reading:
    """Run a point in a process of its own.

    Raises:
        subprocess.CalledProcessError: It failed; what it said is on standard error.
        subprocess.TimeoutExpired: It took longer than ten minutes.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench.proposal.run", json.dumps(dataclasses.asdict(point))],
        check=True,
        env=environment(pure=point.pure),
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
    )
    return Reading(**json.loads(done.stdout))


def _failure(point: Point, error: subprocess.SubprocessError) -> str:
    how = (
        f"took longer than {PATIENCE_S:.0f} s"
        if isinstance(error, subprocess.TimeoutExpired)
        else "failed, see above"
    )
    return f"{point.name} at {point.offered} on {point.loop}, {point.case}, {how}"


def _report(measured: Measured, *, quick: bool) -> None:
    readings = measured.readings
    print(heading())
    for point in readings:
        print(line(readings, point))
    found = [str(loss) for loss in losses(readings)]
    pairs = sum(1 for _ in compared(readings))
    print(f"\nanother contestant was better in {len(found)} figures; {pairs} pairs of points were compared")
    for sentence in found:
        print(f"  {sentence}")
    for sentence in measured.failed:
        print(f"NOT MEASURED: {sentence}")
    if quick:
        print("quick: numbers too small for the figures to mean anything; it shows that all runs")
