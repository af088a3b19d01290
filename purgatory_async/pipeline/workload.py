"""A workload of operations, made in blocks that know nothing of each other.

Operations arrive at random, at a rate; each would be completed after a random latency, and expires after a timeout.
Gaps between arrivals are exponential, latencies log-normal. Every block of 65 536 operations is made from the seed
and its own number alone. What it takes from the others is one integer: the sum of the gaps before it. So the same rows
come out in whatever order, and on however many machines, blocks are made.

>>> low = Workload(requests=100_000, rate=1000, p50=0.02, p75=0.06, timeout=0.2, keys=3, key_space=1000, seed=1)
>>> low.blocks, round(low.expected_timeout_rate, 4)
(2, 0.0787)
>>> low.rows(1, first_gap_ns=low.gap_sum_ns(0)).slice(0, 1).to_pylist()[0]["op_id"]
65536
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from purgatory_async.pipeline.variates import (
    distinct_numbers,
    exponential,
    log,
    lognormal,
    normal_quantile,
    uniforms,
)

BLOCK: Final = 65_536
GENERATOR_VERSION: Final = 1
"""Changes when the same settings give other rows."""

PROFILES: Final[Mapping[str, tuple[float, float]]] = {"low": (0.02, 0.06), "high": (0.2, 0.4)}
"""Median and third quartile of the latency, in seconds, of a system at rest and of one under load."""

SCHEMA: Final = pa.schema(
    [
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("submit_ns", pa.int64(), nullable=False),  # since the run's start
        pa.field("latency_ns", pa.int64(), nullable=False),
        pa.field("timeout_ns", pa.int64(), nullable=False),
        pa.field("watch_keys", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
    ]
)

# Streams of random numbers in each block; the keys have one for each place, from the last on.
_GAPS, _LATENCIES, _KEY_COUNTS, _KEYS = range(4)

_LONGEST_S: Final = 3e9
_BOUNDS: Final = {
    "requests": (1, 10**11, ""),
    "rate": (1e-6, 1e9, " operations per second"),
    **dict.fromkeys(("p50", "p75", "timeout"), (1e-9, _LONGEST_S, " seconds")),
    "key_space": (1, 2**31, ""),
    "keys": (1, 64, ""),
    "seed": (0, 2**64 - 1, ""),
}
_FARTHEST: Final = 8.21  # standard deviations; `uniforms` goes no farther
_NS: Final = 1e9
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is to be made.

    Args:
        requests: How many operations.
        rate: Arrivals per second, on average.
        p50: Median of the latency, in seconds.
        p75: Its third quartile, in seconds.
        timeout: The timeout of each operation, in seconds.
        keys: An operation watches 1 to this many distinct keys.
        key_space: Keys are numbers below this.
        seed: Chooses one of 2**64 workloads.

    Raises:
        ValueError: A value is out of its bounds; the message starts with its name.
    """

    requests: int
    rate: float
    p50: float
    p75: float
    timeout: float
    keys: int
    key_space: int
    seed: int

    def __post_init__(self) -> None:
        for name, (least, most, unit) in _BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:  # which NaN is not, either
                raise ValueError(f"{name} must be from {least} to {most}{unit}, got {value}")
        if self.keys > self.key_space:
            raise ValueError(
                f"keys must be at most key_space, since they are distinct, got {self.keys} of {self.key_space}"
            )
        if self.p75 <= self.p50:
            raise ValueError(f"p75 must be above p50, got {self.p75:g} with a p50 of {self.p50:g}")
        if self.mu + self.sigma * _FARTHEST > math.log(2**63):
            raise ValueError(
                f"p75 must be closer to p50: with {self.p50:g} and {self.p75:g} seconds some latencies would take "
                f"longer than {2**63 / _NS:.1e} seconds"
            )
        if self.requests / self.rate > _LONGEST_S:
            raise ValueError(
                f"rate must be higher: {self.requests} operations at {self.rate:g} per second take longer than "
                f"{_LONGEST_S:g} seconds"
            )

    @property
    def blocks(self) -> int:
        """How many blocks there are; all but the last are full."""
        return -(-self.requests // BLOCK)

    @property
    def timeout_ns(self) -> int:
        """The timeout in nanoseconds."""
        return round(self.timeout * _NS)

    @property
    def mu(self) -> float:
        """Mean of the logarithms of the latencies in nanoseconds."""
        return _log(self.p50 * _NS)

    @property
    def sigma(self) -> float:
        """Deviation of the logarithms of the latencies."""
        return _log(self.p75 / self.p50) / float(normal_quantile(np.array([0.75]))[0])

    @property
    def expected_timeout_rate(self) -> float:
        """The share of operations whose latency is not below the timeout, in theory."""
        return math.erfc((math.log(self.timeout_ns) - self.mu) / (self.sigma * math.sqrt(2))) / 2

    def gap_sum_ns(self, block: int) -> int:
        """The time from the last arrival before a block to the last one in it. O(BLOCK)."""
        return int(self._gaps_ns(block).sum())

    def rows(self, block: int, first_gap_ns: int) -> pa.RecordBatch:
        """Make a block's operations. O(BLOCK * keys**2).

        Args:
            block: From 0 on.
            first_gap_ns: When the last operation before it was submitted: the sum of the blocks' gaps before this one.

        Returns:
            The columns of `SCHEMA`, a row for each operation in the order of ``op_id``.
        """
        size = self._size(block)
        columns = [
            np.arange(block * BLOCK, block * BLOCK + size),
            first_gap_ns + np.cumsum(self._gaps_ns(block)),
            _whole(lognormal(uniforms(self.seed, block, _LATENCIES, size), self.mu, self.sigma)),
            np.full(size, self.timeout_ns),
            self._watch_keys(block),
        ]
        return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=SCHEMA)

    def _gaps_ns(self, block: int) -> npt.NDArray[np.int64]:
        mean_ns = _NS / self.rate
        return _whole(exponential(uniforms(self.seed, block, _GAPS, self._size(block))) * mean_ns)

    def _watch_keys(self, block: int) -> pa.ListArray:
        size = self._size(block)
        counts = 1 + np.floor(uniforms(self.seed, block, _KEY_COUNTS, size) * self.keys).astype(np.int64)
        places = [uniforms(self.seed, block, _KEYS + place, size) for place in range(self.keys)]
        numbers, counted = distinct_numbers(counts, places, self.key_space)
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.ListArray.from_arrays(ends, numbers[counted], type=SCHEMA.field("watch_keys").type)

    def _size(self, block: int) -> int:
        return min(BLOCK, self.requests - block * BLOCK)


def block_digest(rows: pa.RecordBatch) -> bytes:
    """BLAKE2b of a block's columns one after another, 8 bytes a number; lists as their lengths, then their items."""
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for column in rows.columns:
        parts = (column.value_lengths(), column.flatten()) if pa.types.is_list(column.type) else (column,)
        for part in parts:
            found.update(part.to_numpy().astype("<i8").tobytes())
    return found.digest()


def checksum(digests: Iterable[bytes]) -> str:
    """BLAKE2b of the blocks' digests, which must come in the order of the blocks."""
    return hashlib.blake2b(b"".join(digests), digest_size=_DIGEST_BYTES).hexdigest()


def _whole(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.rint(numbers).astype(np.int64)


def _log(number: float) -> float:
    return float(log(np.array([number]))[0])
