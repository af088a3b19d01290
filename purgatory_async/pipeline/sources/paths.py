"""Paths as Spark must be told them, whatever its default file system is and whatever is in their names."""

from pathlib import Path

__all__ = ["checkpoint_path", "spark_path"]


def spark_path(path: Path) -> str:
    r"""Name a file or directory of this machine to Spark's readers, which look for patterns in a name.

    >>> spark_path(Path("/data/run [7]/100%"))
    'file:///data/run \\[7\\]/100%'
    """
    return "".join(f"\\{letter}" if letter in r"\*?[]{}" else letter for letter in checkpoint_path(path))


def checkpoint_path(path: Path) -> str:
    """Name a directory of this machine for a checkpoint, which Spark takes as it is: a URI would be escaped twice.

    >>> checkpoint_path(Path("/data/run [7]/100%"))
    'file:///data/run [7]/100%'
    """
    return f"file://{path.absolute()}"
