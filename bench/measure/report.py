"""A benchmark's output around its rows: machine and settings, the summary, and all of it as JSON."""

import dataclasses
import json
import textwrap
from collections.abc import Mapping, Sequence

from bench.measure.line import Verdict
from bench.measure.machine import Machine
from bench.measure.section import Conditions, Row, S, Section

__all__ = ["Results", "as_json", "header", "introduction", "summary"]

WIDTH = 150

Results = Mapping[str, Sequence[Row]]
"""The rows of each section, by its name."""


def header(title: str, machine: Machine, settings: Conditions, *, quick: bool) -> str:
    """Machine, loops, numbers, and how to read a figure."""
    build = "profile-guided build" if machine.optimised_build else "build without profile-guided optimisation"
    facts = {
        "machine": f"{machine.cpu}, {machine.cores} cores, {machine.system}",
        "python": f"{machine.python}, {build}; uvloop {machine.uvloop}; loops {', '.join(settings.loops)}",
        "numbers": f"{settings.numbers()}; seed {settings.seed}",
        **settings.conventions(),
    }
    if quick:
        facts["quick"] = "numbers too small for meaningful figures; it shows that everything runs"
    return "\n".join([title, *(f"{name:<10}{fact}" for name, fact in facts.items())])


def introduction(section: Section[S]) -> str:
    """What stands above the rows of a section."""
    timed = textwrap.fill(section.timed, WIDTH, initial_indent="   timed: ", subsequent_indent="   ")
    return f"\n== {section.name}: {section.title}\n{timed}\n{section.heading}"


def summary(results: Results, seconds: float, *, quick: bool) -> str:
    """How many targets were met, and the rows that missed theirs."""
    judged = [
        (name, row) for name, rows in results.items() for row in rows if row.verdict is not Verdict.SHOWN
    ]
    missed = [(name, row) for name, row in judged if row.verdict is Verdict.MISSED]
    met = len(judged) - len(missed)
    head = f"\n{met} of {len(judged)} targets met, {len(missed)} missed, in {seconds:.0f} s"
    width = max(10, *(len(name) + 1 for name in results))
    tail = [f"  {name:<{width}}{row}" for name, row in missed]
    return "\n".join([head + (" (quick: no verdict)" if quick else ""), *tail])


def as_json(machine: Machine, settings: Conditions, results: Results) -> str:
    """The machine, the settings and every row with its section and verdict."""
    document = {
        "machine": dataclasses.asdict(machine),
        "settings": dataclasses.asdict(settings),
        "lines": [
            {"section": name, **dataclasses.asdict(row), "verdict": row.verdict}
            for name, rows in results.items()
            for row in rows
        ],
    }
    return json.dumps(document, indent=2) + "\n"
