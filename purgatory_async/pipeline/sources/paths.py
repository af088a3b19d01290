"""Paths for Spark, independent of its default file system and safe for any name."""

from pathlib import Path

__all__ = ["checkpoint_path", "spark_path"]


def spark_path(path: Path) -> str:
    r"""A local path for Spark's readers, which expand patterns in names.

    >>> spark_path(Path("/data/run [7]/100%"))
    'file:///data/run \\[7\\]/100%'
    """
    return "".join(f"\\{letter}" if letter in r"\*?[]{}" else letter for letter in checkpoint_path(path))


def checkpoint_path(path: Path) -> str:
    """A local path for a checkpoint, which Spark does not unescape: a URI would be escaped twice.

    >>> checkpoint_path(Path("/data/run [7]/100%"))
    'file:///data/run [7]/100%'
    """
    return f"file://{path.absolute()}"
