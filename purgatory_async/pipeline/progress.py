"""Shows a job's progress on a terminal, and nothing elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

__all__ = ["progress"]


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Show a job's title and step on standard error, if it is a terminal; yields a function that sets the step."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(title)) as status:
        yield lambda step: status.update(Text(f"{title}: {step}"))
