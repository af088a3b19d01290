"""Strict query strings: known names only, values by their grammar, no repeats except keys and prefixes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from purgatory_async.durable.documents import MAX_COUNT, MAX_VOTERS, CountNeed, WireNeed, problems
from purgatory_async.durable.documents.decoding import decoded_integer
from purgatory_async.durable.history import Since
from purgatory_async.durable.verbs.signals import since_in
from purgatory_async.durations import ADVICE, GRAMMAR, parse_duration
from purgatory_async.service.contract.percent import percent_decoded

KNOWN_ONLY: Final = "a parameter of this path"
NEED_GRAMMAR: Final = "any, all, amount:N with N from 1 to 2^53-1, or voters:N with N from 1 to 10000"


# Close to the grammar: no leading zeros, up to 10^15-1 and 9999.
NEED_PATTERN: Final = "^(any|all|amount:[1-9][0-9]{0,14}|voters:[1-9][0-9]{0,3})$"
_USUAL: Final = re.compile(
    rb"[a-z]++=[!$'()*,\-.0-9:;@A-Z_a-z~]*+(?:&[a-z]++=[!$'()*,\-.0-9:;@A-Z_a-z~]*+)*+"
).fullmatch
_USUAL_READ: Final = re.compile(rb"(?:index=([0-9]{1,18})(?:&|\Z))?(?:wait=([0-9]{1,6})s)?").fullmatch
_NEED: Final = re.compile(r"any|all|(amount|voters):([0-9]{1,16})")


@dataclass(frozen=True, slots=True)
class Query:
    """The values of a request's query parameters, by name."""

    values: Mapping[str, Sequence[str]]

    def integer(self, name: str, lowest: int, highest: int) -> int | None:
        """Return an integer parameter within its bounds, None if it is absent.

        Raises:
            Problem: ``bad-parameter``.
        """
        values = self.values.get(name)
        return None if values is None else decoded_integer(name, values[0], lowest, highest)

    def switch(self, name: str) -> bool:
        """Return a parameter that is 0 or 1, False if it is absent.

        Raises:
            Problem: ``bad-parameter``.
        """
        return name in self.values and bool(self.integer(name, 0, 1))

    def wait(self) -> float | None:
        """Return ``wait`` in seconds, None if it is absent.

        Raises:
            Problem: ``bad-parameter``.
        """
        values = self.values.get("wait")
        if values is None:
            return None
        try:
            return parse_duration(values[0])
        except ValueError:
            raise problems.bad_parameter("wait", values[0], GRAMMAR, ADVICE) from None

    def need(self) -> WireNeed:
        """Return ``need``, "any" if it is absent.

        Raises:
            Problem: ``bad-parameter``.
        """
        value = self.values.get("need", ["any"])[0]
        match = _NEED.fullmatch(value)
        if match is not None and match[1] is None:
            return "any" if value == "any" else "all"
        count = 0 if match is None else int(match[2])
        if match is None or not 1 <= count <= (MAX_COUNT if match[1] == "amount" else MAX_VOTERS):
            raise problems.bad_parameter("need", value, NEED_GRAMMAR)
        return CountNeed(amount=count) if match[1] == "amount" else CountNeed(voters=count)

    def text(self, name: str) -> str | None:
        """Return a parameter without a grammar, None if it is absent."""
        return self.values.get(name, [None])[0]

    def keys(self, name: str = "key") -> Sequence[str]:
        """Return every ``key``, or every ``prefix``."""
        return self.values.get(name, [])

    def since(self) -> Since | None:
        """Return ``since``, None if it is absent.

        Raises:
            Problem: ``bad-parameter``.
        """
        values = self.values.get("since")
        return None if values is None else since_in(values[0])

    def only_with(self, wanted: str, *names: str) -> None:
        """Check that some parameters are given only beside another one.

        Raises:
            Problem: ``bad-parameter``.
        """
        for name in names:
            if name in self.values and wanted not in self.values:
                raise problems.bad_parameter(name, self.values[name][0], f"given together with {wanted}")


_EMPTY: Final = Query({})


def usual_read(raw: bytes) -> tuple[int | None, float | None] | None:
    """Return ``index`` and ``wait`` in seconds of a read as most clients write it; None if it is written otherwise."""
    match = _USUAL_READ(raw)
    if match is None:
        return None
    index, wait = match.groups()
    return None if index is None else int(index), None if wait is None else float(wait)


def parse_query(raw: bytes, known: frozenset[str], *, repeated: frozenset[str] = frozenset()) -> Query:
    """Parse the text after the question mark.

    Args:
        raw: The text.
        known: The path's parameters.
        repeated: The parameters that may repeat.

    Raises:
        Problem: ``bad-parameter``, or ``bad-key`` for a key that cannot be decoded.
    """
    if not raw:
        return _EMPTY
    values: dict[str, list[str]] = {}
    if _USUAL(raw) and (usual := _usual(raw.decode(), known)):
        return Query(usual)
    for piece in raw.replace(b"+", b" ").split(b"&"):
        if not piece:
            continue
        raw_name, _, raw_value = piece.partition(b"=")
        name = _decoded_name(raw_name)
        if name not in known:
            raise problems.bad_parameter(
                name, _lossy(raw_value), f"{KNOWN_ONLY}: {', '.join(sorted(known)) or 'none'}"
            )
        if name in values and name not in repeated:
            raise problems.bad_parameter(name, _lossy(raw_value), "given once")
        try:
            values.setdefault(name, []).append(percent_decoded(raw_value))
        except ValueError:
            if name in {"key", "prefix"}:
                raise problems.bad_key(raw_value, "must be percent-encoded UTF-8") from None
            raise problems.bad_parameter(name, _lossy(raw_value), "percent-encoded UTF-8") from None
    return Query(values)


def _usual(text: str, known: frozenset[str]) -> dict[str, list[str]] | None:
    """Return the values of a query in which nothing is escaped; None if a name is unknown or given twice."""
    values: dict[str, list[str]] = {}
    for piece in text.split("&"):
        name, _, value = piece.partition("=")
        if name not in known or name in values:
            return None
        values[name] = [value]
    return values


def _decoded_name(raw: bytes) -> str:
    try:
        return percent_decoded(raw)
    except ValueError:
        return _lossy(raw)


def _lossy(raw: bytes) -> str:
    """Decode bytes for display, at most 200."""
    return raw[:200].decode("ascii", "backslashreplace")
