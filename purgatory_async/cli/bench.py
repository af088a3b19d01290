"""``purgatory bench``: the measurements of the checkout that the command is run from."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import click

import purgatory_async

__all__ = ["bench_command", "benchmarks"]

_PURPOSES: Final = {
    "core": "The core, beside the event loops' own timers.",
    "journal": "What the journal costs.",
    "patterns": "The patterns, beside what one writes without them.",
    "pipeline": "Rows a second of each job, on a Spark of this machine's.",
    "proposal": "The purgatory proposal's benchmark: older designs and today's peers, from a calm rate to the flood.",
    "scaling": "Cost of an operation against how many wait, on how many keys, for how long.",
    "service": "What the service holds, and what its clients cannot do to it.",
}


def benchmarks(root: Path) -> list[str]:
    """The packages in ``bench`` below a directory that can be run, in alphabetical order."""
    return sorted(path.parent.name for path in (root / "bench").glob("*/__main__.py"))


class _Bench(click.Command):
    """Lists the benchmarks that are there in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """Write each name and what it measures."""
        with formatter.section("Benchmarks"):
            names = benchmarks(_root())
            formatter.write_dl([(name, _PURPOSES.get(name, "")) for name in names or _PURPOSES])


@click.command(
    "bench",
    cls=_Bench,
    # What follows the name is the benchmark's, its --help too.
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def bench_command(context: click.Context, name: str, arguments: tuple[str, ...]) -> None:
    """Measure on this machine: run ``python -m bench.NAME`` of the checkout that this is run from.

    \b
    Example:
      purgatory bench core --quick
      purgatory bench proposal --help
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    root = _root()
    known = benchmarks(root)
    if not known:
        raise click.ClickException(
            f"there are no benchmarks beside {root / 'purgatory_async'}: they are in the source, not in the package; "
            "clone the repository, pip install -e '.[dev]' there, and run purgatory bench again"
        )
    if name not in known:
        raise click.UsageError(f"there is no benchmark {name!r}; there are {', '.join(known)}")
    context.exit(_run(root, name, arguments))


def _root() -> Path:
    """Where the package lies: in a checkout, beside ``bench``."""
    return Path(purgatory_async.__file__).parent.parent


def _run(root: Path, name: str, arguments: tuple[str, ...]) -> int:
    """Run it in a process of its own, as its figures are of a fresh one; its exit code.

    It runs where the caller is, so that a path means what it says, and imports from the checkout alone.
    """
    paths = (str(root), os.environ.get("PYTHONPATH", ""))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONSAFEPATH": "1",  # a directory of the caller's that is called bench is none of ours
    }
    command = [sys.executable, "-m", f"bench.{name}", *arguments]
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - what the caller asked for
