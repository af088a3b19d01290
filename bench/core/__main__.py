"""Measure the core of purgatory_async and print each figure beside its target."""

import argparse
import dataclasses
import json
import sys
import textwrap
import time
from pathlib import Path

from bench.core.sections import SECTIONS
from bench.measure.line import Line, Verdict, heading
from bench.measure.loops import LOOPS
from bench.measure.machine import Machine, describe_machine
from bench.measure.section import Section, Settings

FULL = Settings(
    operations=10_000, million=1_000_000, herd=100_000, rounds=9, heavy_rounds=3, loops=LOOPS, seed=1
)
QUICK = dataclasses.replace(FULL, operations=1_000, million=9_000, herd=1_000, rounds=2, heavy_rounds=1)

WIDTH = 150


def main(arguments: list[str] | None = None) -> int:
    """Run the sections asked for; 0 whatever they find, because figures are shown here and not judged."""
    options = _parser().parse_args(arguments)
    settings = _settings(options)
    machine = describe_machine()
    sections = [SECTIONS[name] for name in options.only or SECTIONS]
    print(_header(machine, settings, quick=options.quick))
    started = time.monotonic()
    results = {section.name: _run(section, settings) for section in sections}
    print(_summary(results, time.monotonic() - started, quick=options.quick))
    if options.json is not None:
        options.json.write_text(_as_json(machine, settings, results), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.core", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small numbers: shows that it runs, not how fast"
    )
    parser.add_argument(
        "--only", action="append", choices=list(SECTIONS), metavar="SECTION", help="repeatable"
    )
    parser.add_argument("--loops", type=_loops, default=LOOPS, help=f"of {','.join(LOOPS)}; default: all")
    parser.add_argument("--repeats", type=_positive, help="samples of each subject")
    parser.add_argument("--seed", type=int, default=FULL.seed, help="of shuffles and drawn timeouts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the lines there too")
    return parser


def _loops(text: str) -> tuple[str, ...]:
    loops = tuple(text.split(","))
    unknown = [loop for loop in loops if loop not in LOOPS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{', '.join(unknown)!r} is not among the loops here, {', '.join(LOOPS)}"
        )
    return loops


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _settings(options: argparse.Namespace) -> Settings:
    settings = dataclasses.replace(QUICK if options.quick else FULL, loops=options.loops, seed=options.seed)
    if options.repeats is None:
        return settings
    return dataclasses.replace(settings, rounds=options.repeats, heavy_rounds=options.repeats)


def _header(machine: Machine, settings: Settings, *, quick: bool) -> str:
    build = "profile-guided build" if machine.optimised_build else "build without profile-guided optimisation"
    facts = {
        "machine": f"{machine.cpu}, {machine.cores} cores, {machine.system}",
        "python": f"{machine.python}, {build}; uvloop {machine.uvloop}; loops {', '.join(settings.loops)}",
        "numbers": (
            f"N = {settings.operations:,} at once, {settings.million:,} for memory, cancel and garbage, "
            f"{settings.herd:,} for herd; seed {settings.seed}"
        ),
        "samples": (
            f"{settings.rounds} of each subject, in turns, after a round that is thrown away; "
            f"{settings.heavy_rounds} without where one takes seconds"
        ),
        "collector": "gc on: CPython's default thresholds; gc off; a full collection before each sample",
        "figures": (
            "medians; a ratio is that of neighbouring samples: median and quartiles; processor time, except "
            "that passes of the loop are wall time"
        ),
    }
    if quick:
        facts["quick"] = "numbers too small for the figures to mean anything; it shows that all runs"
    title = "purgatory_async: speed and memory of the core"
    return "\n".join([title, *(f"{name:<10}{fact}" for name, fact in facts.items())])


def _run(section: Section, settings: Settings) -> list[Line]:
    timed = textwrap.fill(section.timed, WIDTH, initial_indent="   timed: ", subsequent_indent="   ")
    print(f"\n== {section.name}: {section.title}\n{timed}\n{heading()}", flush=True)
    lines = []
    for line in section.lines(settings):
        print(line, flush=True)
        lines.append(line)
    return lines


def _summary(results: dict[str, list[Line]], seconds: float, *, quick: bool) -> str:
    judged = [
        (name, line) for name, lines in results.items() for line in lines if line.verdict is not Verdict.SHOWN
    ]
    missed = [(name, line) for name, line in judged if line.verdict is Verdict.MISSED]
    met = len(judged) - len(missed)
    head = f"\n{met} of {len(judged)} targets met, {len(missed)} missed, in {seconds:.0f} s"
    tail = [f"  {name:<10}{line}" for name, line in missed]
    return "\n".join([head + (" (quick: not to be judged)" if quick else ""), *tail])


def _as_json(machine: Machine, settings: Settings, results: dict[str, list[Line]]) -> str:
    lines = [
        {"section": name, **dataclasses.asdict(line), "verdict": line.verdict}
        for name, section_lines in results.items()
        for line in section_lines
    ]
    document = {
        "machine": dataclasses.asdict(machine),
        "settings": dataclasses.asdict(settings),
        "lines": lines,
    }
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
