"""``purgatory`` and ``python -m purgatory_async``: run the command line, or name the extra to install."""

import sys
from contextlib import suppress

from purgatory_async.cli.standard_output import Output


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
        elif arguments[:1] == ["kafka"]:  # needs none either
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
    output = Output.take()
    try:
        code = run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except Exception:
        if output is None or output.failure is None:
            raise
        code = _end_of_output(output.failure)
    sys.exit(code)


def _end_of_output(failure: OSError) -> int:
    """Return the exit code; a closed pipe is the reader's wish, and needs no sentence."""
    if isinstance(failure, BrokenPipeError):
        return 1
    reason = f"cannot write to standard output: {failure.strerror}; make room, or write elsewhere"
    with suppress(OSError):
        sys.stderr.write(f"purgatory: {reason}\n")
    return 2


if __name__ == "__main__":
    main()
