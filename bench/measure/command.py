"""A benchmark as a command: its options, and its sections one after another."""

import argparse
import dataclasses
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Generic

from bench.measure.extra import needing
from bench.measure.loops import LOOPS
from bench.measure.machine import describe_machine
from bench.measure.report import as_json, header, introduction, summary
from bench.measure.section import Row, S, Section

__all__ = ["Benchmark", "loops", "positive"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark(Generic[S]):
    """What is measured by one command.

    Args:
        package: Its name after ``python -m``.
        purpose: What it measures.
        modules: The modules of its package ``sections``; what they export is run and printed in this order.
        settings: How much is measured.
        extra: What it needs beside ``dev``.
        chooses_loop: Whether ``--loops`` is offered; what runs in another process has the loop that it has there.
        bounded: Settings with sizes, of which ``--most`` leaves out the larger ones; it is offered if there are any.
    """

    package: str
    purpose: str
    modules: Sequence[str]
    settings: S
    extra: str = "dev"
    chooses_loop: bool = True
    bounded: Sequence[str] = ()

    def sections(self) -> dict[str, Section[S]]:
        """Import the sections; by name, in their order.

        Raises:
            SystemExit: 2, if a package is not installed.
        """
        with needing(self.extra):
            modules = [import_module(f"{self.package}.sections.{name}") for name in self.modules]
        exported = (getattr(module, name) for module in modules for name in module.__all__)
        return {each.name: each for each in exported if isinstance(each, Section)}

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run the sections asked for; returns 0, whatever the figures: they are shown, not judged."""
        sections = self.sections()
        options = self._parser(sections).parse_args(arguments)
        settings, machine = self._settings(options), describe_machine()
        print(header(self.purpose, machine, settings, quick=options.quick))
        started = time.monotonic()
        results = {name: _rows(sections[name], settings) for name in options.only or sections}
        print(summary(results, time.monotonic() - started, quick=options.quick))
        if options.json is not None:
            options.json.write_text(as_json(machine, settings, results), encoding="utf-8")
        return 0

    def _parser(self, sections: Mapping[str, Section[S]]) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog=f"python -m {self.package}", description=self.purpose)
        parser.add_argument(
            "--quick", action="store_true", help="small numbers: shows that it runs, not how fast"
        )
        parser.add_argument(
            "--only",
            action="append",
            choices=list(sections),
            metavar="SECTION",
            help=f"repeatable; of {', '.join(sections)}",
        )
        parser.set_defaults(loops=self.settings.loops, most=None)
        if self.chooses_loop:
            parser.add_argument("--loops", type=loops, help=f"of {','.join(LOOPS)}; default: all")
        if self.bounded:
            parser.add_argument("--most", type=positive, metavar="SIZE", help="leave out larger sizes")
        parser.add_argument("--repeats", type=positive, help="samples of each subject")
        parser.add_argument(
            "--seed", type=int, default=self.settings.seed, help="of shuffles and drawn timeouts"
        )
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the lines there too")
        return parser

    def _settings(self, options: argparse.Namespace) -> S:
        size = self.settings.quick() if options.quick else self.settings
        changed: dict[str, Any] = {"loops": options.loops, "seed": options.seed}
        if options.most is not None:
            for name in self.bounded:
                changed[name] = tuple(one for one in getattr(size, name) if one <= options.most)
        if options.repeats is not None:
            changed |= {"rounds": options.repeats, "heavy_rounds": options.repeats}
        return dataclasses.replace(size, **changed)


def loops(text: str) -> tuple[str, ...]:
    """Read the names of loops of an option."""
    chosen = tuple(text.split(","))
    unknown = [loop for loop in chosen if loop not in LOOPS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{', '.join(unknown)!r} is not among the loops here, {', '.join(LOOPS)}"
        )
    return chosen


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
