"""``purgatory bench``: run the benchmarks of the checkout that the package is imported from."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import click

import purgatory_async

__all__ = ["bench_command", "benchmarks"]

_PURPOSES: Final = {
    "cluster": "The service on a store: its price over HTTP, and what chaos loses.",
    "core": "The core, compared with the event loops' own timers.",
    "journal": "The cost of a journal.",
    "kafka": "The Kafka broker, compared with others that serve Kafka's clients.",
    "patterns": "The patterns, compared with code written without them.",
    "pipeline": "Rows per second of each job, with Spark on this machine.",
    "proposal": "The purgatory proposal's benchmark: older designs and today's peers, from a low rate to overload.",
    "scaling": "Cost of an operation by number of waiters, number of keys and timeout.",
    "service": "The service's capacity, and its resistance to bad clients.",
}


def benchmarks(root: Path) -> list[str]:
    """The runnable packages in ``bench`` below a directory, in alphabetical order."""
    return sorted(path.parent.name for path in (root / "bench").glob("*/__main__.py"))


class _Bench(click.Command):
    """Lists the checkout's benchmarks in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """Write each benchmark's name and purpose."""
        with formatter.section("Benchmarks"):
            names = benchmarks(_root())
            formatter.write_dl([(name, _PURPOSES.get(name, "")) for name in names or _PURPOSES])


@click.command(
    "bench",
    cls=_Bench,
    # Arguments after the name, --help included, belong to the benchmark.
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def bench_command(context: click.Context, name: str, arguments: tuple[str, ...]) -> None:
    """Measure on this machine: run ``python -m bench.NAME`` of this checkout.

    \b
    Example:
      purgatory bench core --quick
      purgatory bench proposal --help
    """  # noqa: D301 - click reads the backspace as "keep these lines"
    root = _root()
    known = benchmarks(root)
    if not known:
        raise click.ClickException(
            f"no benchmarks found beside {root / 'purgatory_async'}: the package does not contain them; "
            "clone the repository, pip install -e '.[dev]' there, and run purgatory bench again"
        )
    if name not in known:
        raise click.UsageError(f"NAME must be one of {', '.join(known)}, got {name!r}")
    context.exit(_run(root, name, arguments))


def _root() -> Path:
    """The directory of the package; in a checkout it has ``bench``, too."""
    return Path(purgatory_async.__file__).parent.parent


def _run(root: Path, name: str, arguments: tuple[str, ...]) -> int:
    """Run a benchmark in a fresh process; returns its exit code.

    It keeps the working directory, so that relative paths work, and imports only from the checkout.
    """
    paths = (str(root), os.environ.get("PYTHONPATH", ""))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONSAFEPATH": "1",  # the working directory may have another bench
    }
    command = [sys.executable, "-m", f"bench.{name}", *arguments]
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - what the caller asked for
