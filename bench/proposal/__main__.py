"""``python -m bench.proposal``; see `bench.proposal.command`."""

import sys
from collections.abc import Sequence

from bench.measure.extra import needing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, if all that it needs is installed."""
    with needing("spark"):
        from bench.proposal.command import run  # noqa: PLC0415 - what is missing is said in a sentence
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
