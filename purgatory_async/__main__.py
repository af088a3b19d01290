"""``purgatory`` and ``python -m purgatory_async``: the command line, or what to install to have it."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line with the process's arguments.

    Raises:
        SystemExit: Always: 0 done, 2 refused (one sentence on standard error says why and what to do).
    """
    # Inside: the library installs without the service's packages, and a traceback is no way to say so.
    try:
        from purgatory_async.cli.commands import run  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        missing = (error.name or "purgatory_async").partition(".")[0]
        if missing == "purgatory_async":
            raise
        sys.stderr.write(
            f'purgatory: {missing} is not installed; run: pip install "purgatory-async[service]"\n'
        )
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
