"""Results and exceptions as texts that must be the same in both builds."""

import asyncio
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["attempt", "error_text", "noted_warnings"]


def error_text(error: BaseException | None) -> str:
    """The type, message, notes and causes of an exception."""
    if error is None:
        return "no error"
    # An attribute error names what the interpreter looked for, in its own words.
    told = f"{type(error).__name__}: {error if not isinstance(error, AttributeError) else ''}"
    told += "".join(f" note {note}" for note in getattr(error, "__notes__", ()))
    told += f" from ({error_text(error.__cause__)})" if error.__cause__ is not None else ""
    hidden = error.__suppress_context__ or error.__context__ is None
    return told if hidden else f"{told} in ({error_text(error.__context__)})"


def attempt(call: Callable[..., object], *arguments: object) -> object:
    """What a call returns, or the text of what it raises."""
    try:
        return call(*arguments)
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - every one is compared
        return error_text(error)


@contextmanager
def noted_warnings(log: list[object]) -> Iterator[None]:
    """Put warnings into a log, each time and not only the first."""

    def note(message: Warning | str, category: type[Warning], *_: object) -> None:
        log.append(("warning", category.__name__, str(message)))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        yield
