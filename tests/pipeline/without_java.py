"""A machine without Java, made from one that may have it."""

import os
import shutil
from pathlib import Path


def path_without_java(folder: Path) -> str:
    """A ``PATH`` of one directory with every program that is on ``PATH``, but java."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            # The first of a name counts, as on PATH.
            if program.name != "java" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)
