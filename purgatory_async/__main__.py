"""``purgatory`` and ``python -m purgatory_async``: run the command line, or name the extra to install."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line with the process's arguments.

    Raises:
        SystemExit: Always: 0 done, 2 refused (one sentence on standard error gives the reason and the next step).
    """
    arguments = sys.argv[1:]
    # Inside: the library installs without extras, and a missing one deserves a sentence, not a traceback.
    try:
        if arguments[:1] == ["pipeline"]:  # needs no extra of the service
            from purgatory_async.cli.pipeline import run  # noqa: PLC0415 - see above
        elif arguments[:1] == ["kafka"]:  # likewise
            from purgatory_async.cli.kafka import run  # noqa: PLC0415 - see above
        else:
            from purgatory_async.cli.commands import run  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        missing = (error.name or "purgatory_async").partition(".")[0]
        if missing == "purgatory_async":
            raise
        extra = {"kafka": "kafka", "pipeline": "spark"}.get("".join(arguments[:1]), "service")
        sys.stderr.write(
            f'purgatory: {missing} is not installed; run: pip install "purgatory-async[{extra}]"\n'
        )
        sys.exit(2)
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
