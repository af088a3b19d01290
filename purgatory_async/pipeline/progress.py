"""What a person sees while a job runs; a program that reads the output sees nothing of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

__all__ = ["progress"]


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Show on standard error, if it is a terminal, what is going on.

    Args:
        title: Of the job.

    Yields:
        Tells of a new step; its text stands beside the title until the next one.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(title)) as status:
        yield lambda step: status.update(Text(f"{title}: {step}"))
