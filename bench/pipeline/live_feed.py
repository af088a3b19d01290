"""Operations and signals as they happen, put into the inputs of the distributed purgatory a file at a time."""

import random
import time
from collections import deque
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["LiveFeed"]

SECOND: Final = 10**9
LONGEST_S: Final = 3.0
OPERATIONS: Final = pa.schema(
    [
        ("op_id", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("needed", pa.int32()),
        ("submit_ns", pa.int64()),
        ("timeout_ns", pa.int64()),
    ]
)
SIGNALS: Final = pa.schema([("key", pa.string()), ("at_ns", pa.int64()), ("n", pa.int32())])


class LiveFeed:
    """A producer: operations at a rate, on one to three keys, and a signal for two out of three of them.

    Timeouts are one to three seconds and signals up to four seconds after the submission, so some come too late.

    Args:
        operations: Directory to put files into.
        signals: Directory to put the signals into.
        seed: The seed of keys, timeouts and instants.
    """

    def __init__(self, operations: Path, signals: Path, seed: int) -> None:
        self.submitted = 0
        self._directories = operations, signals
        self._some = random.Random(seed)
        self._last_ns = time.time_ns()
        self._due: deque[tuple[int, str]] = deque()  # signals to come, in no strict order
        self._files = 0

    def pour(self, rate: float) -> None:
        """Write what has happened since the last call, with instants spread over the time between."""
        now_ns = time.time_ns()
        since_ns, self._last_ns = self._last_ns, now_ns
        count = round(rate * (now_ns - since_ns) / SECOND)
        rows = [self._operation(since_ns + (now_ns - since_ns) * i // count) for i in range(count)]
        due = [one for one in self._due if one[0] <= now_ns]
        self._due = deque(one for one in self._due if one[0] > now_ns)
        self._files += 1
        self._put(0, OPERATIONS, rows)
        self._put(1, SIGNALS, [(key, at_ns, 1) for at_ns, key in sorted(due)])

    def _operation(self, submit_ns: int) -> tuple[object, ...]:
        some, number = self._some, self.submitted
        self.submitted += 1
        keys = [f"k{number}-{i}" for i in range(some.randint(1, 3))]
        if some.random() < 2 / 3:
            self._due.append((submit_ns + int(some.uniform(0.01, 4) * SECOND), some.choice(keys)))
        return f"op{number}", keys, 1, submit_ns, int(some.uniform(1, LONGEST_S) * SECOND)

    def _put(self, which: int, schema: pa.Schema, rows: list[tuple[object, ...]]) -> None:
        if rows:
            path = self._directories[which] / f"{self._files:06}.parquet"
            unfinished = path.with_name(f".{path.name}")
            pq.write_table(
                pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema), unfinished
            )
            unfinished.rename(path)
