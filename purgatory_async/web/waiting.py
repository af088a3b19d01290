"""How long a request is held: the query's ``wait``, else ``Prefer: wait=N``, cut, and shortened a little.

Pure: the random fraction of the jitter is an argument.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from purgatory_async.web.durations import GRAMMAR, duration_text, parse_duration

# RFC 7240: preferences between commas, the value a token or a quoted string, parameters after a semicolon.
_PREFERENCE: Final = re.compile(
    r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*(?:\"([^\"\\]*)\"|([^\s;,\"]*)))?\s*(?:;[^,]*)?\Z"
)


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait as it was decided.

    Attributes:
        seconds: How long; 0 is to check once.
        applied: The value of ``Preference-Applied``; None when no preference was (well) expressed.
    """

    seconds: float
    applied: str | None

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """``Preference-Applied``, where there is something to say."""
        return () if self.applied is None else (("Preference-Applied", self.applied),)


def asked_wait(query: str) -> float | None:
    """Read the ``wait`` of a query string whose other parameters are somebody else's.

    Args:
        query: What stands after the question mark, still encoded.

    Returns:
        Seconds; None if it asks for none.

    Raises:
        ValueError: It does not follow the grammar, or stands there twice; the message names it and the grammar.
    """
    values = [value for name, value in parse_qsl(query, keep_blank_values=True) if name == "wait"]
    if len(values) > 1:
        raise ValueError(f"wait must be given once, got {len(values)} of them, {values[1][:40]!a} the second")
    if not values:
        return None
    try:
        return parse_duration(values[0])
    except ValueError:
        raise ValueError(
            f"wait must follow {GRAMMAR}, as in 30s, 250ms or 2m (bare digits are seconds), "
            f"got {values[0][:40]!a}"
        ) from None


def preferred_wait(prefer: str | None) -> float | None:
    """Read the first ``wait`` of a ``Prefer`` header.

    Args:
        prefer: The header; None if there is none.

    Returns:
        Seconds; None without the preference, or with one that does not follow the grammar (it is ignored).
    """
    for preference in (prefer or "").split(","):
        match = _PREFERENCE.match(preference)
        if match is None or match[1].lower() != "wait":
            continue
        try:
            return parse_duration(match[2] if match[2] is not None else match[3] or "")
        except ValueError:
            return None
    return None


def decided_wait(asked: float | None, prefer: str | None, max_wait: float, *, otherwise: float = 0.0) -> Wait:
    """Decide for how long a request is held, before jitter.

    Args:
        asked: The query's ``wait`` in seconds; it wins. None if it has none.
        prefer: The ``Prefer`` header; None if there is none.
        max_wait: Seconds; a longer wait is cut, not refused.
        otherwise: Seconds where neither asks for a wait.

    Returns:
        The wait.
    """
    preferred = preferred_wait(prefer)
    wanted = preferred if asked is None else asked
    seconds = min(otherwise if wanted is None else wanted, max_wait)
    return Wait(seconds, None if preferred is None else f"wait={duration_text(seconds)}")


def shortened(seconds: float, jitter: float, fraction: float) -> float:
    """Take a random part of the jitter off a wait, so that polls which began together do not end together.

    Args:
        seconds: The wait.
        jitter: The largest share of it that may go.
        fraction: Random, from 0 to 1.

    Returns:
        Seconds, never more than they were.
    """
    return seconds * (1 - jitter * fraction)
