"""A benchmark as a command: its options, and its sections one after another."""

import argparse
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic

from bench.measure.line import Verdict
from bench.measure.loops import LOOPS
from bench.measure.machine import describe_machine
from bench.measure.report import as_json, header, in_process, introduction, summary
from bench.measure.section import Row, S, Section

__all__ = ["Benchmark", "positive"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark(Generic[S]):
    """What is measured by one command.

    Args:
        module: Its name after ``python -m``.
        purpose: For ``--help``.
        title: First line of what it prints.
        sections: By name, in the order in which they are run and printed.
        full: How much is measured.
        quick: The same with ``--quick``.
        numbers: Says in words how much that is.
        conventions: Says how figures are taken, and how to read them.
        chooses_loop: Whether ``--loops`` is offered; what runs in another process has the loop that it has there.
        bounded: Settings with sizes, of which ``--most`` leaves out the larger ones; it is offered if there are any.
        offered: Settings that are options of their own, with what reads each.
        required: Sections whose targets must be met: the exit code is 1 otherwise.
    """

    module: str
    purpose: str
    title: str
    sections: Mapping[str, Section[S]]
    full: S
    quick: S
    numbers: Callable[[S], str]
    conventions: Callable[[S], Mapping[str, str]] = in_process
    chooses_loop: bool = True
    bounded: Sequence[str] = ()
    offered: Mapping[str, Callable[[str], Any]] = dataclasses.field(default_factory=dict[str, Any])
    required: Sequence[str] = ()

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run the sections asked for; 1 if a `required` one missed a target, else 0: figures are shown, not judged."""
        options = self._parser().parse_args(arguments)
        settings = self._settings(options)
        machine = describe_machine()
        sections = [self.sections[name] for name in options.only or self.sections]
        numbers, conventions = self.numbers(settings), self.conventions(settings)
        print(header(self.title, machine, settings, numbers, conventions, quick=options.quick))
        started = time.monotonic()
        results = {section.name: _rows(section, settings) for section in sections}
        print(summary(results, time.monotonic() - started, quick=options.quick))
        if options.json is not None:
            options.json.write_text(as_json(machine, settings, results), encoding="utf-8")
        judged = [row for name in self.required for row in results.get(name, ())]
        return int(any(row.verdict is Verdict.MISSED for row in judged))

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.purpose)
        parser.add_argument(
            "--quick", action="store_true", help="small numbers: shows that it runs, not how fast"
        )
        parser.add_argument(
            "--only", action="append", choices=list(self.sections), metavar="SECTION", help="repeatable"
        )
        parser.set_defaults(loops=self.full.loops)
        if self.chooses_loop:
            parser.add_argument("--loops", type=_loops, help=f"of {','.join(LOOPS)}; default: all")
        if self.bounded:
            parser.add_argument("--most", type=positive, metavar="SIZE", help="leave out larger sizes")
        for name, read in self.offered.items():
            shown = getattr(self.full, name)
            parser.add_argument(f"--{name}", type=read, help=f"default: {shown}")
        parser.add_argument("--repeats", type=positive, help="samples of each subject")
        parser.add_argument("--seed", type=int, default=self.full.seed, help="of shuffles and drawn timeouts")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the lines there too")
        return parser

    def _settings(self, options: argparse.Namespace) -> S:
        size = self.quick if options.quick else self.full
        settings = dataclasses.replace(size, loops=options.loops, seed=options.seed)
        if self.bounded and options.most is not None:
            kept: dict[str, Any] = {
                name: tuple(one for one in getattr(size, name) if one <= options.most)
                for name in self.bounded
            }
            settings = dataclasses.replace(settings, **kept)
        chosen: dict[str, Any] = {name: getattr(options, name) for name in self.offered}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        settings = dataclasses.replace(settings, **chosen)
        if options.repeats is None:
            return settings
        return dataclasses.replace(settings, rounds=options.repeats, heavy_rounds=options.repeats)


def _loops(text: str) -> tuple[str, ...]:
    loops = tuple(text.split(","))
    unknown = [loop for loop in loops if loop not in LOOPS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{', '.join(unknown)!r} is not among the loops here, {', '.join(LOOPS)}"
        )
    return loops


def positive(text: str) -> int:
    """Read a positive integer of an option."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _rows(section: Section[S], settings: S) -> list[Row]:
    """Run a section, printing each row when it is known."""
    print(introduction(section), flush=True)
    rows = []
    for row in section.lines(settings):
        print(row, flush=True)
        rows.append(row)
    return rows
