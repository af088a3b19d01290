"""Every command takes its times as durations, in the spellings of all other places, and as fractions."""

from math import inf

import click
import pytest

from purgatory_async.cli.arguments import Duration
from purgatory_async.cli.commands import purgatory
from tests.spellings import DURATIONS, FRACTIONS, NOT_DURATIONS, UNBOUNDED

PLAIN_NUMBERS = {"--rate"}  # of clients a second, in the demo
LEAST = {("demo", "--seconds"): 0.1, ("top", "--interval"): 0.1, ("link", "--expires-in"): 1}
ENDLESS = {("kafka", "--idle-timeout"), ("reschedule", "timeout")}


def options(command, *names):
    """The options and arguments of a command and of those in it, by where they are."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from options(inner, *names, name)
    for parameter in command.params:
        yield (*names, parameter.opts[0]), parameter


OPTIONS = dict(options(purgatory))
TIMES = {name: option.type for name, option in OPTIONS.items() if isinstance(option.type, Duration)}


def test_no_command_has_a_time_that_is_only_a_number():
    assert {name[0] for name in TIMES} == {
        *("ask", "demo", "extend", "kafka", "link", "put", "reschedule", "return", "take", "top", "wait")
    }
    numbers = {
        name[-1] for name, option in OPTIONS.items() if isinstance(option.type, click.types.FloatParamType)
    }
    assert numbers == PLAIN_NUMBERS


@pytest.mark.parametrize(("text", "seconds"), (DURATIONS | FRACTIONS).items())
def test_every_time_of_a_command_is_read(text, seconds):
    for name, kind in TIMES.items():
        if seconds >= LEAST.get(name, 0):
            assert kind.convert(text, OPTIONS[name], None) == seconds


@pytest.mark.parametrize("text", [*NOT_DURATIONS, *UNBOUNDED, "nan", "1e3", "-inf"])
def test_every_time_of_a_command_refuses_anything_else(text):
    for name, kind in TIMES.items():
        with pytest.raises(
            click.BadParameter, match=r"must (follow .*; write it as|be from .* seconds, got)"
        ):
            kind.convert(text, OPTIONS[name], None)


def test_only_an_idle_timeout_and_a_deadline_may_be_endless():
    for name, kind in TIMES.items():
        if name in ENDLESS:
            assert kind.convert("inf", OPTIONS[name], None) == inf
        else:
            with pytest.raises(click.BadParameter, match="must follow"):
                kind.convert("inf", OPTIONS[name], None)
