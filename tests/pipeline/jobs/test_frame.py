"""What the commands share: a journal whose old segments are removed stays while a command reads it."""

import click
import pytest
from click.testing import CliRunner

from purgatory_async.journal.reading import Readers
from purgatory_async.pipeline.jobs import report, stream, whatif, windows
from purgatory_async.pipeline.jobs.frame import journal_option


def free(directory):
    with Readers(directory).kept_out() as found:
        return found


@pytest.mark.parametrize(
    ("command", "follows"),
    [(report.command, False), (whatif.command, False), (windows.command, False), (stream.command, True)],
)
def test_a_journal_stays_while_a_command_reads_it(tmp_path, command, follows):
    seen = []

    @click.command
    @journal_option
    def look(journal, **_):
        seen.append(free(journal))

    look.params += [option for option in command.params if option.name == "wait"]
    (tmp_path / "run.node.000001.jsonl").touch()
    result = CliRunner().invoke(look, ["--journal", str(tmp_path)])
    assert (result.exit_code, seen) == (0, [follows]), result.output
    assert free(tmp_path)
