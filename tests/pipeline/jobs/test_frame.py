"""What the commands share: a journal stays while a command reads it, and times are durations."""

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.journal.reading import Readers
from purgatory_async.pipeline.jobs import distributed, report, stream, whatif, windows, workload
from purgatory_async.pipeline.jobs.frame import Seconds, journal_option, window_option
from tests.spellings import DURATIONS, FRACTIONS, NOT_DURATIONS


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


TIMES = [
    option
    for job in (distributed, report, stream, whatif, windows, workload)
    for option in job.command.params
    if isinstance(option.type, Seconds)
]


def is_number(text):
    """Whether Python reads a text as a number, as these options always have."""
    try:
        return float(text) is not None
    except ValueError:
        return False


def test_no_job_has_a_time_that_is_only_a_number():
    numbers = {
        option.name
        for job in (distributed, report, stream, whatif, windows, workload)
        for option in job.command.params
        if isinstance(option.type, click.types.FloatParamType)
    }
    assert numbers == {"rate"}  # of arrivals a second
    assert {option.name for option in TIMES} == {
        *("delay", "keep", "trigger", "timeouts", "ticks", "p50", "p75", "timeout")
    }


@pytest.mark.parametrize(("text", "seconds"), (DURATIONS | FRACTIONS).items())
def test_every_time_of_a_job_is_read(text, seconds):
    assert [option.type.convert(text, option, None) for option in TIMES] == [seconds] * len(TIMES)


@given(st.floats() | st.integers(-(10**20), 10**20))
def test_every_number_is_read_as_click_reads_it(number):
    for text in (str(number), f" {number}", repr(number).upper()):
        assert repr(Seconds().convert(text, None, None)) == repr(click.FLOAT.convert(text, None, None))


@pytest.mark.parametrize("text", [each for each in NOT_DURATIONS if not is_number(each.values[0])])
def test_every_time_of_a_job_refuses_anything_else(text):
    with pytest.raises(click.BadParameter, match=r"must follow .*; write it as"):
        Seconds().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        *((text, round(seconds * 10**9)) for text, seconds in DURATIONS.items() if seconds),
        *[("0.5", 500_000_000), ("1e-9", 1), ("60", 60 * 10**9), ("0.000000001", 1)],
    ],
)
def test_the_width_of_a_window_is_exact(text, nanoseconds):
    assert window_option_of(text) == nanoseconds


@pytest.mark.parametrize("text", ["0", "0ms", "-1", "nan", "inf", "1e-10", "0.5ms", "soon", "999999999d"])
def test_a_window_without_a_width_is_refused(text):
    with pytest.raises(click.BadParameter, match=r"must be a positive number .* or a duration such as 500ms"):
        window_option_of(text)


def window_option_of(text):
    """What a command gets for ``--window``."""
    seen = []

    @click.command
    @window_option
    def look(window_ns):
        seen.append(window_ns)

    look.main(["--window", text], standalone_mode=False)
    return seen[0]
