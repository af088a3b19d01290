"""``purgatory`` and ``python -m purgatory_async``: the command line, or what to install to have it."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line with the process's arguments.

    Raises:
        SystemExit: Always: 0 done, 2 refused (one sentence on standard error says why and what to do).
    """
    arguments = sys.argv[1:]
    # Inside: the library installs without the packages of an extra, and a traceback is no way to say so.
    try:
        if arguments[:1] == ["pipeline"]:  # needs nothing of the service's
            from purgatory_async.cli.pipeline import run  # noqa: PLC0415 - see above
        else:
            from purgatory_async.cli.commands import run  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        missing = (error.name or "purgatory_async").partition(".")[0]
        if missing == "purgatory_async":
            raise
        extra = "spark" if arguments[:1] == ["pipeline"] else "service"
        sys.stderr.write(
            f'purgatory: {missing} is not installed; run: pip install "purgatory-async[{extra}]"\n'
        )
        sys.exit(2)
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
