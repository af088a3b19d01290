"""Standard output that fails once if it cannot be written, such as to a full disk; needs no extra."""

import io
import sys
from typing import cast


class Output(io.FileIO):
    """A descriptor of which the first failure is raised, and later writes are dropped.

    So nothing is said twice, and leaving the program does not fail again.

    Attributes:
        failure: The first failure; None so far.
    """

    failure: OSError | None = None

    @classmethod
    def take(cls) -> "Output | None":
        """Put it below `sys.stdout`; None if that is no file, or closed."""
        stream = sys.stdout
        if not isinstance(stream, io.TextIOWrapper):
            return None
        try:
            output = cls(stream.fileno(), "wb", closefd=False)
        except OSError:
            return None
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(cast("io.RawIOBase", output)),  # it writes any buffer
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        return output

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]  # any buffer
        """Write, unless it failed before.

        Raises:
            OSError: It fails now.
        """
        if self.failure is not None:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise
