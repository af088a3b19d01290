"""Which of the settings that were tried to take, and why."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["recommend"]

_NS: Final = 1_000_000_000
# What counts as no worse.
_ENOUGH: Final = 0.99  # of what the most generous setting completes
_LATE: Final = 0.01  # of the timeout
_SLACK: Final = 1.01  # of the fewest inserts

Line = Mapping[str, Any]


def recommend(lines: Sequence[Line]) -> dict[str, Any]:
    """Choose a setting, and say why.

    The shortest timeout with which nearly as many complete as with the longest: a longer one only keeps more waiting.
    Of that the coarsest tick whose lateness is next to nothing of the timeout, for fewer wakeups; of that the smallest
    wheel among those that move entries least. If the timeout is the longest of all, and operations
    expired under it, the reason ends with the advice to try longer ones.

    Args:
        lines: The settings with their figures, at least one.

    Returns:
        ``timeout, tick, wheel_size, why``.
    """
    most = max(line["completed"] for line in lines)
    enough = [line for line in lines if line["completed"] >= _ENOUGH * most]
    timeout = min(line["timeout"] for line in enough)
    of_timeout = [line for line in enough if line["timeout"] == timeout]
    punctual = [line for line in of_timeout if (line["lateness_mean_ns"] or 0) <= _LATE * timeout * _NS]
    tick = max((line["tick"] for line in punctual), default=min(line["tick"] for line in of_timeout))
    of_tick = [line for line in of_timeout if line["tick"] == tick]
    fewest = min(line["inserts_per_operation"] or 0 for line in of_tick)
    chosen = min(
        (line for line in of_tick if (line["inserts_per_operation"] or 0) <= _SLACK * fewest),
        key=lambda line: int(line["wheel_size"]),
    )
    why = _why(chosen, most)
    if chosen["expired"] and timeout == max(line["timeout"] for line in lines):
        left = chosen["expired"]
        why += f" Of the operations, {left} still expired, and no longer timeout was tried: try longer ones."
    return {name: chosen[name] for name in ("timeout", "tick", "wheel_size")} | {"why": why}


def _why(chosen: Line, most: int) -> str:
    if chosen["timeout_rate"] is None:
        return "The journal has no operations, so nothing speaks for one setting or another."
    late_ms = (chosen["lateness_mean_ns"] or 0) / 1e6
    return (
        f"{chosen['timeout']:g} s is the shortest timeout that completes at least {_ENOUGH:.0%} of the {most} "
        f"operations which the most generous setting completes: {chosen['completed']}, with "
        f"{chosen['pending_mean'] or 0:.1f} pending on average and {chosen['timeout_rate']:.2%} expired. "
        f"A tick of {chosen['tick']:g} s makes those {late_ms:.3g} ms late on average, and with "
        f"{chosen['wheel_size']} buckets a level the wheel inserts "
        f"{chosen['inserts_per_operation']:.3f} times an operation."
    )
