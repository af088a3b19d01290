"""How long to hold a request: the query's ``wait``, else ``Prefer: wait=N``, at most a limit, less some jitter."""

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from purgatory_async.durations import duration_text, parse_duration

RETRY_SPREAD: Final = 10  # seconds over which refused clients come back

# RFC 7240: preferences between commas, the value a token or a quoted string, parameters after a semicolon.
_PREFERENCE: Final = re.compile(
    r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*(?:\"([^\"\\]*)\"|([^\s;,\"]*)))?\s*(?:;[^,]*)?\Z"
)


class Wait(NamedTuple):
    """A decided wait.

    Attributes:
        seconds: How long; 0 checks once.
        applied: The value of ``Preference-Applied``; None without a well-formed preference.
    """

    seconds: float
    applied: str | None

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """``Preference-Applied``, if a preference applied."""
        return () if self.applied is None else (("Preference-Applied", self.applied),)


NO_WAIT: Final = Wait(0.0, None)
"""To check once, as without a wish."""


def asked_wait(query: str) -> float | None:
    """Read the ``wait`` of an encoded query string, in seconds; None without one.

    Raises:
        ValueError: It is malformed or repeated; the message names it and the grammar.
    """
    values = [value for name, value in parse_qsl(query, keep_blank_values=True) if name == "wait"]
    if len(values) > 1:
        raise ValueError(f"wait must be given once, got {len(values)} of them, {values[1][:40]!a} the second")
    return parse_duration(values[0], "wait") if values else None


def preferred_wait(prefer: str | None) -> float | None:
    """Read the first ``wait`` of a ``Prefer`` header, in seconds; None without one, or if it is malformed."""
    if prefer is None:
        return None
    for preference in prefer.split(","):
        match = _PREFERENCE.match(preference)
        if match is None or match[1].lower() != "wait":
            continue
        try:
            return parse_duration(match[2] if match[2] is not None else match[3] or "")
        except ValueError:
            return None
    return None


def decided_wait(asked: float | None, prefer: str | None, max_wait: float, *, otherwise: float = 0.0) -> Wait:
    """Decide how long to hold a request, before jitter.

    Args:
        asked: The query's ``wait`` in seconds, which wins; None without one.
        prefer: The ``Prefer`` header; None without one.
        max_wait: Seconds; a longer wait is cut, not refused.
        otherwise: Seconds if neither asks for a wait.
    """
    preferred = preferred_wait(prefer)
    wanted = preferred if asked is None else asked
    seconds = min(otherwise if wanted is None else wanted, max_wait)
    return Wait(seconds, None if preferred is None else f"wait={duration_text(seconds)}")


def shortened(seconds: float, jitter: float, fraction: float) -> float:
    """Shorten a wait by a random fraction of its jitter, so that polls which began together do not end together."""
    return seconds * (1 - jitter * fraction)
